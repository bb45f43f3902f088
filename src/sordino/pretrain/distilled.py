"""Start from a source model that has learnt, on public images alone, to see coarse images as it sees sharp ones."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from sordino.core import SordinoError
from sordino.data.examples import Examples
from sordino.data.public import public_settings, public_source
from sordino.data.public_overlap import refuse_same_source
from sordino.data.source import Source, describe
from sordino.models import Net
from sordino.models.prepared import PreparedBody, PreparedNet
from sordino.models.weights import load_weights
from sordino.pretrain.crops import coarse
from sordino.pretrain.distillation import Lessons, Sides, Teaching
from sordino.pretrain.file import locate_weights, read_weights
from sordino.pretrain.projection import fit_projection
from sordino.pretrain.start import STARTS, Start, StartContext, StartFacts
from sordino.pretrain.store import Store, Trained, key_of
from sordino.settings import AtLeastOne, NotNegative

CHUNK = 64


@STARTS.register("distilled")
@dataclass(frozen=True, kw_only=True)
class Distilled(Teaching, Start):
    """A source model's weights, taught on sharp public images to see coarse ones; then a projection from the same images.

    The teacher is the source model as it is in the file, shown crops of public images at `teacher_side`. The pupil, which
    model 'prepared' keeps, is shown the same crops shrunk to the private images' side. Both steps are done once and kept
    in the store of pre-trained models. `seed` is not the experiment's: one public preparation serves all seeds.

    Formal guarantee: private images are never read; only their shape is, which is public.
    """

    projection_images: AtLeastOne = 5000
    shrinkage: NotNegative = 0.3

    def files(self, folder: Path) -> tuple[Path, ...]:
        return (locate_weights(self.path, folder),)

    @property
    def public_data(self) -> Mapping[str, Any]:
        return self.data

    def load_public(self, facts: StartFacts) -> Source:
        return public_source(self.data, shape=(), seed=self.seed, where="start.data")

    def check(self, net: Net, facts: StartFacts) -> None:
        settings = public_settings(self.data, shape=(), where="start.data")
        refuse_same_source(facts.private.settings, settings)
        found = describe(settings, seed=self.seed)
        body = self._body(net)
        self._check_set(settings.source, found.kind, found.shape, facts)
        self._teacher(body, self._sides(body, facts), facts)

    def prepare(self, net: Net, context: StartContext) -> None:
        public = self.load_public(context)
        body = self._body(net)
        self._check_set(public.name, public.kind, public.shape, context)
        context.refuse_overlap(public)
        pupil = self._pupil(body, public, context)
        body.source.load_state_dict(pupil.weights)
        projection = self._projection(body, pupil, public, context)
        body.mean.copy_(projection.weights["mean"])
        body.directions.copy_(projection.weights["directions"])

    @staticmethod
    def _body(net: Net) -> PreparedBody:
        if not isinstance(net, PreparedNet):
            raise SordinoError(
                "start = 'distilled' needs a model that it can prepare; choose [model] name = 'prepared'."
            )
        return net.body

    @staticmethod
    def _check_set(name: str, kind: str, shape: tuple[int, ...], facts: StartFacts) -> None:
        if kind != "image" or shape[0] != facts.shape[0] or min(shape[1:]) < facts.shape[-1]:
            raise SordinoError(
                f"[start.data] needs images of {facts.shape[0]} channels and at least {facts.shape[-1]} pixels, like the private "
                f"ones, but {name!r} has examples of shape {shape}; set channels or choose another set."
            )

    def _pupil(self, body: PreparedBody, public: Source, context: StartContext) -> Trained:
        """The taught body of the source model."""
        sides = self._sides(body, context)
        teacher, weights = self._teacher(body, sides, context)
        teaching = Teaching(**{name: getattr(self, name) for name in Teaching.__dataclass_fields__})
        model = {"source": body.settings.source, "sides": vars(sides), "weights": fingerprint(weights)}
        store = self._store(teaching, public, model, context)

        def teach() -> tuple[dict[str, Tensor], dict[str, object]]:
            pupil = copy.deepcopy(teacher.body)
            Lessons(teaching, teacher, pupil, public.train, sides, context.device).run(store, context.progress)
            return pupil.state_dict(), {"settings": vars(teaching), "model": model}

        return store.once(teach)

    def _sides(self, body: PreparedBody, facts: StartFacts) -> Sides:
        pupil = self.lesson_side or body.settings.side
        return Sides(private=facts.shape[-1], pupil=pupil, teacher=self.teacher_side)

    def _teacher(self, body: PreparedBody, sides: Sides, facts: StartFacts) -> tuple[Net, dict[str, Tensor]]:
        """The source model with the weights of its file, and these."""
        (path,) = self.files(facts.folder)
        weights = read_weights(path)
        for side in (sides.pupil, sides.teacher):
            self._check_side(body, side, facts)
        teacher = body.settings.build_source(facts.shape[0], sides.teacher, self.source_classes)
        load_weights(teacher, weights, origin=str(path))
        return teacher, weights

    def _check_side(self, body: PreparedBody, side: int, facts: StartFacts) -> None:
        other = body.settings.build_source(facts.shape[0], side, self.source_classes).body.state_dict()
        if [value.shape for value in other.values()] != [value.shape for value in body.source.state_dict().values()]:
            raise SordinoError(
                f"Model {body.settings.source!r} has other weights for images of side {side} than of side "
                f"{body.settings.side}; set teacher_side and lesson_side of [start] to {body.settings.side}."
            )

    def _projection(self, body: PreparedBody, pupil: Trained, public: Source, context: StartContext) -> Trained:
        """The mean and the directions of the pupil's features."""
        model = {**context.model, "weights": fingerprint(pupil.weights)}

        def fit() -> tuple[dict[str, Tensor], dict[str, object]]:
            body.to(context.device).eval()
            chosen = torch.randperm(len(public.train), generator=torch.Generator().manual_seed(self.seed))
            features = _coarse_features(body, public.train.take(chosen[: self.projection_images]), context)
            mean, directions = fit_projection(features, body.settings.components, shrinkage=self.shrinkage)
            return {"mean": mean, "directions": directions}, {"settings": vars(self), "model": model}

        return self._store(self, public, model, context).once(fit)

    def _store(self, settings: Teaching, public: Source, model: Mapping[str, object], context: StartContext) -> Store:
        key = key_of(settings, public, model=model, classes=self.source_classes, seed=self.seed, device=context.device)
        return Store(key)


def fingerprint(weights: Mapping[str, Tensor]) -> str:
    """The same for the same tensors under the same names, and for no others."""
    return sha256(save({key: weights[key].contiguous() for key in sorted(weights)})).hexdigest()


def _coarse_features(body: PreparedBody, images: Examples, context: StartContext) -> Tensor:
    chunks = []
    with torch.inference_mode():
        for rows in torch.arange(len(images)).split(CHUNK):
            part = images.take(rows)
            seen = Examples(
                inputs=coarse(part.inputs, context.shape[-1]), labels=part.labels, normalisation=part.normalisation
            )
            chunks.append(body.describe(seen.features(context.device)).cpu())
            context.progress(int(rows[-1]) + 1, len(images))
    return torch.cat(chunks)
