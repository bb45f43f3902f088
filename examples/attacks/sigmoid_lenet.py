"""The LeNet that attacks on gradients are shown on: sigmoids in place of ReLU, strides in place of pooling, large first weights."""

import math
from dataclasses import dataclass

from torch import nn

from sordino.extend import AtLeastOne, Inputs, Net


@dataclass(frozen=True, kw_only=True)
class SigmoidLenet:
    """Three convolutions of 5 x 5 with sigmoids, and one dense layer."""

    width: AtLeastOne = 12

    def build(self, inputs: Inputs, classes: int) -> Net:
        channels, height, side = inputs.shape
        body = nn.Sequential(
            nn.Conv2d(channels, self.width, 5, stride=2, padding=2),
            nn.Sigmoid(),
            nn.Conv2d(self.width, self.width, 5, stride=2, padding=2),
            nn.Sigmoid(),
            nn.Conv2d(self.width, self.width, 5, padding=2),
            nn.Sigmoid(),
            nn.Flatten(),
        )
        places = math.ceil(height / 4) * math.ceil(side / 4)
        net = Net(body=body, head=nn.Linear(self.width * places, classes))
        for parameter in net.parameters():
            nn.init.uniform_(parameter, -0.5, 0.5)
        return net
