"""Our Adam against torch's."""

import torch

from sordino.gradients.adam import Adam


def test_the_same_steps_as_torchs():
    torch.manual_seed(0)
    ours = [torch.randn(5, 3), torch.randn(4)]
    theirs = [value.clone().requires_grad_() for value in ours]
    reference = torch.optim.AdamW(theirs, lr=0.03, weight_decay=0.1)
    adam = Adam(weight_decay=0.1)
    moments = adam.moments(ours)
    for number in range(1, 8):
        gradients = [torch.randn_like(value) for value in ours]
        adam.step(ours, gradients, moments, number=number, learning_rate=0.03)
        for value, gradient in zip(theirs, gradients, strict=True):
            value.grad = gradient
        reference.step()
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(ours, theirs, strict=True))
