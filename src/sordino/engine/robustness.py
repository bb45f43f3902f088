"""How well a model bears noise on its parameters: accuracy under noise, and how far its output can be moved."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from sordino.core import SordinoError
from sordino.data.beside import relative_to
from sordino.data.evaluation_rows import SeparateSource, SetAside
from sordino.data.examples import Examples
from sordino.data.locate import identity, same_source
from sordino.data.public import public_source
from sordino.data.reading import find
from sordino.data.row_fingerprints import fingerprints_of_test, fingerprints_of_training, shared
from sordino.data.separate_test import fit_separate
from sordino.data.source import Source, load
from sordino.engine.building import make_model
from sordino.engine.damaged import checked_object
from sordino.engine.dealing import load_source
from sordino.engine.evaluate import accuracy
from sordino.engine.record import RunRecord
from sordino.engine.record_keys import PRETRAINED_KEYS
from sordino.engine.resolved import Resolved, resolve
from sordino.experiment import experiment as checked
from sordino.models import FlatSpace, Net, build
from sordino.models.weights import load_weights
from sordino.outside import look_beside
from sordino.pretrain.file import read_weights
from sordino.pretrain.store import RECORD, read_trained
from sordino.privacy.streams import stream_id
from sordino.tuning import Task

NOISE = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
SAMPLED = 256
LARGEST = 8
"""Changes that the ascent adds up, where there are so many rows."""
ASCENT_STEPS = 10


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model under test, and public examples it was made for."""

    net: Net
    test: Examples
    name: str


@dataclass(frozen=True, kw_only=True)
class Robustness:
    """Accuracies by standard deviation of the noise, and ρ along random and along sought directions."""

    name: str
    accuracies: dict[float, list[float]]
    rho_random: float
    rho_ascent: float
    rho_radius: float

    def to_json(self) -> dict[str, Any]:
        rows = [
            {
                "noise": noise,
                "accuracy": statistics.mean(found),
                "spread": statistics.stdev(found) if len(found) > 1 else math.nan,
                "draws": len(found),
            }
            for noise, found in self.accuracies.items()
        ]
        return {
            "name": self.name,
            "robust_accuracy": rows,
            "rho": {"random": self.rho_random, "ascent": self.rho_ascent, "radius": self.rho_radius},
        }


def open_subject(folder: Path, data: str | None = None) -> Subject:
    """The model of a finished run or of a pre-training, with the test split of its own or of another public set.

    Formal guarantee: nothing is measured on rows that are private in the run, but for changed copies, which are not found.
    """
    if (folder / RECORD).exists():
        trained = read_trained(folder)
        advice = "it is damaged, so pre-train again"
        record = checked_object(trained.record, PRETRAINED_KEYS, what=str(folder / RECORD), advice=advice)
        checked_object(record["model"], {"name": str}, what=f"The model in {folder / RECORD}", advice=advice)
        checked_object(record["settings"], {"data": dict}, what=f"The settings in {folder / RECORD}", advice=advice)
        shape = tuple(record["shape"])
        net = build(**record["model"], shape=shape, classes=record["classes"])
        load_weights(net, trained.weights, origin=str(folder))
        table = record["settings"]["data"] if data is None else {"source": data, "visibility": "public"}
        source = public_source(table, shape=shape, seed=record["seed"], where="start.data")
        return Subject(net=net, test=source.public_test, name=f"{record['kind']} on {source.name}")
    record_of_run = RunRecord(folder)
    begun = record_of_run.read_experiment()
    look_beside(Path(begun["facts"]["folder"]))
    experiment = checked(begun["experiment"])
    resolved = resolve(experiment)
    named = None if data is None else identity(data)
    with relative_to(Path(begun["facts"].get("folder", "."))):
        own = load_source(resolved)
        tested = own if named is None else _public_set(resolved, own, named)
    task = Task(shape=own.shape, classes=own.classes)
    net = resolved.tuning.finish(make_model(resolved, task, vocabulary=own.vocabulary).net)
    load_weights(net, read_weights(record_of_run.model), origin=str(record_of_run.model))
    return Subject(net=net, test=tested.public_test, name=experiment.name)


def _public_set(resolved: Resolved, own: Source, place: str) -> Source:
    """What --data names, read as the run reads its own; of the run's own set, the rows that are public there."""
    settings, rows, seed = resolved.source, resolved.test_rows, resolved.experiment.seed
    same = same_source(settings.source, place)
    if same if isinstance(rows, SetAside) else isinstance(rows, SeparateSource) and same_source(rows.source, place):
        return own
    if same and settings.public_share is not None:
        public = load(dataclasses.replace(settings, visibility="public", limit=None), seed=seed)
    else:
        separate = fit_separate(SeparateSource(source=place), settings, find(settings)[0])
        public = load(separate.settings, seed=seed)
        if same and public.set_aside and settings.visibility == "private":
            raise SordinoError(
                f"--data names {own.name!r}, whose rows are private in this run, and measuring on them would not be charged; name another "
                "public set."
            )
    _refuse_private_rows(resolved, public)
    return public


def _refuse_private_rows(resolved: Resolved, public: Source) -> None:
    """Compared are all rows that the run keeps private, also those beyond its limit."""
    settings = resolved.source
    if settings.visibility == "public":
        return
    private = load(dataclasses.replace(settings, limit=None), seed=resolved.experiment.seed, test=resolved.test_rows)
    if shared(fingerprints_of_training(private), fingerprints_of_test(public)):
        raise SordinoError(
            f"--data names {public.name!r}, of which rows to test on are also private rows of this run ({private.name!r}), and measuring "
            "on them would not be charged; name another public set."
        )


def measure(
    subject: Subject,
    *,
    noise: Sequence[float] = NOISE,
    draws: int = 5,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Robustness:
    """Robust accuracy at each noise, and ρ, the most that probabilities moved per unit of distance in the parameters."""
    if draws < 1 or not noise or min(noise) < 0 or not all(map(math.isfinite, noise)):
        raise SordinoError(
            f"Robustness needs at least one draw and noise of 0 or more, but got {draws} draws of {list(noise)}."
        )
    device = device or torch.device("cpu")
    net = subject.net.to(device)
    space = FlatSpace(net)
    model = space.read(net)
    accuracies: dict[float, list[float]] = {}
    for at, scale in enumerate(noise):
        accuracies[scale] = []
        for draw in range(draws if scale else 1):
            generator = torch.Generator().manual_seed(stream_id("robustness", seed, draw))
            moved = torch.randn(space.size, generator=generator).to(device) * scale
            space.write(net, model + moved)
            accuracies[scale].append(accuracy(net, subject.test, device))
            progress(at * draws + draw + 1, len(noise) * draws)
    space.write(net, model)
    outputs = _Outputs(net, space, subject.test, seed, device)
    radius = 0.01 * float(model.norm())
    return Robustness(
        name=subject.name,
        accuracies=accuracies,
        rho_random=max(outputs.moved(outputs.random(radius, draw)) for draw in range(max(draws, 8))),
        rho_ascent=outputs.moved(outputs.ascent(radius)),
        rho_radius=radius,
    )


class _Outputs:
    """Probabilities of sampled examples as a function of the parameters."""

    def __init__(self, net: Net, space: FlatSpace, test: Examples, seed: int, device: torch.device) -> None:
        self._net, self._space, self._seed = net.eval(), space, seed
        rows = torch.randperm(len(test), generator=self._generator("rows"))[:SAMPLED]
        self._features = test.take(rows).features(device)
        self._model = space.read(net)
        with torch.no_grad():
            self._still = self._at(torch.zeros_like(self._model))

    def moved(self, step: Tensor) -> float:
        """The largest change of any example's probabilities, per unit of the step's length."""
        with torch.no_grad():
            return float(self._change(step).max() / step.norm())

    def random(self, radius: float, draw: int) -> Tensor:
        step = torch.randn(self._space.size, generator=self._generator("direction", draw)).to(self._model)
        return _of_length(step, radius)

    def ascent(self, radius: float) -> Tensor:
        """Projected gradient ascent on the largest changes, from a random direction."""
        step = self.random(radius, 0)
        for _ in range(ASCENT_STEPS):
            step = step.detach().requires_grad_()
            changes = self._change(step)
            slope = torch.autograd.grad(changes.topk(min(LARGEST, len(changes))).values.sum(), step)[0]
            step = _of_length(step.detach() + _of_length(slope, radius / 4), radius)
        return step

    def _change(self, step: Tensor) -> Tensor:
        change: Tensor = torch.linalg.vector_norm(self._at(step) - self._still, dim=1)
        return change

    def _at(self, step: Tensor) -> Tensor:
        logits: Tensor = functional_call(self._net, self._space.views(self._model + step), (self._features,))
        return torch.softmax(logits, 1)

    def _generator(self, *purpose: object) -> torch.Generator:
        return torch.Generator().manual_seed(stream_id("robustness", self._seed, *purpose))


def _of_length(vector: Tensor, length: float) -> Tensor:
    return vector * (length / float(torch.linalg.vector_norm(vector).clamp(min=1e-12)))
