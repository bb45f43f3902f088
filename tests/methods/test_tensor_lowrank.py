"""The tensor smoothing operator against plain numpy, its own objective, and its limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sordino.core import SordinoError
from sordino.methods.tensor_lowrank import (
    PANEL_ROWS,
    shrink_average,
    singular_values,
    smooth,
    smooth_with_spectrum,
    threshold_at,
)

SHAPES = [(), (1,), (13,), (1, 7), (7, 1), (6, 6), (5, 17), (17, 5), (4, 3, 5), (8, 3, 5, 5), (6, 2, 1, 1)]


def noisy_copies(copies: int, shape: tuple[int, ...], *, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Copies of one low-rank parameter, each with its own noise."""
    generator = torch.Generator().manual_seed(seed)
    rows = shape[0] if len(shape) > 1 else 1
    columns = math.prod(shape) // rows
    left, right = torch.randn(rows, 1, generator=generator), torch.randn(1, columns, generator=generator)
    noise = 0.5 * torch.randn(copies, rows, columns, generator=generator)
    return (left @ right + noise).reshape(copies, *shape).to(dtype)


def as_matrices(stack: Tensor) -> np.ndarray:
    array = stack.double().numpy()
    shape = stack.shape[1:]
    return array.reshape(len(array), shape[0] if len(shape) > 1 else 1, -1)


def plain_smooth(stack: Tensor, threshold: float) -> np.ndarray:
    """FFT, SVD of every slice, soft threshold, inverse FFT; in numpy, with the clients last."""
    slices = np.fft.fft(np.moveaxis(as_matrices(stack), 0, -1), axis=-1)
    for k in range(slices.shape[-1]):
        left, values, right = np.linalg.svd(slices[:, :, k], full_matrices=False)
        slices[:, :, k] = (left * np.maximum(values - threshold, 0)) @ right
    smoothed = np.fft.ifft(slices, axis=-1)
    assert np.abs(smoothed.imag).max(initial=0) < 1e-10
    return np.moveaxis(smoothed.real, -1, 0).reshape(stack.shape)


def objective(candidate: Tensor, stack: Tensor, threshold: float) -> float:
    spectrum = np.fft.fft(as_matrices(candidate), axis=0)
    nuclear_norms = np.linalg.svd(spectrum, compute_uv=False).sum(axis=-1)
    return float(nuclear_norms.mean() + ((candidate - stack) ** 2).sum() / (2 * threshold))


def middle_threshold(stack: Tensor) -> float:
    """The median singular value: half of the directions vanish, at some frequencies all, and half stay."""
    return float(singular_values(stack).median())


@settings(max_examples=60, deadline=None)
@given(
    copies=st.integers(1, 11),
    shape=st.sampled_from(SHAPES),
    relative=st.floats(1e-6, 1.5),
    seed=st.integers(0, 2**16),
)
def test_smooth_equals_the_plain_reference(copies: int, shape: tuple[int, ...], relative: float, seed: int) -> None:
    stack = noisy_copies(copies, shape, seed=seed)
    threshold = relative * float(singular_values(stack).max())
    smoothed = smooth(stack, threshold)
    assert smoothed.shape == stack.shape
    assert smoothed.dtype == stack.dtype
    largest = float(stack.abs().max())
    np.testing.assert_allclose(smoothed.numpy(), plain_smooth(stack, threshold), rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize("relative", [1e-6, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(PANEL_ROWS + 9, PANEL_ROWS + 30), (2 * PANEL_ROWS + 1, PANEL_ROWS)])
def test_matrices_of_many_panels_equal_the_plain_reference(shape: tuple[int, int], relative: float) -> None:
    stack = noisy_copies(4, shape, seed=15)
    values = singular_values(stack)
    threshold = relative * float(values[1].max())
    smoothed, spectrum = smooth_with_spectrum(stack, threshold)
    largest = float(stack.abs().max())
    np.testing.assert_allclose(smoothed.numpy(), plain_smooth(stack, threshold), rtol=0, atol=1e-5 * largest)
    torch.testing.assert_close(spectrum, values, rtol=0, atol=1e-6 * float(values.max()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("threshold", [0.0, 2.0])
def test_smoothing_tells_the_spectrum_it_shrinks(shape: tuple[int, ...], threshold: float, dtype: torch.dtype) -> None:
    stack = noisy_copies(6, shape, seed=16, dtype=dtype)
    smoothed, before = smooth_with_spectrum(stack, threshold)
    assert before.dtype == dtype
    tolerance = 2 * torch.finfo(dtype).eps ** (1 if dtype == torch.float16 else 0.75) * float(before.max())
    torch.testing.assert_close(before, singular_values(stack), rtol=0, atol=tolerance)
    after = (before - threshold).clamp(min=0)
    torch.testing.assert_close(singular_values(smoothed), after, rtol=0, atol=4 * tolerance)


@pytest.mark.parametrize("relative", [0.05, 0.8])
def test_bits_do_not_depend_on_the_number_of_threads(relative: float) -> None:
    stack = noisy_copies(7, (70, 90), seed=17)
    threshold = relative * float(singular_values(stack)[1:].max())
    found, threads = [], torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(smooth(stack, threshold))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("shape", [(12, 30), (30, 12), (4, 3, 3, 3), (9,)])
def test_double_precision_is_kept(shape: tuple[int, ...]) -> None:
    stack = noisy_copies(7, shape, seed=1, dtype=torch.float64)
    threshold = middle_threshold(stack)
    np.testing.assert_allclose(smooth(stack, threshold).numpy(), plain_smooth(stack, threshold), rtol=0, atol=1e-12)


@pytest.mark.parametrize("ratio", [1e1, 1e3, 1e5, 1e7, 1e9])
def test_single_precision_survives_a_dominant_direction(ratio: float) -> None:
    """One singular value far above the threshold, the others around it: where squaring in single precision fails."""
    generator = torch.Generator().manual_seed(0)
    left, _ = torch.linalg.qr(torch.randn(24, 24, generator=generator, dtype=torch.float64))
    right, _ = torch.linalg.qr(torch.randn(40, 24, generator=generator, dtype=torch.float64))
    values = torch.linspace(0.5, 2, 24, dtype=torch.float64)
    values[0] = ratio
    matrix = ((left * values) @ right.mT).float()
    expected = plain_smooth(matrix.unsqueeze(0), 1.0)[0]
    error = np.linalg.norm(shrink_average(matrix, 1.0).numpy() - expected, ord=2)
    assert error < 1e-6 * ratio


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single_and_returned_in_kind(dtype: torch.dtype) -> None:
    stack = noisy_copies(4, (6, 9), seed=2, dtype=dtype)
    smoothed = smooth(stack, 3.0)
    assert smoothed.dtype == dtype
    torch.testing.assert_close(smoothed, smooth(stack.float(), 3.0).to(dtype))


@pytest.mark.parametrize(("copies", "shape"), [(5, (6, 9)), (6, (9, 4)), (4, (3, 2, 3, 3)), (5, (8,)), (1, (5, 7))])
def test_no_perturbation_lowers_the_objective(copies: int, shape: tuple[int, ...]) -> None:
    stack = noisy_copies(copies, shape, seed=3, dtype=torch.float64)
    threshold = middle_threshold(stack)
    best = smooth(stack, threshold)
    lowest = objective(best, stack, threshold)
    assert lowest < objective(stack, stack, threshold)
    generator = torch.Generator().manual_seed(4)
    for number in range(1000):
        direction = torch.randn(best.shape, generator=generator, dtype=torch.float64)
        size = 10.0 ** -(number % 5)
        assert objective(best + size * direction, stack, threshold) >= lowest


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_another_threshold_is_not_the_minimiser(factor: float) -> None:
    stack = noisy_copies(5, (6, 9), seed=5, dtype=torch.float64)
    threshold = middle_threshold(stack)
    other = smooth(stack, factor * threshold)
    assert objective(other, stack, threshold) > objective(smooth(stack, threshold), stack, threshold) + 1e-6


@pytest.mark.parametrize("shape", SHAPES)
def test_threshold_zero_is_the_identity_on_a_copy(shape: tuple[int, ...]) -> None:
    stack = noisy_copies(6, shape, seed=6)
    smoothed = smooth(stack, 0.0)
    assert torch.equal(smoothed, stack)
    assert smoothed.data_ptr() != stack.data_ptr()


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0)])
def test_an_empty_parameter_stays_empty(shape: tuple[int, ...]) -> None:
    smoothed, spectrum = smooth_with_spectrum(torch.zeros(5, *shape), 1.0)
    assert smoothed.shape == (5, *shape)
    assert spectrum.shape == (3, 0)


@pytest.mark.parametrize("copies", [2, 7, 10])
@pytest.mark.parametrize("shape", [(8, 20), (20, 8), (6, 3, 3, 3), (15,)])
def test_threshold_above_all_other_frequencies_leaves_the_low_rank_average(copies: int, shape: tuple[int, ...]) -> None:
    stack = 3.0 + noisy_copies(copies, shape, seed=7)
    values = singular_values(stack)
    threshold = 1.01 * float(values[1:].max())
    assert threshold < values[0].max()
    smoothed = smooth(stack, threshold)
    average = shrink_average(stack.mean(dim=0), threshold / copies)
    assert float(average.abs().max()) > 0.1
    for copy in smoothed:
        torch.testing.assert_close(copy, average, rtol=1e-5, atol=1e-5)


def test_threshold_above_every_singular_value_leaves_nothing() -> None:
    stack = noisy_copies(6, (8, 12), seed=8)
    assert not smooth(stack, 1.01 * float(singular_values(stack).max())).any()
    assert not smooth(stack, math.inf).any()
    assert not smooth(torch.zeros(3, 4, 5), 1.0).any()
    assert not smooth(torch.zeros(3, 4), 1.0).any()


@settings(max_examples=40, deadline=None)
@given(copies=st.integers(1, 11), shape=st.sampled_from(SHAPES), relative=st.floats(0, 1.2), seed=st.integers(0, 2**16))
def test_mean_of_the_smoothed_copies_is_the_shrunk_average(
    copies: int, shape: tuple[int, ...], relative: float, seed: int
) -> None:
    stack = noisy_copies(copies, shape, seed=seed)
    threshold = relative * float(singular_values(stack).max())
    shrunk = shrink_average(stack.mean(dim=0), threshold / copies)
    largest = float(stack.abs().max())
    torch.testing.assert_close(smooth(stack, threshold).mean(dim=0), shrunk, rtol=0, atol=2e-6 * largest)


def test_order_of_the_clients_matters_to_the_copies_and_not_to_their_mean() -> None:
    stack = noisy_copies(6, (7, 11), seed=9, dtype=torch.float64)
    threshold = middle_threshold(stack)
    smoothed = smooth(stack, threshold)
    order = torch.tensor([0, 2, 1, 3, 5, 4])
    reordered = smooth(stack[order], threshold)
    torch.testing.assert_close(reordered.mean(dim=0), smoothed.mean(dim=0), rtol=0, atol=1e-12)
    assert float((reordered - smoothed[order]).abs().max()) > 1e-3
    torch.testing.assert_close(smooth(stack.roll(2, dims=0), threshold), smoothed.roll(2, dims=0), rtol=0, atol=1e-12)


def test_one_copy_is_shrunk_as_a_matrix() -> None:
    matrix = noisy_copies(1, (9, 5), seed=10)[0]
    left, values, right = np.linalg.svd(matrix.double().numpy(), full_matrices=False)
    expected = (left * np.maximum(values - 1.0, 0)) @ right
    np.testing.assert_allclose(smooth(matrix.unsqueeze(0), 1.0)[0].numpy(), expected, rtol=0, atol=1e-5)


def test_a_bias_shrinks_by_its_norm() -> None:
    bias = torch.tensor([3.0, 4.0])
    torch.testing.assert_close(shrink_average(bias, 1.0), 0.8 * bias)
    assert not shrink_average(bias, 5.0).any()


def test_a_kernel_is_the_matrix_out_by_the_rest() -> None:
    kernels = noisy_copies(5, (8, 3, 5, 5), seed=11)
    torch.testing.assert_close(smooth(kernels, 9.0).flatten(2), smooth(kernels.flatten(2), 9.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("copies", "shape"), [(1, (5, 9)), (6, (9, 5)), (7, (4, 2, 3, 3)), (4, (11,))])
def test_singular_values_per_frequency(copies: int, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    stack = noisy_copies(copies, shape, seed=12, dtype=dtype)
    spectrum = np.fft.fft(as_matrices(stack), axis=0)[: copies // 2 + 1]
    expected = np.linalg.svd(spectrum, compute_uv=False)
    values = singular_values(stack)
    assert values.dtype == dtype
    np.testing.assert_allclose(values.numpy(), expected, rtol=0, atol=1e-5 * expected.max())


def test_the_input_is_left_alone_and_no_graph_is_kept() -> None:
    stack = noisy_copies(4, (5, 6), seed=13).requires_grad_()
    before = stack.detach().clone()
    assert not smooth(stack, 2.0).requires_grad
    assert not singular_values(stack).requires_grad
    assert torch.equal(stack.detach(), before)


def test_a_transposed_stack_gives_the_transposed_result() -> None:
    stack = noisy_copies(5, (6, 13), seed=14)
    torch.testing.assert_close(smooth(stack.mT, 4.0), smooth(stack, 4.0).mT)


@pytest.mark.parametrize("operator", [lambda stack: smooth(stack, 1.0), singular_values], ids=["smooth", "values"])
@pytest.mark.parametrize(
    ("stack", "words"),
    [
        (torch.zeros(3, 2, 2, 2, 2, 2), "at most 4 axes"),
        (torch.zeros(0, 4, 5), "at least one client"),
        (torch.zeros(()), "at least one client"),
        (torch.tensor([[1.0, math.nan]]), "finite"),
        (torch.tensor([[1.0, -math.inf], [0.0, 1.0]]), "finite"),
        (torch.zeros(3, 4, dtype=torch.int64), "floating-point"),
        (torch.zeros(3, 4, dtype=torch.complex64), "floating-point"),
    ],
)
def test_unfit_stacks_are_refused(operator: object, stack: Tensor, words: str) -> None:
    assert callable(operator)
    with pytest.raises(SordinoError, match=words):
        operator(stack)


@pytest.mark.parametrize("threshold", [-1e-9, -1.0, math.nan])
def test_a_threshold_below_zero_is_refused(threshold: float) -> None:
    with pytest.raises(SordinoError, match="0 or more"):
        smooth(torch.ones(2, 3), threshold)


def test_threshold_schedule() -> None:
    def at(number: int) -> float:
        return threshold_at(number, regularisation=0.03, growth=1.06, interval=20)

    assert at(2) == at(20) == pytest.approx(1.06 / 0.06)
    assert at(22) == at(40) == pytest.approx(1.06**2 / 0.06)
    assert at(300) == pytest.approx(1.06**15 / 0.06)


def test_smoothing_in_every_round_begins_without_a_power_of_the_growth() -> None:
    every = [threshold_at(number, regularisation=0.5, growth=2.0, interval=1) for number in (1, 2, 3)]
    assert every == [1.0, 2.0, 4.0]
    second = [threshold_at(number, regularisation=0.5, growth=2.0, interval=2) for number in (2, 4, 6)]
    assert second == [2.0, 4.0, 8.0]


def test_threshold_limits() -> None:
    assert threshold_at(300, regularisation=0.5, growth=1.0, interval=1) == 1.0
    assert threshold_at(7, regularisation=1.0, growth=2.0, interval=1) == 32.0
    assert threshold_at(300, regularisation=1.0, growth=2.0, interval=10**9) == 1.0
    assert threshold_at(300, regularisation=math.inf, growth=1.1, interval=10) == 0.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"regularisation": 0.0}, "regularisation"),
        ({"regularisation": -1.0}, "regularisation"),
        ({"regularisation": math.nan}, "regularisation"),
        ({"growth": 0.99}, "growth"),
        ({"growth": math.nan}, "growth"),
        ({"growth": math.inf}, "growth"),
        ({"interval": 0}, "interval"),
        ({"round_number": 0}, "counted from 1"),
        ({"growth": 1e10, "interval": 1}, "too large"),
        ({"regularisation": 5e-324}, "too large"),
    ],
)
def test_unfit_schedules_are_refused(changes: dict[str, float], words: str) -> None:
    settings = {"round_number": 300, "regularisation": 1.0, "growth": 1.05, "interval": 10} | changes
    with pytest.raises(SordinoError, match=words):
        threshold_at(**settings)  # type: ignore[arg-type]
