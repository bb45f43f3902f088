"""Start from a source model that has learnt, on public pictures alone, to see coarse pictures as it sees sharp ones."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

import torch
from safetensors.torch import save
from torch import Tensor

from sordino.core import SordinoError
from sordino.data.examples import Examples
from sordino.data.public import public_source
from sordino.data.source import Source
from sordino.models import Net
from sordino.models.prepared import PreparedBody, PreparedNet
from sordino.models.weights import load_weights
from sordino.pretrain.crops import coarse
from sordino.pretrain.distillation import Lessons, Sides, Teaching
from sordino.pretrain.file import locate_weights, read_weights
from sordino.pretrain.projection import fit_projection
from sordino.pretrain.start import STARTS, StartContext
from sordino.pretrain.store import Store, Trained, key_of
from sordino.settings import AtLeastOne, NotNegative

CHUNK = 64


@STARTS.register("distilled")
@dataclass(frozen=True, kw_only=True)
class Distilled(Teaching):
    """A source model's weights, taught on sharp public pictures to see coarse ones; then a projection from the same pictures.

    The teacher is the source model as it is in the file, shown crops of public pictures at `teacher_side`. The pupil, which
    model 'prepared' keeps, is shown the same crops shrunk to the private pictures' side. Both steps are done once and kept
    in the store of pre-trained models. `seed` is not the experiment's: one public preparation serves all seeds.

    Formal guarantee: private pictures are never read; only their shape is, which is public.
    """

    projection_pictures: AtLeastOne = 5000
    shrinkage: NotNegative = 0.3

    def prepare(self, net: Net, context: StartContext) -> None:
        public = public_source(self.data, shape=(), seed=self.seed, where="start.data")
        self._check(net, public, context)
        assert isinstance(net, PreparedNet)
        pupil = self._pupil(net.body, public, context)
        net.body.source.load_state_dict(pupil.weights)
        projection = self._projection(net.body, pupil, public, context)
        net.body.mean.copy_(projection.weights["mean"])
        net.body.directions.copy_(projection.weights["directions"])

    @staticmethod
    def _check(net: Net, public: Source, context: StartContext) -> None:
        if not isinstance(net, PreparedNet):
            raise SordinoError(
                "start = 'distilled' needs a model that it can prepare; choose [model] name = 'prepared'."
            )
        if public.kind != "image" or public.shape[0] != context.shape[0] or min(public.shape[1:]) < context.shape[-1]:
            raise SordinoError(
                f"[start.data] needs pictures of {context.shape[0]} channels and at least {context.shape[-1]} pixels, like the private "
                f"ones, but {public.name!r} has examples of shape {public.shape}; set channels or choose another set."
            )
        context.refuse_overlap(public)

    def _pupil(self, body: PreparedBody, public: Source, context: StartContext) -> Trained:
        """The taught body of the source model."""
        path = locate_weights(self.path, context.folder)
        weights = read_weights(path)
        sides = Sides(
            private=context.shape[-1], pupil=self.lesson_side or body.settings.side, teacher=self.teacher_side
        )
        for side in (sides.pupil, sides.teacher):
            self._check_side(body, side, context)
        teacher = body.settings.build_source(context.shape[0], sides.teacher, self.source_classes)
        load_weights(teacher, weights, origin=str(path))
        teaching = Teaching(**{name: getattr(self, name) for name in Teaching.__dataclass_fields__})
        model = {"source": body.settings.source, "sides": vars(sides), "weights": fingerprint(weights)}
        store = self._store(teaching, public, model, context)
        if (found := store.trained()) is not None:
            return found
        pupil = copy.deepcopy(teacher.body)
        Lessons(teaching, teacher, pupil, public.train, sides, context.device).run(store, context.progress)
        return store.keep(pupil.state_dict(), {"settings": vars(teaching), "model": model})

    def _check_side(self, body: PreparedBody, side: int, context: StartContext) -> None:
        other = body.settings.build_source(context.shape[0], side, self.source_classes).body.state_dict()
        if [value.shape for value in other.values()] != [value.shape for value in body.source.state_dict().values()]:
            raise SordinoError(
                f"Model {body.settings.source!r} has other weights for pictures of side {side} than of side "
                f"{body.settings.side}; set teacher_side and lesson_side of [start] to {body.settings.side}."
            )

    def _projection(self, body: PreparedBody, pupil: Trained, public: Source, context: StartContext) -> Trained:
        """The mean and the directions of the pupil's features."""
        model = {**context.model, "weights": fingerprint(pupil.weights)}
        store = self._store(self, public, model, context)
        if (found := store.trained()) is not None:
            return found
        body.to(context.device).eval()
        chosen = torch.randperm(len(public.train), generator=torch.Generator().manual_seed(self.seed))
        features = _coarse_features(body, public.train.take(chosen[: self.projection_pictures]), context)
        mean, directions = fit_projection(features, body.settings.components, shrinkage=self.shrinkage)
        return store.keep({"mean": mean, "directions": directions}, {"settings": vars(self), "model": model})

    def _store(self, settings: Teaching, public: Source, model: Mapping[str, object], context: StartContext) -> Store:
        key = key_of(settings, public, model=model, classes=self.source_classes, seed=self.seed, device=context.device)
        return Store(key)


def fingerprint(weights: Mapping[str, Tensor]) -> str:
    """The same for the same tensors under the same names, and for no others."""
    return sha256(save({key: weights[key].contiguous() for key in sorted(weights)})).hexdigest()


def _coarse_features(body: PreparedBody, pictures: Examples, context: StartContext) -> Tensor:
    chunks = []
    with torch.inference_mode():
        for rows in torch.arange(len(pictures)).split(CHUNK):
            part = pictures.take(rows)
            seen = Examples(
                inputs=coarse(part.inputs, context.shape[-1]), labels=part.labels, normalisation=part.normalisation
            )
            chunks.append(body.describe(seen.features(context.device)).cpu())
            context.progress(int(rows[-1]) + 1, len(pictures))
    return torch.cat(chunks)
