"""The time of smoothing a model's ten noisy copies, against the full complex SVD of every Fourier slice, interleaved."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from sordino.methods.tensor_lowrank import smooth

COPIES = 10
THRESHOLD = 20.0
MODELS: dict[str, tuple[tuple[tuple[int, ...], ...], int]] = {
    "emnist mlp 784-64-47": (((64, 784), (47, 64)), 15),
    "cifar-10 lenet-5": (((32, 3, 5, 5), (64, 32, 5, 5), (512, 1600), (512, 512), (10, 512)), 3),
}


def measure() -> list[dict[str, object]]:
    """One row per model: median seconds of both routes over all its tensors, their ratio, and how far they differ."""
    return [_row(model, shapes, repeats) for model, (shapes, repeats) in MODELS.items()]


def _row(model: str, shapes: tuple[tuple[int, ...], ...], repeats: int) -> dict[str, object]:
    generator = torch.Generator().manual_seed(0)
    stacks = [torch.randn(COPIES, *shape, generator=generator) for shape in shapes]
    routes: dict[str, Callable[[Tensor, float], Tensor]] = {"smooth": smooth, "full svd": full_complex_svd}
    seconds: dict[str, list[float]] = {name: [] for name in routes}
    for _ in range(repeats):
        for name, route in routes.items():
            start = time.perf_counter()
            for stack in stacks:
                route(stack, THRESHOLD)
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    return {
        "benchmark": "tensor_lowrank",
        "model": model,
        "copies": COPIES,
        "threads": torch.get_num_threads(),
        "smooth_ms": medians["smooth"] * 1e3,
        "full svd_ms": medians["full svd"] * 1e3,
        "full svd / smooth": medians["full svd"] / medians["smooth"],
        "largest relative difference": max(_difference(stack) for stack in stacks),
    }


def full_complex_svd(stack: Tensor, threshold: float) -> Tensor:
    """The textbook route: FFT over the copies, a complex SVD of all K slices, soft threshold, inverse FFT."""
    matrices = stack.flatten(2)
    left, values, right = torch.linalg.svd(torch.fft.fft(matrices, dim=0), full_matrices=False)
    shrunk = (left * (values - threshold).clamp(min=0).unsqueeze(-2)) @ right
    smoothed: Tensor = torch.fft.ifft(shrunk, dim=0).real
    return smoothed.reshape(stack.shape)


def _difference(stack: Tensor) -> float:
    exact = full_complex_svd(stack.double(), THRESHOLD)
    return float((smooth(stack, THRESHOLD) - exact).norm() / stack.norm())


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
