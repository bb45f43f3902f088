"""Models that have no per-layer rule take the slow path: correctly, and with one warning that names the layer."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from gradient_reference import assert_close, clip_and_sum, rows_by_vmap
from torch import Tensor, nn

from sordino.core import SordinoError
from sordino.gradients import ClippedGradients, SlowGradientsWarning


class Bare(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(6))
        self.head = nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(inputs * self.scale)  # type: ignore[no-any-return]


class CalledTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared, self.head = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.shared(torch.tanh(self.shared(inputs))))  # type: ignore[no-any-return]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.up.weight = self.down.weight

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.up(torch.tanh(self.down(inputs))))  # type: ignore[no-any-return]


class UsedBesideItsLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(F.linear(torch.tanh(self.inner(inputs)), self.inner.weight))  # type: ignore[no-any-return]


class UsedOnlyBesideItsLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(F.linear(inputs, self.inner.weight, self.inner.bias))  # type: ignore[no-any-return]


class FoldedBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(3, 4), nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        folded = torch.tanh(self.inner(inputs.reshape(-1, 3)))
        return self.head(folded.reshape(len(inputs), -1))  # type: ignore[no-any-return]


class TimeFirst(nn.Module):
    """Six steps of time come first, as many as the batch has examples."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(1, 4), nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(torch.tanh(self.inner(inputs.t()[..., None])).sum(0))  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(2, 4, batch_first=True, bidirectional=True), nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs, _ = self.lstm(inputs.reshape(len(inputs), 3, 2))
        return self.head(outputs[:, -1])  # type: ignore[no-any-return]


class Branching(nn.Module):
    """Asks for a number in the middle, which vmap cannot give."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.randn(6)), nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(inputs * self.scale * (2.0 if inputs.sum().item() > 0 else 1.0))  # type: ignore[no-any-return]


CASES: list[tuple[type[nn.Module], str]] = [
    (Bare, "Bare"),
    (CalledTwice, "'shared.weight' is used more than once"),
    (Tied, "'down.weight' is used more than once"),
    (UsedBesideItsLayer, "'inner.weight' is used more than once"),
    (UsedOnlyBesideItsLayer, "'inner.weight' is used outside"),
    (FoldedBatch, "'inner' does not see examples"),
    (TimeFirst, "'inner' does not see examples"),
]


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(6, 6, generator=generator, dtype=torch.float64), torch.randint(3, (6,), generator=generator)


@pytest.mark.parametrize(("kind", "reason"), CASES, ids=lambda case: getattr(case, "__name__", ""))
@pytest.mark.parametrize(("norm", "order"), [("l2", 2), ("l1", 1)])
def test_the_slow_path_is_right_and_says_so_once(kind: type[nn.Module], reason: str, norm: str, order: int) -> None:
    torch.manual_seed(0)
    model, (inputs, targets) = kind().double(), batch()
    engine = ClippedGradients(model, norm=norm)  # type: ignore[arg-type]
    with pytest.warns(SlowGradientsWarning, match=reason) as caught:
        result = engine.sum(inputs, targets, clip_norm=0.5)
        engine.sum(inputs, targets, clip_norm=0.5)
    assert [warning.filename for warning in caught] == [__file__]
    rows = rows_by_vmap(model, inputs, targets)
    assert_close(result.total, clip_and_sum(rows, 0.5, order))
    assert_close(engine.per_example(inputs, targets), rows)


@pytest.mark.parametrize("kind", [Recurrent, Branching])
def test_models_that_need_one_example_at_a_time(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model, (inputs, targets) = kind().double(), batch()
    with pytest.warns(SlowGradientsWarning):
        result = ClippedGradients(model).sum(inputs, targets, clip_norm=0.5)
    rows = []
    for example, target in zip(inputs, targets, strict=True):
        gradients = torch.autograd.grad(F.cross_entropy(model(example[None]), target[None]), list(model.parameters()))
        rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
    assert_close(result.total, clip_and_sum(torch.stack(rows), 0.5))


def test_reuse_of_what_is_not_trained_is_no_obstacle() -> None:
    model, (inputs, targets) = Tied().double(), batch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ClippedGradients(model, trainable=["up.bias", "head.weight"]).sum(inputs, targets, clip_norm=0.5)
    rows = rows_by_vmap(model, inputs, targets, trainable=["up.bias", "head.weight"])
    assert_close(result.total, clip_and_sum(rows, 0.5))


def test_an_unused_layer_has_a_zero_gradient() -> None:
    class WithSpare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.spare = nn.Linear(6, 3), nn.Linear(2, 2)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.used(inputs)  # type: ignore[no-any-return]

    model, (inputs, targets) = WithSpare().double(), batch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        total = ClippedGradients(model).sum(inputs, targets, clip_norm=0.5).total
    assert total[-6:].abs().sum() == 0 and total[:-6].abs().sum() > 0


def test_dropout_differs_between_examples_on_the_slow_path() -> None:
    model = nn.Sequential(Bare(), nn.Linear(3, 64), nn.Dropout(0.5), nn.Linear(64, 3)).double()
    inputs, targets = torch.ones(5, 6, dtype=torch.float64), torch.zeros(5, dtype=torch.long)
    with pytest.warns(SlowGradientsWarning):
        norms = ClippedGradients(model).sum(inputs, targets, clip_norm=1.0).norms
    assert len(norms.unique()) == 5


@pytest.mark.parametrize("frozen", [True, False])
def test_batch_statistics_are_refused(frozen: bool) -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).double()
    inputs, targets = batch()
    trainable = ["2.weight"] if frozen else None
    with pytest.raises(SordinoError, match="GroupNorm"):
        ClippedGradients(model, trainable=trainable).sum(inputs, targets, clip_norm=1.0)
    ClippedGradients(model.eval(), trainable=trainable).sum(inputs, targets, clip_norm=1.0)


def test_running_statistics_of_private_examples_are_refused() -> None:
    model = nn.Sequential(nn.InstanceNorm1d(2, affine=True, track_running_stats=True), nn.Flatten(), nn.Linear(6, 3))
    with pytest.raises(SordinoError, match="track_running_stats=False"):
        ClippedGradients(model).sum(torch.randn(4, 2, 3), torch.zeros(4, dtype=torch.long), clip_norm=1.0)
