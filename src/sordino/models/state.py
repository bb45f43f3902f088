"""What a model may not keep: anything of the examples it has seen, which would carry one client into another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from sordino.core import SordinoError

PASSES = 2
"""How often other examples pass through a model before it is looked at again."""

CLOSE = 1e-4
"""How far, as a share, an example's output may move with its neighbours in the batch: rounding, and no more."""

INSTEAD = (
    "use layers that store nothing of what they see: torch.nn.GroupNorm, InstanceNorm with track_running_stats=False, or for a "
    "pre-trained model sordino.models.weights.frozen_batchnorm"
)

Draw = Callable[[int, int], Tensor]
"""So many made-up examples, the same for the same number."""


def refuse_memory(name: str, model: nn.Module, draw: Draw, classes: int) -> None:
    """Refuse a model that changes, or whose answers change, through examples passing through it in training mode.

    Formal guarantee: a model that passes has, on made-up examples, no memory that clipping and noise would not cover, and
    treats the examples of a batch apart. Code that lies in wait for other examples is not found.
    """
    training = model.training
    model.train()
    try:
        expected = _answer(model, draw(2, 0))
        for number in range(1, PASSES + 1):
            with _a_step_away(model):
                kept = {key: value.clone() for key, value in _tensors(model).items()}
                _learn_from(model, draw(3 + number, number), classes)
                _refuse_changes(name, model, kept, _tensors(model))
        again = _answer(model, draw(2, 0))
        beside_another = _answer(model, torch.cat([draw(2, 0)[:1], draw(2, PASSES + 1)[1:]]))
    finally:
        model.train(training)
    if not torch.equal(again, expected):
        raise SordinoError(
            f"{name} must give the same answer to the same examples, but its answer changed after others had passed through, so some "
            f"attribute or generator of its own keeps what it saw; {INSTEAD}, and sordino.models.Dropout for random draws."
        )
    if not torch.allclose(beside_another[0], expected[0], rtol=CLOSE, atol=CLOSE * float(expected.abs().max())):
        raise SordinoError(
            f"{name} must treat every example by itself, but its answer to one changed with the others in its batch, so no example's "
            f"influence is bounded by clipping; {INSTEAD}."
        )


class Unmoved:
    """Buffers as they were when training began: what is stored there would pass from one client to the next without noise.

    Formal guarantee: `check` raises unless every buffer of the net is bit for bit the one that was kept. A net without
    buffers costs nothing.
    """

    def __init__(self, net: nn.Module) -> None:
        self._kept = {key: value.detach().clone() for key, value in net.named_buffers()}

    def check(self, net: nn.Module) -> None:
        if self._kept:
            _refuse_changes("The model", net, self._kept, dict(net.named_buffers()))


@contextmanager
def same_draws(model: nn.Module) -> Iterator[None]:
    """Random numbers inside are the same each time; afterwards every generator is where it was."""
    own = [value for layer in model.modules() for value in vars(layer).values() if isinstance(value, torch.Generator)]
    states = [generator.get_state() for generator in own]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for generator in own:
            generator.manual_seed(0)
        try:
            yield
        finally:
            for generator, state in zip(own, states, strict=True):
                generator.set_state(state)


def _answer(model: nn.Module, examples: Tensor) -> Tensor:
    with same_draws(model), torch.no_grad():
        answer: Tensor = model(examples)
    return answer


@contextmanager
def _a_step_away(model: nn.Module) -> Iterator[None]:
    """Trained parameters elsewhere, as steps of training move them: what is stored may follow them and not the examples."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    before = [parameter.detach().clone() for parameter in trained]
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in trained:
            step = torch.randn(parameter.shape, generator=draw).to(parameter)
            parameter.add_(0.1 * parameter.abs().mean() * step)
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(trained, before, strict=True):
                parameter.copy_(value)


def _learn_from(model: nn.Module, examples: Tensor, classes: int) -> None:
    """Everything that training does with a model but change its parameters."""
    labels = torch.arange(len(examples)) % classes
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with same_draws(model), torch.enable_grad():
        loss = cross_entropy(model(examples), labels)
        if loss.requires_grad:
            torch.autograd.grad(loss, trained, allow_unused=True)


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    return {key: value.detach() for key, value in (*model.named_buffers(), *model.named_parameters())}


def _refuse_changes(name: str, model: nn.Module, kept: dict[str, Tensor], found: dict[str, Tensor]) -> None:
    for key in {**kept, **found}:
        if key in kept and key in found and torch.equal(found[key], kept[key]):
            continue
        owner = type(model.get_submodule(key.rpartition(".")[0])).__name__
        raise SordinoError(
            f"{name} must not store anything of the examples it sees, but {key!r} of {owner} changed while others passed through, "
            f"and would carry one client's data to the next without noise; {INSTEAD}."
        )
