"""Compiled kernels compute what torch computes, for any shape they accept, and leave everything else to torch."""

from __future__ import annotations

import copy
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, group_norm, relu

from sordino.gradients import ClippedGradients
from sordino.kernels import Conv2d, GroupNorm, conv3x3, convolution, fastest, rectified
from sordino.kernels.gaussian import gaussian_pairs
from sordino.kernels.group_norm import channel_sums
from sordino.kernels.max_pool import RectifiedMaxPool2d
from sordino.kernels.native import NUMBERS_PER_THREAD, SWITCH, _is_stale, library
from sordino.models import build
from sordino.privacy.noise import _gaussian_pairs

pytestmark = pytest.mark.skipif(library() is None, reason="no compiled kernels on this machine")
FLOAT32_ERROR = 2e-6
"""Of the largest value: sums of some thousand products in single precision."""


def images(*shape: int, seed: int = 0, mean: float = 0.0) -> Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) + mean
    return values.contiguous(memory_format=torch.channels_last)


def assert_close(found: Tensor, truth: Tensor) -> None:
    assert found.dtype == torch.float32
    assert (found.double() - truth).abs().max() <= FLOAT32_ERROR * truth.abs().max()


@pytest.fixture
def kernel_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that ran."""
    kernels, calls = library(), []
    assert kernels is not None
    for name in ("group_norm_forward", "group_norm_backward", "conv_weight_rows", "conv_weight_sum", "conv3x3"):
        function = getattr(kernels, name)

        def counted(*arguments: object, name: str = name, function: object = function) -> object:
            calls.append(name)
            return function(*arguments)  # type: ignore[operator]

        monkeypatch.setattr(kernels, name, counted)
    return calls


@settings(deadline=None, max_examples=40)
@given(
    examples=st.integers(1, 5),
    blocks=st.integers(1, 5),
    wide=st.sampled_from([1, 2, 8, 16]),
    height=st.integers(4, 17),
    width=st.integers(2, 9),
)
def test_group_norm_and_its_gradients(examples: int, blocks: int, wide: int, height: int, width: int) -> None:
    channels = 16 * blocks
    layer, draw = GroupNorm(channels // wide, channels), torch.Generator().manual_seed(2)
    with torch.no_grad():
        layer.weight.uniform_(-2, 2, generator=draw)
        layer.bias.uniform_(-2, 2, generator=draw)
    inputs = images(examples, channels, height, width)
    grads = images(examples, channels, height, width, seed=1)
    asked = (inputs.requires_grad_(), layer.weight, layer.bias)
    output = layer(inputs)
    exact = [tensor.detach().double().requires_grad_() for tensor in asked]
    truth = group_norm(exact[0], layer.num_groups, exact[1], exact[2])
    assert_close(output, truth)
    found = torch.autograd.grad(output, asked, grads)
    for one, other in zip(found, torch.autograd.grad(truth, exact, grads.double()), strict=True):
        assert_close(one, other)


def test_one_far_value_does_not_drown_the_others() -> None:
    inputs = images(4, 16, 32, 32)
    inputs[:, :, 0, 0] = 1000.0
    truth = group_norm(inputs.double(), 16)
    assert_close(GroupNorm(16, 16)(inputs), truth)


def test_a_small_variance_about_a_large_mean_is_not_drowned() -> None:
    inputs = images(4, 16, 32, 32).mul(0.01).add(100)
    truth = group_norm(inputs.double(), 8)
    assert (GroupNorm(8, 16)(inputs) - truth).abs().max() < 1e-3


def test_group_norm_can_be_differentiated_twice() -> None:
    inputs = images(2, 16, 4, 4).requires_grad_()

    def second(layer: nn.Module, x: Tensor) -> Tensor:
        (first,) = torch.autograd.grad(layer(x).pow(3).sum(), x, create_graph=True)
        (again,) = torch.autograd.grad(first.pow(2).sum(), x)
        return again

    exact = inputs.detach().double().requires_grad_()
    truth = second(nn.GroupNorm(4, 16).double(), exact)
    assert (second(GroupNorm(4, 16), inputs) - truth).abs().max() <= 1e-4 * truth.abs().max()


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("twice", [False, True])
def test_rectified_in_one_pass(added: bool, twice: bool, kernel_calls: list[str]) -> None:
    layer = GroupNorm(4, 32)
    inputs, grads = images(3, 32, 7, 5).requires_grad_(), images(3, 32, 7, 5, seed=1)
    plus = images(3, 32, 7, 5, seed=2).requires_grad_() if added else None
    asked = [tensor for tensor in (inputs, layer.weight, layer.bias, plus) if tensor is not None]
    output = rectified(layer, inputs, plus)
    assert kernel_calls == ["group_norm_forward"]
    exact = [tensor.detach().double().requires_grad_() for tensor in asked]
    sums = group_norm(exact[0], 4, exact[1], exact[2])
    truth = relu(sums + exact[3] if added else sums)
    assert_close(output, truth)
    found = torch.autograd.grad(output, asked, grads, create_graph=twice)
    for one, other in zip(found, torch.autograd.grad(truth, exact, grads.double()), strict=True):
        assert_close(one, other)
    assert ("group_norm_backward" in kernel_calls) is not twice


def test_whoever_watches_a_layer_sees_it() -> None:
    """Per-example gradients hook the layer itself, so it must then be called by itself."""
    layer, seen = GroupNorm(4, 32), []
    layer.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    inputs = images(3, 32, 7, 5)
    assert torch.equal(rectified(layer, inputs), relu(seen[0]))


def test_poison_stays_visible() -> None:
    inputs = images(2, 16, 4, 4)
    inputs[1, 3, 2, 2] = math.nan
    output = rectified(GroupNorm(4, 16), inputs)
    assert output[1, 0:4].isnan().all()
    assert output[0].isfinite().all()


def test_channel_sums() -> None:
    inputs, grads = images(3, 48, 9, 11), images(3, 48, 9, 11, seed=1)
    sums, products = channel_sums(inputs, grads)
    assert_close(sums, grads.double().sum((2, 3)))
    assert_close(products, (inputs.double() * grads).sum((2, 3)))


@settings(deadline=None, max_examples=30)
@given(examples=st.integers(1, 3), blocks=st.integers(1, 3), half=st.tuples(st.integers(1, 6), st.integers(1, 6)))
def test_pooling_and_rectifying_in_one_pass(examples: int, blocks: int, half: tuple[int, int]) -> None:
    layers = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2))
    quick = fastest(nn.Sequential(nn.Conv2d(1, 1, 1), nn.ReLU(), nn.MaxPool2d(2)))[1:]
    assert isinstance(quick[1], RectifiedMaxPool2d)
    inputs = images(examples, 8 * blocks, 2 * half[0], 2 * half[1]).mul(4).round().requires_grad_()  # many ties
    grads = images(examples, 8 * blocks, *half, seed=1)
    truth, output = layers(inputs), quick(inputs)
    assert torch.equal(output, truth)
    assert torch.equal(torch.autograd.grad(output, inputs, grads)[0], torch.autograd.grad(truth, inputs, grads)[0])


def test_pooling_keeps_poison_and_can_be_differentiated_twice() -> None:
    quick, layers = RectifiedMaxPool2d(2), nn.Sequential(nn.ReLU(), nn.MaxPool2d(2))
    inputs = images(2, 8, 4, 4)
    inputs[1, 3, 1, 1] = math.nan
    assert torch.equal(quick(inputs).isnan(), layers(inputs).isnan())
    inputs = images(2, 8, 4, 4).requires_grad_()
    (once,) = torch.autograd.grad(quick(inputs).pow(3).sum(), inputs, create_graph=True)
    (truth,) = torch.autograd.grad(layers(inputs).pow(3).sum(), inputs, create_graph=True)
    assert torch.equal(torch.autograd.grad(once.sum(), inputs)[0], torch.autograd.grad(truth.sum(), inputs)[0])


def test_workers_do_not_overwrite_each_others_memory() -> None:
    """Gradients that come with channels first are copied, and the copy must live until the kernel has read it."""
    inputs, grads = images(16, 32, 16, 16), images(16, 32, 8, 8, seed=1).contiguous()
    layers = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    quick = fastest(layers)

    def gradient(_: int) -> Tensor:
        return torch.autograd.grad(quick(inputs), quick[0].weight, grads)[0]

    expected = gradient(0)
    with ThreadPoolExecutor(4, initializer=torch.set_num_threads, initargs=(1,)) as workers:
        assert all(torch.equal(found, expected) for found in workers.map(gradient, range(200)))


@pytest.mark.parametrize("shape", [(2, 8, 5, 4), (2, 6, 4, 4)])
def test_pooling_of_other_images_is_torchs(shape: tuple[int, ...]) -> None:
    inputs = images(*shape)
    assert torch.equal(RectifiedMaxPool2d(2)(inputs), relu(nn.MaxPool2d(2)(inputs)))


@settings(deadline=None, max_examples=60)
@given(
    examples=st.integers(1, 6),
    channels=st.integers(1, 20),
    blocks=st.integers(1, 3),
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    height=st.integers(8, 20),
    width=st.integers(8, 12),
)
def test_weight_gradients_example_by_example(
    examples: int,
    channels: int,
    blocks: int,
    kernel: tuple[int, int],
    stride: int,
    padding: int,
    height: int,
    width: int,
) -> None:
    layer = nn.Conv2d(channels, 16 * blocks, kernel, stride, padding).double()
    inputs = images(examples, channels, height, width)
    grads = images(*layer(inputs.double()).shape, seed=1)
    geometry = convolution.geometry_of(layer)
    rows = convolution.weight_rows(inputs, grads, geometry)
    truth = torch.stack(
        [
            torch.autograd.grad(layer(inputs[n : n + 1].double()), layer.weight, grads[n : n + 1].double())[0]
            for n in range(examples)
        ]
    )
    assert_close(torch.stack([convolution.arrange(row) for row in rows]), truth)
    assert_close(convolution.weight_sum(inputs, grads, geometry), truth.sum(0))


@settings(max_examples=40, deadline=None)
@given(
    examples=st.integers(1, 3),
    channels=st.sampled_from([16, 32, 48]),
    outputs=st.sampled_from([16, 32, 64]),
    height=st.integers(1, 19),
    width=st.integers(1, 40),
    last=st.booleans(),
)
def test_three_by_three_by_tiles(
    examples: int, channels: int, outputs: int, height: int, width: int, last: bool
) -> None:
    """Whatever the image's sides; 1 x 1 is all border."""
    inputs, weight = images(examples, channels, height, width), images(outputs, channels, 3, 3, seed=1)
    weight, bias = weight if last else weight.contiguous(), torch.randn(outputs)
    grads = images(examples, outputs, height, width, seed=2)
    exact = inputs.double().requires_grad_()
    truth = torch.conv2d(exact, weight.double(), bias.double(), padding=1)
    assert_close(conv3x3.convolved(inputs, weight, bias), truth)
    assert_close(conv3x3.convolved(inputs, weight, None), truth - bias.double()[:, None, None])
    assert_close(conv3x3.passed_back(grads, weight), torch.autograd.grad(truth, exact, grads.double())[0])


def test_tiles_are_no_less_exact_than_torchs_convolution() -> None:
    inputs, weight = images(8, 64, 16, 16), images(64, 64, 3, 3, seed=1)
    truth = torch.conv2d(inputs.double(), weight.double(), padding=1)
    errors = [(found - truth).square().mean().sqrt() for found in _both_ways(inputs, weight)]
    assert errors[0] <= 2 * errors[1]


def _both_ways(inputs: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return conv3x3.convolved(inputs, weight, None), torch.conv2d(inputs, weight, padding=1)


@pytest.mark.parametrize(("trained", "gradients"), [(True, True), (False, True), (False, False)])
def test_a_convolution_by_tiles_asks_for_no_more_than_torchs(
    trained: bool, gradients: bool, kernel_calls: list[str]
) -> None:
    layer = fastest(nn.Conv2d(16, 32, 3, padding=1)).requires_grad_(trained)
    inputs = images(2, 16, 8, 9)
    with torch.set_grad_enabled(gradients):
        output = layer(inputs)
    assert output.requires_grad == (trained and gradients)
    assert kernel_calls == ["conv3x3"]
    if output.requires_grad:
        output.sum().backward()
        assert inputs.grad is None
        assert kernel_calls == ["conv3x3", "conv_weight_sum"]


def test_a_convolution_by_tiles_can_be_differentiated_twice() -> None:
    layer = fastest(nn.Conv2d(16, 16, 3, padding=1))
    truth = copy.deepcopy(layer).double()
    found, expected = (_penalty(net, images(2, 16, 8, 8).to(net.weight.dtype)) for net in (layer, truth))
    assert_close(found, expected)


def _penalty(layer: nn.Conv2d, inputs: Tensor) -> Tensor:
    """The gradient of a gradient's square."""
    inputs = inputs.requires_grad_()
    first = torch.autograd.grad(layer(inputs).pow(3).sum(), inputs, create_graph=True)[0]
    return torch.autograd.grad(first.square().sum(), layer.weight)[0]


def test_tiles_write_nothing_outside_of_their_results() -> None:
    weight = images(16, 16, 3, 3)
    transformed, kernels = torch.empty(16, 16, 16), library()
    assert kernels is not None
    kernels.conv3x3_weights(weight.data_ptr(), transformed.data_ptr(), 16, 16, *weight.stride())
    for height, width in [(8, 8), (9, 7), (1, 1), (33, 35)]:
        inputs, size = images(2, 16, height, width), 2 * 16 * height * width
        room = torch.full((size + 128,), 7.0)
        place = room.data_ptr() + 64 * room.element_size()
        kernels.conv3x3(inputs.data_ptr(), transformed.data_ptr(), None, place, 2, height, width, 16, 16, 1)
        assert (room[:64] == 7).all()
        assert (room[-64:] == 7).all()


def test_a_convolution_learns_what_torchs_learns(kernel_calls: list[str]) -> None:
    layer = fastest(nn.Sequential(nn.Conv2d(3, 32, 5, bias=True), nn.ReLU(), nn.Conv2d(32, 16, 3, padding=1)))
    assert all(isinstance(layer[k], Conv2d) for k in (0, 2))
    inputs = images(7, 3, 14, 14)
    truth = copy.deepcopy(layer).double()
    found = torch.autograd.grad(layer(inputs).square().sum(), list(layer.parameters()))
    expected = torch.autograd.grad(truth(inputs.double()).square().sum(), list(truth.parameters()))
    assert sorted(kernel_calls) == ["conv3x3"] * 2 + ["conv_weight_sum"] * 2
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)


def test_a_image_without_a_batch_is_torchs(kernel_calls: list[str]) -> None:
    layer = fastest(nn.Conv2d(3, 16, 3))
    one, inputs = images(1, 3, 12, 12)[0], images(1, 3, 12, 12)
    assert torch.allclose(layer(one), layer(inputs)[0], rtol=1e-5, atol=1e-6)
    layer(one).sum().backward()
    assert not kernel_calls


def test_the_number_of_threads_changes_no_bit() -> None:
    net = fastest(build("resnet20", shape=(3, 32, 32), classes=10))
    inputs, grads, before = images(18, 32, 16, 16), images(18, 32, 16, 16, seed=1), torch.get_num_threads()
    assert inputs.numel() >= 3 * NUMBERS_PER_THREAD
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            sums = convolution.weight_sum(inputs, grads, convolution.Geometry(kernel=(3, 3), stride=1, padding=1))
            norm = next(
                module for module in net.modules() if isinstance(module, GroupNorm) and module.num_channels == 32
            )
            tiles = conv3x3.convolved(inputs, images(16, 32, 3, 3, seed=2), None)
            results.append((sums, norm(inputs), tiles))
        finally:
            torch.set_num_threads(before)
    assert all(torch.equal(one, other) for result in results[1:] for one, other in zip(results[0], result, strict=True))


def test_a_fast_network_has_the_same_parameters_and_clipped_gradients(kernel_calls: list[str]) -> None:
    net = build("resnet20", shape=(3, 16, 16), classes=10)
    quick = fastest(copy.deepcopy(net))
    assert list(quick.state_dict()) == list(net.state_dict())
    inputs, labels = images(5, 3, 16, 16), torch.arange(5)
    truth = ClippedGradients(copy.deepcopy(net).double()).sum(inputs.double(), labels, clip_norm=0.5)
    found = ClippedGradients(quick).sum(inputs, labels, clip_norm=0.5)
    assert {"group_norm_forward", "group_norm_backward", "conv_weight_rows", "conv3x3"} == set(kernel_calls)
    assert (found.total - truth.total).norm() <= 1e-2 * truth.total.norm()  # rounding may flip a unit at its kink
    plain = torch.autograd.grad(cross_entropy(quick(inputs), labels), list(quick.parameters()))
    exact = torch.autograd.grad(cross_entropy(net(inputs), labels), list(net.parameters()))
    for one, other in zip(plain, exact, strict=True):
        assert (one - other).norm() <= 1e-2 * other.norm()


def test_one_poisoned_example_is_left_out_and_harms_no_other() -> None:
    quick = fastest(build("resnet20", shape=(3, 16, 16), classes=10))
    inputs, labels = images(5, 3, 16, 16), torch.arange(5)
    inputs[2, 0, 3, 3] = math.nan
    others = [0, 1, 3, 4]
    with_it = ClippedGradients(quick).sum(inputs, labels, clip_norm=0.5)
    without = ClippedGradients(quick).sum(inputs[others], labels[others], clip_norm=0.5)
    assert with_it.nonfinite == 1
    assert (with_it.total - without.total).norm() <= 1e-5 * without.total.norm()


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(4, 16, 3, groups=2),
        nn.Conv2d(4, 16, 3, dilation=2),
        nn.Conv2d(4, 16, 3, padding="same"),
        nn.Conv2d(4, 16, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(4, 16, 3, stride=(1, 2)),
        nn.Conv2d(4, 10, 3),
        nn.GroupNorm(2, 4),
    ],
)
def test_what_does_not_suit_is_torchs(layer: nn.Module, kernel_calls: list[str]) -> None:
    inputs = images(2, 4, 20, 20).requires_grad_()
    expected = torch.autograd.grad(layer(inputs).square().sum(), [inputs, *layer.parameters()])
    quick = fastest(copy.deepcopy(layer))
    found = torch.autograd.grad(quick(inputs).square().sum(), [inputs, *quick.parameters()])
    assert not kernel_calls
    assert all(torch.allclose(one, other, rtol=1e-4) for one, other in zip(found, expected, strict=True))


EXTREME_WORDS = [0, 1, -1, 2**63 - 1, -(2**63), -(2**63) + 1, 2**62]


@pytest.mark.parametrize(("pairs", "both"), [(1, 0), (1, 1), (1024, 1023), (5000, 5000), (5000, 1500)])
def test_gaussian_pairs(pairs: int, both: int) -> None:
    generator = np.random.default_rng(pairs + both)
    radius_words = torch.from_numpy(generator.integers(-(2**63), 2**63, pairs, dtype=np.int64))
    angle_words = torch.from_numpy(generator.integers(-(2**31), 2**31, pairs, dtype=np.int32))
    extremes = torch.tensor(EXTREME_WORDS)[:pairs]
    radius_words[: len(extremes)] = extremes
    out = torch.full((pairs + both + 1,), math.nan)
    gaussian_pairs(radius_words, angle_words, out[:pairs], out[pairs:-1], std=2.0)
    truth = torch.empty(pairs + both, dtype=torch.float64)
    _gaussian_pairs(radius_words, angle_words.long() << 32, truth[:pairs], truth[pairs:], std=2.0)
    assert math.isnan(out[-1])
    assert (out[:-1] - truth).abs().max() < 1e-5
    assert out[:-1].isfinite().all()


def test_small_radii_have_no_grid() -> None:
    """Words next to the largest give radii near zero, where a single-precision logarithm would see only one value."""
    words = torch.arange(2**63 - 2**20, 2**63 - 1, 2**12)
    out = torch.empty(len(words))
    gaussian_pairs(words, torch.zeros(len(words), dtype=torch.int32), out, torch.empty(0), std=1.0)
    exact = np.sqrt(2 * (2.0**63 - words.numpy().astype(object)).astype(float) * 2.0**-63)
    assert np.abs(out.numpy() / exact - 1).max() < 1e-2
    assert len(out.unique()) > 100


def test_kernels_can_be_switched_off() -> None:
    check = "from sordino.kernels.native import library; raise SystemExit(library() is not None)"
    environment = {**os.environ, SWITCH: "off"}
    assert subprocess.run([sys.executable, "-c", check], env=environment, check=False).returncode == 0


def test_kernels_older_than_their_sources_are_not_trusted(tmp_path: Path) -> None:
    built = tmp_path / "built.so"
    built.touch()
    os.utime(built, (0, 0))
    with pytest.warns(UserWarning, match="older than their sources"):
        assert _is_stale(built)
    os.utime(built)
    assert not _is_stale(built)
