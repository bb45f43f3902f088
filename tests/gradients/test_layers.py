"""Each supported layer alone, in odd geometries, against vmap(grad) in float64."""

from __future__ import annotations

import warnings

import pytest
import torch
from gradient_reference import assert_close, clip_and_sum, rows_by_vmap, square_loss
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from sordino.gradients import ClippedGradients
from sordino.gradients.layers import contraction

QUICK = settings(max_examples=25, deadline=None)
BATCH = 4


def check(layer: nn.Module, inputs: Tensor) -> None:
    """The layer agrees with the reference, also when what follows overwrites its output."""
    torch.manual_seed(0)
    for parameter in layer.double().parameters():
        nn.init.normal_(parameter)
    agree(layer, inputs)
    agree(nn.Sequential(layer, nn.ReLU(inplace=True)), inputs)


def agree(layer: nn.Module, inputs: Tensor) -> None:
    """Both norms, the sums, and the rows, without any fallback."""
    targets = torch.arange(len(inputs))
    rows = rows_by_vmap(layer, inputs, targets, loss=square_loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for norm, order in (("l2", 2), ("l1", 1)):
            engine = ClippedGradients(layer, loss=square_loss, norm=norm)  # type: ignore[arg-type]
            norms = torch.linalg.vector_norm(rows, order, dim=1)
            clip_norm = float(norms.median()) or 1.0
            result = engine.sum(inputs, targets, clip_norm=clip_norm)
            assert_close(result.norms, norms)
            assert_close(result.total, clip_and_sum(rows, clip_norm, order))
            assert_close(engine.per_example(inputs, targets), rows)
            assert result.nonfinite == 0
            assert not result.total.requires_grad


@pytest.fixture(params=["ghost", "rows"])
def booking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to a norm are tried on every geometry, whatever the estimate would choose."""
    ghost = request.param == "ghost"
    monkeypatch.setattr(contraction.Contraction, "ghost_is_cheaper", lambda _: ghost)


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 7)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(booking: None, shape: tuple[int, ...], bias: bool) -> None:
    check(nn.Linear(7, 5, bias=bias), torch.randn(BATCH, *shape, dtype=torch.float64))


@pytest.mark.parametrize(
    "settings_",
    [
        {"kernel_size": 3},
        {"kernel_size": (2, 3), "stride": (2, 1), "padding": (1, 2)},
        {"kernel_size": 3, "stride": 3, "dilation": 2, "padding": 2, "bias": False},
        {"kernel_size": 3, "padding": "same"},
        {"kernel_size": (2, 4), "padding": "same", "dilation": (2, 1)},
        {"kernel_size": 3, "padding": "valid", "groups": 2},
        {"kernel_size": 1, "stride": 2, "groups": 4},
        {"kernel_size": 3, "padding": 1, "padding_mode": "reflect"},
        {"kernel_size": 3, "padding": (2, 1), "padding_mode": "circular"},
        {"kernel_size": (8, 9)},
    ],
    ids=str,
)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_conv2d(booking: None, settings_: dict[str, object], memory_format: torch.memory_format) -> None:
    inputs = torch.randn(BATCH, 4, 8, 9, dtype=torch.float64).contiguous(memory_format=memory_format)
    check(nn.Conv2d(4, 8, **settings_), inputs)  # type: ignore[arg-type]


@given(data=st.data())
@QUICK
def test_conv2d_of_any_geometry(data: st.DataObject) -> None:
    groups = data.draw(st.integers(1, 3), label="groups")
    pair = lambda low, high: data.draw(st.tuples(st.integers(low, high), st.integers(low, high)))  # noqa: E731
    kernel, stride, padding, dilation = pair(1, 3), pair(1, 3), pair(0, 2), pair(1, 2)
    channels_in, channels_out = (groups * data.draw(st.integers(1, 3)) for _ in range(2))
    layer = nn.Conv2d(channels_in, channels_out, kernel, stride, padding, dilation, groups)
    check(layer, torch.randn(BATCH, channels_in, *pair(5, 7), dtype=torch.float64))


@pytest.mark.parametrize(
    "settings_",
    [
        {"kernel_size": 3},
        {"kernel_size": 4, "padding": "same"},
        {"kernel_size": 3, "stride": 2, "padding": 1, "groups": 2, "dilation": 2},
    ],
    ids=str,
)
def test_conv1d(booking: None, settings_: dict[str, object]) -> None:
    check(nn.Conv1d(4, 6, **settings_), torch.randn(BATCH, 4, 11, dtype=torch.float64))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.GroupNorm(2, 6), (6, 3, 5)),
        (nn.GroupNorm(3, 6), (6,)),
        (nn.GroupNorm(1, 4), (4, 7)),
        (nn.LayerNorm(6), (6,)),
        (nn.LayerNorm((3, 5)), (2, 4, 3, 5)),
        (nn.LayerNorm(5, bias=False), (3, 5)),
        (nn.InstanceNorm1d(4, affine=True), (4, 6)),
        (nn.InstanceNorm2d(4, affine=True), (4, 3, 5)),
        (nn.InstanceNorm2d(4, affine=True, track_running_stats=True).eval(), (4, 3, 5)),
        (nn.BatchNorm1d(4).eval(), (4,)),
        (nn.BatchNorm2d(4).eval(), (4, 3, 5)),
    ],
    ids=str,
)
@pytest.mark.parametrize("first", [True, False], ids=["first", "after another"])
def test_norms(layer: nn.Module, shape: tuple[int, ...], first: bool) -> None:
    for name, buffer in layer.named_buffers():
        if name in ("running_mean", "running_var"):
            buffer.uniform_(0.5, 2)
    model = layer if first else nn.Sequential(nn.Linear(shape[-1], shape[-1]), layer)
    check(model, 2 + torch.randn(BATCH, *shape, dtype=torch.float64))


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
@pytest.mark.parametrize("padding_idx", [None, 1])
def test_embedding(shape: tuple[int, ...], padding_idx: int | None) -> None:
    tokens = torch.randint(4, (BATCH, *shape), generator=torch.Generator().manual_seed(1))
    check(nn.Embedding(4, 3, padding_idx=padding_idx), tokens)
