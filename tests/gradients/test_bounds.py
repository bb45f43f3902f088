"""No contribution is longer than its clip, in double precision and taken alone, whatever its length, size or rounding."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from sordino.core import Norm, SordinoError
from sordino.gradients import ClippedGradients, SlowGradientsWarning
from sordino.gradients.layers import contraction
from sordino.gradients.layers.booking import PIECE, row_norms, units_short

NORMS: tuple[Norm, ...] = ("l1", "l2")
Model = Callable[[], nn.Module]


def by_output(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss whose gradient is the target, one number for every output: the test chooses what arrives at the last layer."""
    return (outputs.flatten(1) * targets.flatten(1)).sum(1)


def longest(
    model: nn.Module,
    inputs: Tensor,
    arriving: Tensor,
    *,
    norm: Norm,
    clip_norm: float,
    trainable: list[str] | None = None,
) -> float:
    """The largest norm of one example's contribution, as a share of the clip norm."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = ClippedGradients(model, norm=norm, loss=by_output, trainable=trainable)
        found = [
            engine.sum(one[None], target[None], clip_norm=clip_norm).total
            for one, target in zip(inputs, arriving, strict=True)
        ]
    order = 1 if norm == "l1" else 2
    assert all(total.isfinite().all() for total in found)
    return max(float(torch.linalg.vector_norm(total.double(), order)) for total in found) / clip_norm


class Tied(nn.Module):
    """One matrix used twice, so that only the fallback is right."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.layer = nn.Linear(side, side, bias=False)
        nn.init.eye_(self.layer.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(self.layer(inputs))  # type: ignore[no-any-return]


@pytest.mark.parametrize("norm", NORMS)
def test_a_tied_layer_of_millions_of_equal_entries(norm: Norm) -> None:
    side = 2048
    inputs, arriving = torch.full((1, side), 1.1), torch.full((1, side), 0.7)
    reached = longest(Tied(side), inputs, arriving, norm=norm, clip_norm=1.0)
    assert 0.999 < reached <= 1


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("length", [1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 3, 300_000])
def test_row_norms_keep_their_margin(norm: Norm, length: int) -> None:
    order = 1 if norm == "l1" else 2
    generator = torch.Generator().manual_seed(length)
    kinds = [
        torch.full((1, length), 1.1),
        torch.rand(1, length, generator=generator),
        torch.randn(1, length, generator=generator).exp(),
        torch.full((1, length), 1e-22),
        torch.full((1, length), 1e-42),
        torch.full((1, length), 1e16),
    ]
    for rows in kinds:
        true = torch.linalg.vector_norm(rows.double(), order, dim=1)
        found = row_norms(rows, order).double()
        share = 1 - units_short(length) * torch.finfo(torch.float32).eps
        assert float(found) >= float(true) * share
        assert float(found) <= float(true) * (2 - share) + 1e-15 * length**0.5


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("input_size", "gradient_size", "clip_norm"),
    [
        (1.1, 0.7, 1.0),
        (1e-25, 1e-3, 1e-8),
        (1e18, 1e-20, 1e-3),
        (1e-20, 1e18, 1e-3),
        (1e30, 1e-32, 1e-3),
        (1e19, 1e19, 1.0),
    ],
)
def test_dense_layers_of_tiny_and_huge_numbers(
    norm: Norm, input_size: float, gradient_size: float, clip_norm: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = input_size * (0.5 + torch.rand(4, 600, generator=generator))
    arriving = gradient_size * (0.5 + torch.rand(4, 30, generator=generator))
    inputs[0], arriving[0] = input_size, gradient_size
    assert longest(nn.Linear(600, 30), inputs, arriving, norm=norm, clip_norm=clip_norm) <= 1


def test_huge_inputs_do_not_blow_up_what_denormal_numbers_lose() -> None:
    """1.4e-45 times any factor above a half is 1.4e-45 again."""
    inputs, arriving = torch.full((1, 1000), 3e38), torch.full((1, 1000), 1.4e-45)
    for norm, size in (("l1", 1e6), ("l2", 1e3)):
        clip_norm = 0.6 * size * 3e38 * 1.4e-45
        model = nn.Linear(1000, 1000, bias=False)
        assert longest(model, inputs, arriving, norm=norm, clip_norm=clip_norm) <= 1  # type: ignore[arg-type]


def cancelling(positions: int, width: int, fan_out: int, *, size: float) -> tuple[Tensor, Tensor]:
    """Sequences whose outer products cancel but for rounding, with a little left over."""
    generator = torch.Generator().manual_seed(1)
    half = size * torch.randn(3, positions // 2, width, generator=generator)
    grads = torch.randn(3, positions // 2, fan_out, generator=generator)
    nearly = half * (1 + 1e-7 * torch.randn(half.shape, generator=generator))
    return torch.cat([half, nearly], dim=1), torch.cat([grads, -grads], dim=1)


@pytest.mark.parametrize("ghost", [False, True])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("size", [1.0, 3e4, 1e9])
def test_sequences_that_cancel(norm: Norm, ghost: bool, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction.Contraction, "ghost_is_cheaper", lambda _: ghost)
    inputs, arriving = cancelling(256, 24, 20, size=size)
    clip_norm = 1e-3 * size
    assert longest(nn.Linear(24, 20, bias=False), inputs, arriving, norm=norm, clip_norm=clip_norm) <= 1


@pytest.mark.parametrize("ghost", [False, True])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("input_size", "gradient_size"), [(1.1, 0.7), (1e-18, 1e18), (1e18, 1e-24)])
def test_long_equal_sequences(
    norm: Norm, ghost: bool, input_size: float, gradient_size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contraction.Contraction, "ghost_is_cheaper", lambda _: ghost)
    inputs, arriving = torch.full((1, 1500, 9), input_size), torch.full((1, 1500, 5), gradient_size)
    clip_norm = 0.01 * input_size * gradient_size
    reached = longest(nn.Linear(9, 5), inputs, arriving, norm=norm, clip_norm=clip_norm)
    assert reached <= 1


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("ghost", [False, True])
@pytest.mark.parametrize("size", [1e-18, 1.0, 1e9])
def test_convolutions_that_cancel(norm: Norm, ghost: bool, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The left half of the image is the right half again, and its gradients are the other's, turned round."""
    monkeypatch.setattr(contraction.Contraction, "ghost_is_cheaper", lambda _: ghost)
    generator = torch.Generator().manual_seed(2)
    half = size * torch.randn(2, 3, 12, 8, generator=generator)
    grads = torch.randn(2, 6, 12, 8, generator=generator)
    inputs = torch.cat([half, half * (1 + 1e-7 * torch.randn(half.shape, generator=generator))], dim=3)
    arriving = torch.cat([grads, -grads], dim=3)
    assert longest(nn.Conv2d(3, 6, 1), inputs, arriving, norm=norm, clip_norm=1e-6 * size if size > 1 else 1e-9) <= 1


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("model", [lambda: nn.Conv2d(2, 16, 3, padding=1), lambda: nn.Conv1d(2, 4, 3, groups=2)])
def test_convolutions_of_equal_numbers(norm: Norm, model: Model) -> None:
    layer = model()
    inputs = torch.full((1, 2, 40, 40) if isinstance(layer, nn.Conv2d) else (1, 2, 3000), 1.1)
    arriving = torch.full(layer(inputs).shape, 0.3)
    assert 0.99 < longest(layer, inputs, arriving, norm=norm, clip_norm=1.0) <= 1


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e8])
def test_embeddings_of_a_token_that_cancels_with_itself(norm: Norm, size: float) -> None:
    generator = torch.Generator().manual_seed(3)
    arriving = size * torch.randn(3, 700, 7, generator=generator)
    arriving = torch.cat([arriving, -arriving.roll(3, 1)], dim=1)
    tokens = torch.ones(3, 1400, dtype=torch.long)
    clip_norm = max(1e-9 * size, 1e-9)
    assert longest(nn.Embedding(3, 7), tokens, arriving, norm=norm, clip_norm=clip_norm) <= 1


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("layer", [nn.GroupNorm(2, 16), nn.LayerNorm((16, 8, 8)), nn.InstanceNorm2d(16, affine=True)])
def test_normalisation_about_a_large_mean(norm: Norm, layer: nn.Module) -> None:
    inputs = 1e4 + torch.randn(3, 16, 8, 8, generator=torch.Generator().manual_seed(4))
    arriving = torch.full((3, 16, 8, 8), 5.0)
    assert longest(layer, inputs, arriving, norm=norm, clip_norm=0.5) <= 1


@pytest.mark.parametrize("norm", NORMS)
def test_many_small_parameters_together(norm: Norm) -> None:
    model = nn.Sequential(*[nn.Linear(3, 3) for _ in range(150)])
    for layer in model:
        nn.init.eye_(layer.weight)
    inputs, arriving = torch.full((1, 3), 1.1), torch.full((1, 3), 1.3)
    assert 0.999 < longest(model, inputs, arriving, norm=norm, clip_norm=0.1) <= 1


def test_the_margin_costs_next_to_nothing() -> None:
    assert units_short(10**9) * torch.finfo(torch.float32).eps < 1e-4
    assert units_short(10) * torch.finfo(torch.float32).eps < 1e-6


@pytest.mark.parametrize("norm", NORMS)
def test_coarse_numbers_inside_a_layer_take_the_slow_path(norm: Norm) -> None:
    class Cast(nn.Module):
        """float32 scales on numbers in half precision, as under autocast."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LayerNorm(300)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.layer(inputs.bfloat16()).float()  # type: ignore[no-any-return]

    generator = torch.Generator().manual_seed(5)
    inputs, arriving = torch.rand(3, 300, generator=generator), torch.rand(3, 300, generator=generator)
    with pytest.warns(SlowGradientsWarning, match="'layer' is used in a way"):
        ClippedGradients(Cast(), norm=norm, loss=by_output).sum(inputs, arriving, clip_norm=0.3)
    assert 0.99 < longest(Cast(), inputs, arriving, norm=norm, clip_norm=0.3) <= 1


def test_coarse_parameters_and_vanishing_clips_are_refused() -> None:
    with pytest.raises(SordinoError, match="'weight' must be float32 or float64 to be clipped, but got bfloat16"):
        ClippedGradients(nn.Linear(3, 3).bfloat16())
    with pytest.raises(SordinoError, match=r"at least 3\.3e-10, but got 1e-12"):
        ClippedGradients(nn.Linear(3, 3)).sum(torch.ones(1, 3), torch.zeros(1, dtype=torch.long), clip_norm=1e-12)
