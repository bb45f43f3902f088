"""A private training step as a multiple of a plain one: ours, vmap(grad) and every mode of Opacus, interleaved."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.bench_models import WORKLOADS, Workload
from benchmarks.lockstep import ROOT, child_environment
from sordino.engine.allocator import tune_allocator
from sordino.gradients import ClippedGradients, cross_entropy_per_example
from sordino.gradients.fallback import vmap_gradients
from sordino.kernels import fastest
from sordino.kernels.native import SWITCH, library
from sordino.privacy.noise import SecureNoise

Step = Callable[[], object]
OPACUS_MODES = ("hooks", "functorch", "ew", "ghost")
LEARNING_RATE, CLIP_NORM, NOISE_MULTIPLIER = 0.01, 1.0, 1.0
SECONDS_PER_CONTENDER, REPEATS = 3.0, (3, 60)
ALLOCATOR_VARIABLE = "SORDINO_ALLOCATOR"
WITH_NOISE, TORCH_ALONE = "sordino with noise", ", torch alone"


def measure(names: tuple[str, ...] = ()) -> list[dict[str, object]]:
    """One row per model and contender: median milliseconds, and the ratio to plain SGD in the same process.

    Opacus is timed twice: as its users run it, with the system's allocator, and with the allocator that we tune. We are
    timed twice: with our compiled kernels, and with torch alone.
    """
    rows: list[dict[str, object]] = []
    for workload in WORKLOADS:
        if not names or workload.name in names:
            for variables in ({}, {ALLOCATOR_VARIABLE: "system"}, {SWITCH: "off"}):
                rows += _in_a_process_of_its_own(workload.name, variables)
    return rows


def _in_a_process_of_its_own(name: str, variables: dict[str, str]) -> list[dict[str, object]]:
    environment = {**child_environment(), ALLOCATOR_VARIABLE: "tuned", **variables}
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.dp_sgd_step", name]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def _measure_here(name: str) -> list[dict[str, object]]:
    workload = next(workload for workload in WORKLOADS if workload.name == name)
    tuned = tune_allocator()
    contenders = _contenders(workload)
    if library() is None:
        contenders = {step: run for step, run in contenders.items() if step in ("plain", WITH_NOISE)}
        suffix = {"plain": TORCH_ALONE, WITH_NOISE: TORCH_ALONE}
    elif tuned:
        suffix = {step: " with our allocator" for step in contenders if step.startswith("opacus")}
    else:
        contenders = {step: run for step, run in contenders.items() if step == "plain" or step.startswith("opacus")}
        suffix = {"plain": " with the system's allocator"}
    medians = interleaved(contenders)
    return [
        {
            "model": name,
            "step": step + suffix.get(step, ""),
            "ms": 1e3 * seconds,
            "ratio": seconds / medians["plain"],
        }
        for step, seconds in medians.items()
    ]


def interleaved(steps: dict[str, Step]) -> dict[str, float]:
    """Median seconds of each step, taken in turns so that a busy moment hits all alike."""
    slowest = 0.0
    for step in steps.values():
        step()
        slowest = max(slowest, _seconds(step))
    least, most = REPEATS
    repeats = int(min(most, max(least, SECONDS_PER_CONTENDER / slowest)))
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats):
        for name, step in steps.items():
            seconds[name].append(_seconds(step))
    return {name: statistics.median(values) for name, values in seconds.items()}


def _seconds(step: Step) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _contenders(workload: Workload) -> dict[str, Step]:
    inputs, targets = workload.make_batch()
    steps: dict[str, Step] = {
        "plain": _plain(_model(workload), inputs, targets),
        "sordino": _ours(_model(workload), inputs, targets, noise=False),
        WITH_NOISE: _ours(_model(workload), inputs, targets, noise=True),
        "vmap(grad)": _vmapped(_model(workload), inputs, targets),
    }
    for mode in OPACUS_MODES:
        try:
            step = _opacus(_model(workload), inputs, targets, mode)
            step()
        except ImportError:
            break
        except (RuntimeError, ValueError, TypeError, NotImplementedError, AttributeError):
            continue
        steps[f"opacus {mode}"] = step
    return steps


def _model(workload: Workload) -> nn.Module:
    torch.manual_seed(0)
    return workload.build().to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _plain(model: nn.Module, inputs: Tensor, targets: Tensor) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    return step


@torch.no_grad()
def _apply(parameters: list[nn.Parameter], flat: Tensor, batch: int) -> None:
    pieces = torch.split(flat, [parameter.numel() for parameter in parameters])
    shaped = [piece.view(parameter.shape) for piece, parameter in zip(pieces, parameters, strict=True)]
    torch._foreach_add_(parameters, shaped, alpha=-LEARNING_RATE / batch)


def _ours(model: nn.Module, inputs: Tensor, targets: Tensor, *, noise: bool) -> Step:
    engine = ClippedGradients(fastest(model))
    parameters = list(model.parameters())
    source = SecureNoise()

    def step() -> None:
        total = engine.sum(inputs, targets, clip_norm=CLIP_NORM).total
        if noise:
            total.add_(source.gaussian(engine.size, std=NOISE_MULTIPLIER * CLIP_NORM, stream=0))
        _apply(parameters, total, len(inputs))

    return step


def _vmapped(model: nn.Module, inputs: Tensor, targets: Tensor) -> Step:
    names = [name for name, _ in model.named_parameters()]
    parameters = list(model.parameters())

    def step() -> None:
        rows = list(vmap_gradients(model, names, inputs, targets, loss=cross_entropy_per_example).values())
        norms = torch.stack([torch.linalg.vector_norm(row.flatten(1), dim=1) for row in rows]).norm(dim=0)
        factors = (CLIP_NORM / norms).clamp(max=1)
        _apply(parameters, torch.cat([factors @ row.flatten(1) for row in rows]), len(inputs))

    return step


def _opacus(model: nn.Module, inputs: Tensor, targets: Tensor, mode: str) -> Step:
    from opacus.grad_sample.utils import prepare_module
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    ghost = mode == "ghost"
    settings = {"max_grad_norm": CLIP_NORM, "use_ghost_clipping": True} if ghost else {}
    wrapped = prepare_module(model, mode, True, **settings)
    optimizer = (DPOptimizerFastGradientClipping if ghost else DPOptimizer)(
        torch.optim.SGD(wrapped.parameters(), LEARNING_RATE),
        noise_multiplier=NOISE_MULTIPLIER,
        max_grad_norm=CLIP_NORM,
        expected_batch_size=len(inputs),
    )
    criterion = nn.CrossEntropyLoss()
    if ghost:
        criterion = DPLossFastGradientClipping(wrapped, optimizer, criterion)

    def step() -> None:
        optimizer.zero_grad()
        criterion(wrapped(inputs), targets).backward()
        optimizer.step()

    return step


if __name__ == "__main__":
    sys.stdout.write("\n".join(json.dumps(row) for row in _measure_here(sys.argv[1])) + "\n")
