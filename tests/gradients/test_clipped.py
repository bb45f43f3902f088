"""The engine as a whole: random networks, bounds, groups, microbatches, and bad values."""

from __future__ import annotations

import gc
import math
import warnings
import weakref
from typing import Any

import pytest
import torch
from gradient_reference import assert_close, clip_and_sum, rows_by_vmap, square_loss
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from sordino.core import SordinoError
from sordino.gradients import ClippedGradients, tape
from sordino.gradients.layers import contraction

CLASSES = 3


def small_network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 6, 3, stride=2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(24, CLASSES),
    )


def batch(size: int = 6, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(size)
    inputs = torch.randn(size, 2, 5, 6, generator=generator, dtype=dtype)
    return inputs, torch.randint(CLASSES, (size,), generator=generator)


def add_spatial_layer(data: st.DataObject, layers: list[nn.Module], channels: int) -> int:
    kind = data.draw(st.sampled_from(["conv", "group", "instance", "batch", "silu", "dropout"]))
    if kind == "conv":
        out = data.draw(st.sampled_from([2, 4, 6]))
        layers.append(nn.Conv2d(channels, out, data.draw(st.sampled_from([1, 2, 3])), padding=1, groups=2))
        return out
    layers.append(
        {
            "group": nn.GroupNorm(2, channels),
            "instance": nn.InstanceNorm2d(channels, affine=True),
            "batch": nn.BatchNorm2d(channels).eval(),
            "silu": nn.SiLU(inplace=any(list(layer.parameters()) for layer in layers)),
            "dropout": nn.Dropout(0.0),
        }[kind]
    )
    return channels


@torch.no_grad()
def keep_away_from_zero(model: nn.Module) -> None:
    """A channel that is nearly constant would make normalisation amplify rounding beyond any tolerance."""
    for parameter in model.parameters():
        sign = torch.where(torch.rand_like(parameter) < 0.5, -1.0, 1.0)
        parameter.copy_(sign * torch.empty_like(parameter).uniform_(0.5, 1.5) / parameter[0].numel() ** 0.5)


@given(data=st.data(), seed=st.integers(0, 2**16))
@settings(max_examples=40, deadline=None)
def test_random_networks_agree_with_vmap(data: st.DataObject, seed: int) -> None:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    channels = 2
    for _ in range(data.draw(st.integers(1, 4))):
        channels = add_spatial_layer(data, layers, channels)
    if data.draw(st.booleans()):
        layers += [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(channels * 4, 8), nn.LayerNorm(8)]
    else:
        layers += [nn.AdaptiveAvgPool2d((4, 1)), nn.Flatten(2), nn.Linear(4, 8), nn.LayerNorm(8), nn.Flatten()]
    width = 8 if isinstance(layers[-1], nn.LayerNorm) else channels * 8
    model = nn.Sequential(*layers, nn.Tanh(), nn.Linear(width, CLASSES)).double()
    keep_away_from_zero(model)
    inputs, targets = batch()
    rows = rows_by_vmap(model, inputs, targets)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for norm, order in (("l2", 2), ("l1", 1)):
            clip_norm = float(torch.linalg.vector_norm(rows, order, dim=1).median()) or 1.0
            result = ClippedGradients(model, norm=norm).sum(inputs, targets, clip_norm=clip_norm)  # type: ignore[arg-type]
            assert_close(result.total, clip_and_sum(rows, clip_norm, order))


@given(scale=st.floats(1e-3, 1e3), clip_norm=st.floats(1e-3, 1e3), seed=st.integers(0, 99), ghost=st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_contribution_exceeds_the_bound_in_float32(scale: float, clip_norm: float, seed: int, ghost: bool) -> None:
    model = small_network()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contraction.Contraction, "ghost_is_cheaper", lambda _: ghost)
        engine = ClippedGradients(model)
        inputs = scale * torch.randn(4, 2, 5, 6, generator=torch.Generator().manual_seed(seed))
        for example, target in zip(inputs, range(4), strict=True):
            contribution = engine.sum(example[None], torch.tensor([target % CLASSES]), clip_norm=clip_norm).total
            assert float(contribution.double().norm()) <= clip_norm


def test_ghost_norm_bounds_gradients_that_cancel() -> None:
    """Positions whose outer products nearly cancel leave a Gram sum of rounding errors, which must not be trusted."""
    torch.manual_seed(0)
    half = torch.randn(8, 16, 12)
    inputs = torch.cat([half, half * (1 + 1e-5 * torch.randn(8, 16, 1))], dim=1)
    grads = torch.randn(8, 16, 10)
    geometry = contraction_of(inputs, torch.cat([grads, -grads], dim=1))
    exact = torch.einsum("bpo,bpi->boi", geometry.grads.double(), inputs.double()).flatten(1).norm(dim=1)
    assert bool((contraction.ghost_norms(geometry).double() >= exact * (1 - 1e-6)).all())


def contraction_of(inputs: Tensor, grads: Tensor) -> contraction.Contraction:
    from sordino.gradients.layers.linear import LinearContraction

    return LinearContraction(inputs, grads)


def test_groups_are_clipped_by_themselves() -> None:
    model = small_network().double()
    names = [name for name, _ in model.named_parameters()]
    groups = {"head": names[-2:], "mixed": [names[0], names[2], names[4]]}
    inputs, targets = batch()
    result = ClippedGradients(model, groups=groups).sum(inputs, targets, clip_norm={"mixed": 0.02, "head": 0.3})
    rows = rows_by_vmap(model, inputs, targets, trainable=[*groups["head"], *groups["mixed"]])
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    order = [name for name in names if name in {*groups["head"], *groups["mixed"]}]
    columns = dict(zip(order, rows.split([sizes[name] for name in order], dim=1), strict=True))
    expected = torch.empty_like(rows[0])
    pieces = dict(zip(order, expected.split([sizes[name] for name in order]), strict=True))
    for column, (members, clip_norm) in enumerate(((groups["head"], 0.3), (groups["mixed"], 0.02))):
        joined = torch.cat([columns[name] for name in members], dim=1)
        clipped = clip_and_sum(joined, clip_norm).split([sizes[name] for name in members])
        for name, value in zip(members, clipped, strict=True):
            pieces[name].copy_(value)
        assert_close(result.norms[:, column], joined.norm(dim=1))
    assert_close(result.total, expected)


@pytest.mark.parametrize("limit", [{"microbatch": 1}, {"microbatch": 4}, {"memory_bytes": 1}, {"memory_bytes": 20_000}])
def test_split_batches_give_the_same_sum(limit: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_network().double()
    inputs, targets = batch(9)
    sizes: list[int] = []
    model.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    whole = ClippedGradients(model).sum(inputs, targets, clip_norm=0.5)
    sizes.clear()
    split = ClippedGradients(model, **limit).sum(inputs, targets, clip_norm=0.5)  # type: ignore[arg-type]
    assert sum(sizes[2:]) == 9 and max(sizes[2:]) < 9
    assert_close(split.total, whole.total)
    assert_close(split.norms, whole.norms)


def test_an_empty_batch_sums_to_zero() -> None:
    inputs, targets = batch()
    result = ClippedGradients(small_network().double()).sum(inputs[:0], targets[:0], clip_norm=1.0)
    assert result.total.abs().sum() == 0 and result.norms.shape == (0,) and result.nonfinite == 0


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("ghost", [True, False])
def test_a_poisoned_example_counts_for_nothing(poison: float, ghost: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction.Contraction, "ghost_is_cheaper", lambda _: ghost)
    model = small_network().double()
    inputs, targets = batch()
    healthy = torch.arange(6) != 2
    engine = ClippedGradients(model)
    expected = engine.sum(inputs[healthy], targets[healthy], clip_norm=0.5)
    inputs[2, 0, 1, 1] = poison
    result = engine.sum(inputs, targets, clip_norm=0.5)
    assert result.nonfinite == 1
    assert_close(result.total, expected.total)
    assert math.isnan(inputs[2, 0, 1, 1]) or math.isinf(inputs[2, 0, 1, 1])


def test_a_gradient_too_long_to_be_scaled_exactly_counts_for_nothing() -> None:
    model = torch.nn.Linear(1, 2, bias=False)
    torch.nn.init.zeros_(model.weight)
    inputs, targets = torch.tensor([[3.0e38], [1.0]]), torch.tensor([0, 1])
    engine = ClippedGradients(model, norm="l1")
    result = engine.sum(inputs, targets, clip_norm=0.03125)
    assert result.nonfinite == 1
    assert_close(result.total, engine.sum(inputs[1:], targets[1:], clip_norm=0.03125).total)


def test_a_frozen_prefix_is_not_differentiated() -> None:
    model = small_network().double()
    trainable = ["6.weight", "3.bias"]
    asked: dict[str, bool] = {}
    for name, layer in model.named_children():
        layer.register_forward_hook(lambda _, __, out, name=name: asked.__setitem__(name, out.requires_grad))
    inputs, targets = batch()
    result = ClippedGradients(model, trainable=trainable).sum(inputs, targets, clip_norm=0.1)
    assert [name for name, on in sorted(asked.items()) if not on] == ["0", "1", "2"]
    assert_close(result.total, clip_and_sum(rows_by_vmap(model, inputs, targets, trainable=trainable), 0.1))


def test_the_model_is_left_as_it_was() -> None:
    model = small_network()
    model[3].weight.requires_grad_(False)
    flags = [parameter.requires_grad for parameter in model.parameters()]
    inputs, targets = batch(dtype=torch.float32)
    before = torch.random.get_rng_state()
    ClippedGradients(model).sum(inputs, targets, clip_norm=1.0)
    assert [parameter.requires_grad for parameter in model.parameters()] == flags
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(layer._forward_hooks for layer in model.modules())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_nothing_of_the_batch_outlives_its_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks that hold tensors that hold the graph would be a cycle that no collector sees."""
    tapes: list[weakref.ref[tape.Tape]] = []

    class Watched(tape.Tape):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            tapes.append(weakref.ref(self))

    monkeypatch.setattr(tape, "Tape", Watched)
    ClippedGradients(small_network().double()).sum(*batch(), clip_norm=1.0)
    gc.collect()
    assert [alive() for alive in tapes] == [None]


def test_dropout_draws_once_and_for_each_example() -> None:
    model = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.5), nn.Linear(64, CLASSES)).double()
    inputs, targets = torch.ones(5, 8, dtype=torch.float64), torch.zeros(5, dtype=torch.long)
    engine = ClippedGradients(model)
    torch.manual_seed(3)
    norms = engine.sum(inputs, targets, clip_norm=1.0).norms
    torch.manual_seed(3)
    rows = engine.per_example(inputs, targets)
    assert len(norms.unique()) == 5
    assert_close(rows.norm(dim=1), norms)


class OwnNoise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.source = torch.Generator().manual_seed(0)

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * torch.rand(inputs.shape, generator=self.source, dtype=inputs.dtype)


def test_probing_leaves_every_random_source_where_it_was() -> None:
    inputs, targets = batch()
    noise = OwnNoise()
    engine = ClippedGradients(nn.Sequential(noise, small_network()).double())
    first = engine.sum(inputs, targets, clip_norm=1.0)
    noise.source.manual_seed(0)
    assert torch.equal(engine.sum(inputs, targets, clip_norm=1.0).total, first.total)


def test_inputs_changed_in_place_are_refused() -> None:
    class Overwriting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, CLASSES)

        def forward(self, inputs: Tensor) -> Tensor:
            hidden = self.first(inputs)
            outputs = self.second(hidden)
            hidden.mul_(2)
            return outputs  # type: ignore[no-any-return]

    with pytest.raises(SordinoError, match="'second' was changed in place"):
        ClippedGradients(Overwriting()).sum(torch.randn(3, 4), torch.zeros(3, dtype=torch.long), clip_norm=1.0)


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, math.inf, math.nan])
def test_useless_clip_norms_are_refused(clip_norm: float) -> None:
    inputs, targets = batch()
    with pytest.raises(SordinoError, match="positive and finite"):
        ClippedGradients(small_network().double()).sum(inputs, targets, clip_norm=clip_norm)


def test_mistakes_are_named() -> None:
    model = small_network().double()
    inputs, targets = batch()
    with pytest.raises(SordinoError, match=r"did you mean '6\.weight'"):
        ClippedGradients(model, trainable=["6.weigth"])
    with pytest.raises(SordinoError, match="exactly once"):
        ClippedGradients(model, trainable=["6.weight"], groups={"a": ["6.bias"]})
    with pytest.raises(SordinoError, match="microbatch must be at least 1"):
        ClippedGradients(model, microbatch=0)
    with pytest.raises(SordinoError, match="one value per example"):
        ClippedGradients(model, loss=nn.functional.cross_entropy).sum(inputs, targets, clip_norm=1.0)
    with pytest.raises(SordinoError, match="same number of examples"):
        ClippedGradients(model).sum(inputs, targets[1:], clip_norm=1.0)
    with pytest.raises(SordinoError, match="each of the groups a"):
        ClippedGradients(model, groups={"a": ["6.bias"]}).sum(inputs, targets, clip_norm={"b": 1.0})


def test_another_loss() -> None:
    model = small_network().double()
    inputs, targets = batch()
    rows = rows_by_vmap(model, inputs, targets, loss=square_loss)
    assert_close(
        ClippedGradients(model, loss=square_loss).sum(inputs, targets, clip_norm=1.0).total, clip_and_sum(rows, 1.0)
    )
