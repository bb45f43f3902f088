"""Body and head of a model that somebody wrote as one piece."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from sordino.models.parts import Net
from sordino.models.state import same_draws
from sordino.models.weights import SourceNet, user_state_dict


def told_apart(model: nn.Module, examples: Tensor) -> Net:
    """The model as a net with a body and a head, or as a whole whose head is empty.

    The head is the model's own attribute of that name, or the linear layer that is called last. It is taken for the head only if
    head(body(x)) is what the model computes, in either mode and also at other values of all parameters: a temperature of one or a
    shift of zero behind the head would otherwise go unnoticed. Under `user_state_dict` the net has the keys that its author knows.
    """
    keys = set(model.state_dict())
    with _elsewhere(model):
        expected = _answers(model, examples)
        last = _last_linear(model, examples)
        net = _split(model, last)
        if net is not None and _is_whole(net, keys) and _agrees(net, examples, expected):
            return model if isinstance(model, Net) else net
        if net is not None and net.body is model and last:
            model.set_submodule(last, net.head)
    return SourceNet(body=model, head=nn.Identity(), head_in_file="")


def _split(model: nn.Module, last: str | None) -> Net | None:
    body, head = getattr(model, "body", None), getattr(model, "head", None)
    if isinstance(body, nn.Module) and isinstance(head, nn.Module):
        return Net(body=body, head=head)
    if isinstance(model, nn.Linear):
        return SourceNet(body=nn.Identity(), head=model, head_in_file="")
    if not last:
        return None
    layer = model.get_submodule(last)
    model.set_submodule(last, nn.Identity())
    return SourceNet(body=model, head=layer, head_in_file=last)


def _last_linear(model: nn.Module, examples: Tensor) -> str | None:
    """The name of the linear layer that is called last."""
    called: list[str] = []
    hooks = [
        layer.register_forward_hook(lambda *_, name=name: called.append(name))
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear)
    ]
    try:
        _answers(model, examples)
    finally:
        for hook in hooks:
            hook.remove()
    return called[-1] if called else None


def _is_whole(net: Net, keys: set[str]) -> bool:
    """Whether nothing was left out of the parts, and nothing belongs to both."""
    shared = set(net.body.parameters()) & set(net.head.parameters())
    return not shared and set(user_state_dict(net)) == keys


def _agrees(net: Net, examples: Tensor, expected: list[Tensor]) -> bool:
    try:
        found = _answers(nn.Sequential(net.body, net.head), examples)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return False
    return all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def _answers(model: nn.Module, examples: Tensor) -> list[Tensor]:
    """What the model computes in evaluation and in training mode, with the same random draws."""
    modes = {layer: layer.training for layer in model.modules()}
    answers = []
    try:
        for training in (False, True):
            model.train(training)
            with same_draws(model), torch.no_grad():
                answers.append(model(examples))
    finally:
        for layer, mode in modes.items():
            layer.training = mode
    return answers


@contextmanager
def _elsewhere(model: nn.Module) -> Iterator[None]:
    """Inside, every parameter and every real buffer has another value; afterwards each is what it was, to the last bit."""
    generator = torch.Generator().manual_seed(1)
    parameters = list(model.parameters())
    moved = [*parameters, *(buffer for buffer in model.buffers() if buffer.is_floating_point())]
    kept = [value.detach().clone() for value in moved]
    with torch.no_grad():
        for place, value in enumerate(moved):
            value.mul_(0.5 + torch.rand(value.shape, generator=generator).to(value))
            if place < len(parameters):
                value.add_(0.1 * torch.rand(value.shape, generator=generator).to(value))
    try:
        yield
    finally:
        with torch.no_grad():
            for value, before in zip(moved, kept, strict=True):
                value.copy_(before)
