"""The LeNet that attacks on gradients are shown on: sigmoids in place of ReLU, strides in place of pooling, large first weights."""

import math

from torch import nn


def sigmoid_lenet(shape, classes, width=12):
    """Three convolutions of 5 x 5 with sigmoids, and one dense layer."""
    channels, height, side = shape
    body = nn.Sequential(
        nn.Conv2d(channels, width, 5, stride=2, padding=2),
        nn.Sigmoid(),
        nn.Conv2d(width, width, 5, stride=2, padding=2),
        nn.Sigmoid(),
        nn.Conv2d(width, width, 5, padding=2),
        nn.Sigmoid(),
        nn.Flatten(),
    )
    places = math.ceil(math.ceil(height / 2) / 2) * math.ceil(math.ceil(side / 2) / 2)
    net = nn.Sequential(*body, nn.Linear(width * places, classes))
    for parameter in net.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5)
    return net
