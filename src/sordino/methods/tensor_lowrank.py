"""Smooth K noisy copies of one parameter against each other: soft-thresholded tensor SVD along the clients.

The K copies of a parameter form a tensor W of K matrices. `smooth` returns

    argmin_X  ‖X‖_TNN + 1/(2τ)·‖X − W‖_F²,

where the tensor nuclear norm ‖X‖_TNN is the mean over frequencies of the nuclear norms of the slices X̂_k of the
unnormalised discrete Fourier transform of X over the clients. By Parseval ‖X − W‖_F² is the mean over frequencies of
‖X̂_k − Ŵ_k‖_F², so the same 1/K stands before both terms and the problem falls apart into one per frequency,

    min_Z  ‖Z‖_* + 1/(2τ)·‖Z − Ŵ_k‖_F²,

each solved by s → max(s − τ, 0) on the singular values of Ŵ_k. Real copies have Ŵ_{K−k} = conj(Ŵ_k), the solutions too,
so ⌊K/2⌋ + 1 slices say everything. Slice 0 is K times the mean copy: the mean of the smoothed copies is the mean copy
with its singular values shrunk by τ/K, whatever the order of the clients; the other slices shape the single copies only.

Formal guarantee: none of its own. Smoothing is post-processing of released copies, but one that uses them one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from sordino.core import SordinoError
from sordino.threads import compute_threads

MOST_PARAMETER_AXES = 4
DOUBLE = (torch.float64, torch.complex128)

PANEL_ROWS = 64
"""Rows of a symmetric product computed at once, up to the diagonal: enough for full speed, and half the work is saved."""

WORTH_A_WORKER = 1 << 24
"""Multiplications in a slice's Gram matrix from which on a worker gains more than its start costs."""


def threshold_at(round_number: int, *, regularisation: float, growth: float, interval: int) -> float:
    """τ = ϑ^⌈t/I⌉ / (2λ) with t = 0, 1, … the rounds before this one, as the authors count; λ = inf never smooths, ϑ = 1 keeps τ.

    In the rounds that smooth, I, 2I, …, the powers are 1, 2, … for I from 2 on, and 0, 1, … for I = 1, where every round smooths.
    """
    if round_number < 1:
        raise SordinoError(f"Rounds are counted from 1, but the threshold of round {round_number} was asked for.")
    if not regularisation > 0:
        raise SordinoError(f"The regularisation λ must be above 0, but it is {regularisation}; 0.01 to 100 is usual.")
    if not 1 <= growth < math.inf:
        raise SordinoError(f"The growth ϑ must be at least 1 and finite, but it is {growth}; 1.01 to 1.10 is usual.")
    if interval < 1:
        raise SordinoError(
            f"The smoothing interval I must be at least 1 round, but it is {interval}; 10 to 30 is usual."
        )
    try:
        threshold = growth ** -(-(round_number - 1) // interval) / (2 * regularisation)
    except OverflowError:
        threshold = math.inf
    if not math.isfinite(threshold):
        raise SordinoError(
            f"The threshold of round {round_number} is too large for a number (growth ϑ = {growth}, interval I = "
            f"{interval}, regularisation λ = {regularisation}); lower ϑ, or raise I or λ."
        )
    return threshold


def smooth(stack: Tensor, threshold: float) -> Tensor:
    """The noisy copies, K x the parameter's own shape, smoothed against each other with threshold τ.

    A kernel (out, in, kh, kw) counts as the matrix out x (in·kh·kw), a bias of h numbers as 1 x h. One copy alone is
    shrunk as a matrix; τ = 0 changes nothing; the order of the copies matters to each of them, not to their mean.
    """
    return smooth_with_spectrum(stack, threshold)[0]


@torch.no_grad()
def smooth_with_spectrum(stack: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """The smoothed copies, and the `singular_values` of the copies before: those after are max(s − τ, 0)."""
    if not threshold >= 0:
        raise SordinoError(f"The smoothing threshold must be 0 or more, but it is {threshold}; give a threshold ≥ 0.")
    _check(stack)
    if threshold == 0 or stack.numel() == 0:
        return stack.clone(), singular_values(stack)
    slices, copies = _frequencies(stack), stack.shape[0]

    def shrink_in_place(frequency: int) -> Tensor:
        here = slices[frequency]
        shrunk, values = _shrink(here.real.contiguous() if 2 * frequency in (0, copies) else here, threshold)
        here.copy_(shrunk)
        return values

    def inverse(_: int) -> Tensor:
        restored: Tensor = torch.fft.irfft(slices, n=copies, dim=0)
        return restored

    values = torch.stack(_on_single_threads(shrink_in_place, slices, len(slices)))
    (smoothed,) = _on_single_threads(inverse, slices, 1)
    return smoothed.reshape(stack.shape).to(stack.dtype), values.to(stack.dtype)


def shrink_average(mean: Tensor, threshold: float) -> Tensor:
    """One parameter with its singular values soft-thresholded: with τ/K, what smoothing does to the mean of K copies."""
    return smooth(mean.unsqueeze(0), threshold).squeeze(0)


@torch.no_grad()
def singular_values(stack: Tensor) -> Tensor:
    """The singular values at frequencies 0 … ⌊K/2⌋, one row each, largest first: what the threshold is held against."""
    _check(stack)
    if stack.numel() == 0:
        return stack.new_zeros(stack.shape[0] // 2 + 1, 0)
    slices = _frequencies(stack)
    if slices.dtype in DOUBLE:
        values: Tensor = torch.linalg.svdvals(slices)
        return values
    wide = slices.mT if slices.shape[-2] > slices.shape[-1] else slices
    squares: Tensor = torch.linalg.eigvalsh(_gram(wide))
    return squares.clamp(min=0).sqrt().flip(-1).to(stack.dtype)


def _check(stack: Tensor) -> None:
    if not stack.is_floating_point():
        raise SordinoError(f"Smoothing expects real floating-point parameters, but got {stack.dtype}; leave them out.")
    parameter_shape = tuple(stack.shape[1:])
    if len(parameter_shape) > MOST_PARAMETER_AXES:
        raise SordinoError(
            f"Smoothing expects parameters of at most {MOST_PARAMETER_AXES} axes, but one has shape {parameter_shape}; "
            "leave its layer out of the smoothing."
        )
    if stack.dim() == 0 or stack.shape[0] == 0:
        raise SordinoError("Smoothing expects at least one client's copy, but got none; skip the smoothing this round.")
    if stack.numel() and not all(math.isfinite(extreme) for extreme in stack.aminmax()):
        raise SordinoError("Smoothing expects finite copies, but some hold NaN or Inf; zero such uploads beforehand.")


def _frequencies(stack: Tensor) -> Tensor:
    """The non-negative frequencies over the clients, as (⌊K/2⌋ + 1) matrices."""
    copies, *shape = stack.shape
    rows = shape[0] if len(shape) > 1 else 1
    columns = math.prod(shape[1:] if len(shape) > 1 else shape)
    precision = torch.float64 if stack.dtype == torch.float64 else torch.float32
    slices: Tensor = torch.fft.rfft(stack.to(precision).reshape(copies, rows, columns), dim=0)
    return slices


def _on_single_threads(work: Callable[[int], Tensor], slices: Tensor, count: int) -> list[Tensor]:
    """`work` on the numbers below `count`, on one thread each; large slices side by side on as many as the caller has.

    Two eigenproblems at once make better use of two threads than one after the other. More than one thread inside them,
    or inside a Fourier transform, would change the bits with the number of threads.
    """
    threads = torch.get_num_threads()
    if slices.device.type != "cpu" or threads == 1:
        return [work(item) for item in range(count)]
    short, long = sorted(slices.shape[-2:])
    if count > 1 and short * short * long >= WORTH_A_WORKER:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(work, range(count)))
    with compute_threads(1):
        return [work(item) for item in range(count)]


def _shrink(matrix: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """s → max(s − τ, 0) on the singular values by the cheapest route that is accurate enough; and s, largest first."""
    if 1 in matrix.shape:
        norm: Tensor = torch.linalg.vector_norm(matrix)
        return matrix * (1 - threshold / norm).clamp(min=0), norm.unsqueeze(0)
    if matrix.shape[0] > matrix.shape[1]:
        shrunk, values = _shrink(matrix.mT, threshold)
        return shrunk.mT, values
    if matrix.dtype in DOUBLE:
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
        return (left * (values - threshold).clamp(min=0)) @ right, values
    return _shrink_by_squaring(matrix, threshold)


def _shrink_by_squaring(matrix: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """U·diag(max(1 − τ/s, 0))·Uᴴ·W, with U and s² from the eigenproblem of W·Wᴴ, for single-precision W.

    Squaring costs half the digits: in double precision the error stays near 1e-8 of the largest singular value, less
    than one single-precision rounding of the input, however small the threshold; in single precision it would not.
    What stays and what goes, U·diag(min(τ/s, 1))·Uᴴ·W, add up to W: the smaller part is computed, so that the rounding
    of the single-precision products is small too; what stays needs only the directions above the threshold.
    """
    squares, basis = torch.linalg.eigh(_gram(matrix))
    values = squares.clamp(min=0).sqrt()
    kept_values, lost_values = (values - threshold).clamp(min=0), values.clamp(max=threshold)
    if kept_values.norm() < lost_values.norm():
        above = basis[:, values > threshold].to(matrix.dtype)
        share = (kept_values / values)[values > threshold].to(matrix.real.dtype)
        return torch.linalg.multi_dot([above * share, above.mH, matrix]), values.flip(0)
    basis, share = basis.to(matrix.dtype), (threshold / values).clamp(max=1).to(matrix.real.dtype)
    return torch.addmm(matrix, (basis * share) @ basis.mH, matrix, alpha=-1), values.flip(0)


def _gram(matrices: Tensor) -> Tensor:
    """W·Wᴴ in double precision, of which only the lower triangle is to be read: the rest is not all computed.

    For W = A + iB it is AAᵀ + BBᵀ + i(BAᵀ − (BAᵀ)ᵀ), all of it in the lower triangle of the real Gram of A above B.
    """
    if matrices.is_complex():
        real = _gram(torch.cat([matrices.real, matrices.imag], dim=-2))
        half = matrices.shape[-2]
        cross = real[..., half:, :half]
        return torch.complex(real[..., :half, :half] + real[..., half:, half:], cross - cross.mT)
    double = matrices.double()
    rows = double.shape[-2]
    gram = double.new_zeros(*double.shape[:-1], rows)
    for begin in range(0, rows, PANEL_ROWS):
        end = begin + PANEL_ROWS
        gram[..., begin:end, :end] = double[..., begin:end, :] @ double[..., :end, :].mT
    return gram
