"""Our DLG beside that of breaching, on the same images, model and gradients, with as many gradient evaluations and restarts.

    SORDINO_BENCH_BREACHING=FOLDER python -m benchmarks.inversion_peer [IMAGES]

`pip install --no-deps --target FOLDER breaching` is enough: only its attacks are imported, which need neither torchvision nor hydra.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import types
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sordino.audit.attacks.inversion import RESTARTS, Seen, gradient_of, invert
from sordino.audit.attacks.inverting import _victim
from sordino.audit.attacks.quality import psnr
from sordino.experiment import read
from sordino.outside import look_beside

EXAMPLE = Path(__file__).parent.parent / "examples" / "attacks" / "dlg-fedceo.toml"
ITERATIONS, INNER = 300, 20


class Settings(dict[str, Any]):
    """A table whose keys are also attributes, as breaching's settings are."""

    __getattr__ = dict.get


def _peer(folder: Path) -> Any:
    """The attacks of breaching, without the rest of the package."""
    package = types.ModuleType("breaching")
    package.__path__ = [str(folder / "breaching")]
    sys.modules["breaching"] = package
    for name in ("breaching.cases", "breaching.cases.models"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(folder.joinpath(*name.split(".")))]
    from breaching import attacks

    return attacks


def _their_settings() -> Settings:
    """Its own `deepleakage`, with our number of restarts and of gradient evaluations."""
    return Settings(
        type="deep-leakage",
        attack_type="joint-optimization",
        objective=Settings(type="euclidean", scale=1.0, task_regularization=0.0),
        restarts=Settings(num_trials=RESTARTS, scoring="euclidean"),
        init="randn",
        normalize_gradients=False,
        optim=Settings(
            optimizer="L-BFGS",
            step_size=1.0,
            boxed=False,
            max_iterations=ITERATIONS // INNER,
            langevin_noise=0.0,
            warmup=0,
            callback=10_000,
        ),
        differentiable_augmentations=False,
        impl=Settings(dtype="float", mixed_precision=False, JIT=None),
    )


def _theirs(attacks: Any, seen: Seen, seed: int) -> Tensor:
    torch.manual_seed(seed)
    gradients = [part.reshape(shape) for part, shape in zip(_parts(seen), seen.space.shapes, strict=True)]
    facts = Settings(shape=seen.shape, classes=seen.classes, modality="vision", task="classification")
    facts.update(mean=[0.0], std=[1.0])
    attacker = attacks.prepare_attack(seen.net, torch.nn.CrossEntropyLoss(), _their_settings())
    payload = [{"parameters": list(seen.net.parameters()), "buffers": [], "metadata": facts}]
    shared = [
        {
            "gradients": gradients,
            "buffers": None,
            "metadata": Settings(num_data_points=seen.rows, labels=None, local_hyperparams=None),
        }
    ]
    found, _ = attacker.reconstruct(payload, shared, {}, dryrun=False)
    made: Tensor = found["data"].detach()
    return made


def _parts(seen: Seen) -> list[Tensor]:
    return list(seen.gradient.split([torch.Size(shape).numel() for shape in seen.space.shapes]))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    attacks = _peer(Path(os.environ["SORDINO_BENCH_BREACHING"]))
    look_beside(EXAMPLE.parent)
    victim, rows = _victim(read(EXAMPLE))
    results: dict[str, list[float]] = {"ours": [], "breaching": []}
    seconds = dict.fromkeys(results, 0.0)
    for place in range(count):
        own = rows.take(torch.tensor([place]))
        image = own.features("cpu")
        seen = Seen(
            net=victim.net,
            space=victim.space,
            model=victim.model,
            gradient=gradient_of(victim.net, victim.space, victim.model, image, own.labels).detach(),
            rows=1,
            shape=tuple(image.shape[1:]),
            classes=10,
        )
        for name, found in results.items():
            begin = time.perf_counter()
            if name == "ours":
                made = invert(seen, "dlg", iterations=ITERATIONS, generator=torch.Generator().manual_seed(place))
            else:
                made = _theirs(attacks, seen, place)
            seconds[name] += time.perf_counter() - begin
            assert made is not None
            found.append(psnr(_pixel(rows, image), _pixel(rows, made)))
    for name, found in results.items():
        print(
            f"{name}: PSNR {', '.join(f'{one:.1f}' for one in found)} dB; median {statistics.median(found):.1f}; {seconds[name]:.1f} s"
        )


def _pixel(rows: Any, features: Tensor) -> Tensor:
    mean, std = (torch.tensor(part).view(1, -1, 1, 1) for part in (rows.normalisation.mean, rows.normalisation.std))
    return (features * std + mean).clamp(0, 1)


if __name__ == "__main__":
    main()
