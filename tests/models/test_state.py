"""Models that keep something of what they saw: refused when they are built, and again while they are trained."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

import sordino
from sordino.core import SordinoError
from sordino.engine.simulate.workers import Place, Workers
from sordino.models import Dropout, FlatSpace, Net, build
from sordino.models.state import Unmoved
from sordino.models.weights import frozen_batchnorm

Make = Callable[[nn.Module], Net]


class Remembering(nn.Module):
    """Adds a mean of all it ever saw, kept in a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = torch.zeros(())

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = inputs + self.memory
        self.memory = 0.9 * self.memory + 0.1 * inputs.detach().mean()
        return outputs


class Buffered(nn.Module):
    """The same in a buffer, in training mode alone."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("memory", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.memory.add_(inputs.detach().mean())
        return inputs


class Learning(nn.Module):
    """Moves its own parameter while it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, inputs: Tensor) -> Tensor:
        self.scale.data += inputs.detach().mean()
        return inputs


class Watching(nn.Module):
    """Stores the gradients that pass through it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = inputs * 1
        if outputs.requires_grad:
            outputs.register_hook(lambda grad: self.seen.add_(grad.abs().sum()) and None)
        return outputs


class Late(nn.Module):
    """Makes its buffer when it first meets a batch it can learn from."""

    def forward(self, inputs: Tensor) -> Tensor:
        if inputs.shape[0] > 3 and "late" not in dict(self.named_buffers()):
            self.register_buffer("late", inputs.detach().mean())
        return inputs


class Centred(nn.Module):
    """Takes the batch's mean away and stores nothing."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs - inputs.mean(0)


@pytest.fixture
def make() -> Iterator[Make]:
    """Builds a custom model with this layer in its body, on rows of twelve numbers."""

    def made(layer: nn.Module, *, head: nn.Module | None = None) -> Net:
        module = ModuleType("user_models")
        module.make = lambda shape, classes: nn.Sequential(  # type: ignore[attr-defined]
            nn.Linear(shape[0], 8), layer, nn.ReLU(), head or nn.Linear(8, classes)
        )
        sys.modules["user_models"] = module
        return build("user_models:make", shape=(12,), classes=4)

    yield made
    sys.modules.pop("user_models", None)


def settled() -> nn.Module:
    """A layer whose stored vectors have come to rest, until its weight moves."""
    layer = nn.Linear(8, 8)
    with torch.no_grad():
        layer.weight.copy_(torch.diag(torch.tensor([9.0] + 7 * [0.01])))
    spectral_norm(layer, n_power_iterations=100)(torch.zeros(1, 8))
    return layer


@pytest.mark.parametrize(
    ("layer", "named"),
    [
        (nn.BatchNorm1d(8), "'1.num_batches_tracked' of BatchNorm1d|'1.running_mean' of BatchNorm1d"),
        (nn.BatchNorm1d(8).eval(), "of BatchNorm1d"),
        (
            nn.Sequential(nn.Unflatten(1, (2, 4)), nn.InstanceNorm1d(2, track_running_stats=True), nn.Flatten()),
            "InstanceNorm1d",
        ),
        (settled(), r"'1\.parametrizations\.weight\.0\._u' of _SpectralNorm"),
        (Buffered(), "'1.memory' of Buffered"),
        (Learning(), "'1.scale' of Learning"),
        (Watching(), "'1.seen' of Watching"),
        (Late(), "'1.late' of Late"),
        (Remembering(), "its answer changed after others had passed through"),
        (nn.BatchNorm1d(8, track_running_stats=False), "by itself, but its answer to one changed with the others"),
        (Centred(), "by itself, but its answer to one changed with the others"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_layer_that_keeps_or_mixes_what_it_sees_is_refused(make: Make, layer: nn.Module, named: str) -> None:
    with pytest.raises(SordinoError, match=named) as caught:
        make(layer)
    assert "GroupNorm" in str(caught.value) and "user_models:make" in str(caught.value)


def test_state_in_the_head_is_refused_too(make: Make) -> None:
    with pytest.raises(SordinoError, match="_SpectralNorm"):
        make(nn.Identity(), head=spectral_norm(nn.Linear(8, 4)))


@pytest.mark.parametrize(
    "layer",
    [
        nn.GroupNorm(2, 8),
        nn.LayerNorm(8),
        nn.Dropout(0.5),
        Dropout(0.5),
        weight_norm(nn.Linear(8, 8)),
        frozen_batchnorm(nn.Sequential(nn.BatchNorm1d(8))),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_layer_that_keeps_nothing_is_taken(make: Make, layer: nn.Module) -> None:
    net = make(layer)
    assert net.parts()["head"] and net.training


def test_a_run_and_a_plan_refuse_a_model_with_a_memory(
    make: Make, tiny: Callable[..., dict[str, object]], tmp_path
) -> None:  # type: ignore[no-untyped-def]
    class Model(nn.Sequential):
        def __init__(self, shape: tuple[int, ...], classes: int) -> None:
            super().__init__(nn.Flatten(), nn.Linear(64, 8), Remembering(), nn.Linear(8, classes))

    sys.modules["user_models"] = ModuleType("user_models")
    sys.modules["user_models"].make = Model  # type: ignore[attr-defined]
    table = tiny(model={"name": "user_models:make"})
    for ask in (sordino.plan, lambda one: sordino.run(one, out=tmp_path / "run")):
        with pytest.raises(SordinoError, match="its answer changed after others"):
            ask(table)


def test_a_buffer_that_changes_in_a_clients_turn_stops_the_run() -> None:
    net = Net(body=Buffered(), head=nn.Linear(3, 2))
    workers = Workers(net, FlatSpace(net), seed=0, device=torch.device("cpu"), workers=1)
    place = Place(client=0, round=0, size=1)
    try:
        assert workers.each([place], lambda number, context: 5) == [5]
        with pytest.raises(SordinoError, match=r"'body\.memory' of Buffered changed"):
            workers.each([place], lambda number, context: context.net.train()(torch.ones(1, 3)))
    finally:
        workers.close()


def test_the_guard_tells_a_change_of_one_bit() -> None:
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
    guard = Unmoved(net)
    guard.check(net)
    net[0].running_mean[1] = 1e-45
    with pytest.raises(SordinoError, match=r"'0\.running_mean' of BatchNorm1d"):
        guard.check(net)
