"""Gradient inversion of an experiment: every attack, on what every view sees, for batches of one to eight rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sordino.audit.attacks.inversion import AttackName, Seen, invert
from sordino.audit.attacks.picture import Box, box, draw_grid
from sordino.audit.attacks.quality import matched, psnr, ssim
from sordino.audit.attacks.uploads import BARE, Victim
from sordino.data.examples import Examples
from sordino.engine.building import make_net
from sordino.engine.dealing import client_sizes, load_source
from sordino.engine.resolved import resolve
from sordino.engine.setup import make_parts
from sordino.experiment import Experiment
from sordino.models import FlatSpace
from sordino.privacy.streams import stream_id
from sordino.tuning import Task

ATTACKS: tuple[AttackName, ...] = ("dlg", "idlg", "cosine", "analytic")
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Inversion:
    """How well one attack did on one defence."""

    attack: AttackName
    defence: str
    batch: int
    psnr: float
    ssim: float | None
    realistic: bool
    why: str
    images: dict[str, Box] | None = None
    """Where in the picture the truth lies, and what was found."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def invert_experiment(
    experiment: Experiment,
    *,
    attacks: Sequence[AttackName] = ATTACKS,
    batches: Sequence[int] = (1, 4),
    iterations: int = 300,
    picture: Path | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> list[Inversion]:
    """Attack one step of a client that holds a few public rows, at the model that training begins with."""
    victim, rows = _victim(experiment)
    realistic, why = _realism(experiment, victim)
    defences = victim.defences()
    shown: list[tuple[str, Tensor]] = []
    found = []
    total = len(batches) * (len(defences) + 1) * len(attacks)
    done = 0
    for batch in batches:
        images, labels = _pixels(rows, range(batch)), rows.labels[:batch]
        features = rows.take(torch.arange(batch)).features("cpu")
        if not shown and images.ndim == 4:
            shown.append(("the truth", _pixels(rows, range(max(batches)))))
        for name, gradient in _gradients(victim, rows, features, labels, defences, experiment.seed).items():
            for attack in attacks:
                done += 1
                progress("inversion", done, total)
                generator = torch.Generator().manual_seed(stream_id("inversion", experiment.seed, attack, batch))
                seen = Seen(
                    net=victim.net,
                    space=victim.space,
                    model=victim.model,
                    gradient=gradient,
                    rows=batch,
                    shape=tuple(features.shape[1:]),
                    classes=rows_classes(victim),
                )
                made = invert(seen, attack, iterations=iterations, generator=generator)
                if made is None:
                    continue
                guess = matched(images, _to_pixels(rows, made))
                psnrs = [psnr(one, other) for one, other in zip(images, guess, strict=True)]
                ssims = [ssim(one, other) for one, other in zip(images, guess, strict=True)] if images.ndim == 4 else []
                result = Inversion(
                    attack=attack,
                    defence=name,
                    batch=batch,
                    psnr=sum(psnrs) / batch,
                    ssim=sum(ssims) / batch if ssims else None,
                    realistic=realistic,
                    why=why,
                    images={"truth": box(0, batch), "found": box(len(shown), batch)} if shown else None,
                )
                found.append(result)
                if shown:
                    shown.append((f"{attack}, batch {batch}\n{name}\nPSNR {result.psnr:.1f} dB", guess))
    if picture is not None and shown:
        draw_grid(shown, picture)
    return found


def rows_classes(victim: Victim) -> int:
    """How many classes the model tells apart."""
    return victim.space.shapes[-1][0]


def _gradients(
    victim: Victim,
    rows: Examples,
    features: Tensor,
    labels: Tensor,
    defences: dict[str, float | None],
    seed: int,
) -> dict[str, Tensor]:
    """The gradient by what was done to it before it was seen."""
    found = {}
    batch, clients = len(labels), min(10, max(2, round(victim.tariff.sampler.expected_cohort)))
    for name, deviation in defences.items():
        generator = torch.Generator().manual_seed(stream_id("noise of an attack", seed, name, batch))
        found[name] = victim.seen(features, labels, deviation, generator)
        if name == "server view":
            others = [rows.take(torch.arange(batch * k, batch * (k + 1)) % len(rows)) for k in range(clients)]
            left = victim.smoothed([(own.features("cpu"), own.labels) for own in others], deviation, generator)
            if left is not None:
                found["server view, smoothed"] = left
    return found


def _victim(experiment: Experiment) -> tuple[Victim, Examples]:
    """The model as it starts, without any training, and public rows."""
    resolved = resolve(experiment)
    source = load_source(resolved)
    task = Task(shape=source.shape, classes=source.classes)
    parts = make_parts(resolved, task=task, vocabulary=source.vocabulary, sizes=client_sizes(resolved))
    net = make_net(experiment, shape=source.shape, classes=source.classes, vocabulary=source.vocabulary).eval()
    space = FlatSpace(net)
    return (
        Victim(net=net, space=space, model=space.read(net), tariff=parts.tariff, method=parts.resolved.method),
        source.public_test,
    )


def _realism(experiment: Experiment, victim: Victim) -> tuple[bool, str]:
    """Whether clients of this experiment really send one step on so few rows."""
    batch, steps = victim.method.job.workload(8)
    if steps > 1:
        return False, f"clients take {steps} steps on 8 rows, and an upload of many steps hides each row in all of them"
    mean = sum(client_sizes(resolve(experiment))) / max(1, victim.tariff.sampler.clients)
    if mean > 8:
        return (
            False,
            f"clients hold {mean:.0f} rows on average, and the attack is on a client that holds no more than 8",
        )
    return True, f"clients take one step on a batch of {batch}"


def _pixels(rows: Examples, which: range) -> Tensor:
    """The truth from 0 to 1."""
    return _to_pixels(rows, rows.take(torch.tensor(list(which))).features("cpu"))


def _to_pixels(rows: Examples, features: Tensor) -> Tensor:
    own = rows.normalisation
    shape = (1, -1, *[1] * (features.ndim - 2))
    mean, std = (torch.tensor(part).view(shape) for part in (own.mean, own.std))
    plain = features * std + mean
    return plain.clamp(0, 1) if rows.inputs.dtype == torch.uint8 else plain


__all__ = ["ATTACKS", "BARE", "Inversion", "invert_experiment"]
