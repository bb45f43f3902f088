"""One step of training in every way that is timed: plain, ours, vmap(grad) and the modes of Opacus."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.bench_models import Workload
from sordino.engine.kernel_trial import left_to_torch_here
from sordino.gradients import ClippedGradients, cross_entropy_per_example
from sordino.gradients.fallback import vmap_gradients
from sordino.kernels import fastest
from sordino.kernels.choice import leave_to_torch
from sordino.privacy.noise import SecureNoise

Step = Callable[[], object]
OPACUS_MODES = ("hooks", "functorch", "ew", "ghost")
LEARNING_RATE, CLIP_NORM, NOISE_MULTIPLIER = 0.01, 1.0, 1.0
PLAIN, WITH_NOISE, OPACUS = "plain", "sordino with noise", "opacus"


def contenders_for(workload: Workload) -> dict[str, Step]:
    inputs, targets = workload.make_batch()
    steps: dict[str, Step] = {
        PLAIN: _plain(_model(workload), inputs, targets),
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
        steps[f"{OPACUS} {mode}"] = step
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
    """As a run does it: kernels where a trial found them faster than torch."""
    left = left_to_torch_here(model, inputs.shape[1:], private_examples=True, device=inputs.device)
    leave_to_torch(model, left)
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
        criterion(wrapped(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()  # at the end, so that gradients of every example do not wait in memory for the next turn

    return step
