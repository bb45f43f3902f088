"""The lessons: a pupil that sees coarse crops learns to answer as its teacher does on the sharp ones, and to name what they show."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from sordino.data.examples import Examples
from sordino.gradients.adam import Adam
from sordino.models import Net
from sordino.models.prepared import enlarge
from sordino.pretrain.crops import coarse, random_crops
from sordino.pretrain.start import Progress
from sordino.pretrain.store import Progressed, Store
from sordino.privacy.streams import stream_id
from sordino.settings import AtLeastOne, NotNegative, Positive

M = TypeVar("M", bound=nn.Module)

CHECKPOINT_SECONDS = 20.0
WARM_UP_STEPS = 30
LABEL_SMOOTHING = 0.1
LABEL_SCALE = 10.0
"""Factor on the answers of the layer that names public classes: it starts from nothing, so it learns ten times as fast."""


@dataclass(frozen=True, kw_only=True)
class Teaching:
    """How the pupil is taught: Adam with a short warm-up and a cosine. Each epoch takes so many `images` at random.

    The public labels count `label_weight` times as much as the teacher's answers. The pupil is taught at `lesson_side`, or
    at the side at which the model will see images; a smaller one is cheaper and did no harm where it was tried.
    """

    data: dict[str, Any]
    path: str = "efficientnet_lite0.pth"
    source_classes: AtLeastOne = 1000
    teacher_side: AtLeastOne = 160
    lesson_side: AtLeastOne | None = None
    epochs: AtLeastOne = 20
    images: AtLeastOne = 1000
    batch_size: AtLeastOne = 32
    learning_rate: Positive = 3e-4
    weight_decay: NotNegative = 1e-4
    smallest_crop: Annotated[float, Field(gt=0, le=1)] = 0.6
    label_weight: NotNegative = 1.0
    seed: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True, kw_only=True)
class Sides:
    """How many pixels: of a private image, of what the pupil is shown, of what the teacher is shown."""

    private: int
    pupil: int
    teacher: int


class Lessons:
    """One distillation. Every epoch draws from a stream of its own, so a resumed one needs no state of generators."""

    def __init__(
        self, settings: Teaching, teacher: Net, pupil: nn.Module, examples: Examples, sides: Sides, device: torch.device
    ) -> None:
        self._settings, self._examples, self._sides, self._device = settings, examples, sides, device
        self._teacher = _in_best_order(teacher, device).eval().requires_grad_(False)
        self._namer = _namer(teacher, classes=int(examples.labels.max()) + 1)
        self._taught = nn.ModuleDict({"pupil": _in_best_order(pupil, device).train(), "namer": self._namer.to(device)})
        self._pupil = pupil
        self._parameters: list[Tensor] = list(self._taught.parameters())
        self._adam = Adam(weight_decay=settings.weight_decay)
        self._moments = self._adam.moments(self._parameters)
        self._steps_per_epoch = -(-min(settings.images, len(examples)) // settings.batch_size)

    def run(self, store: Store, progress: Progress) -> None:
        """Teach, or go on from the last checkpoint."""
        first = self._resume(store.progressed())
        saved = time.monotonic()
        for epoch in range(first, self._settings.epochs):
            self._epoch(epoch, progress)
            if time.monotonic() - saved >= CHECKPOINT_SECONDS:
                weights = self._taught.state_dict()
                store.save(Progressed(epochs=epoch + 1, weights=weights, velocities=self._moments))
                saved = time.monotonic()

    def _resume(self, at: Progressed | None) -> int:
        if at is None:
            return 0
        self._taught.load_state_dict(at.weights)
        self._moments = [moment.to(self._device) for moment in at.velocities]
        return at.epochs

    def _epoch(self, epoch: int, progress: Progress) -> None:
        generator = torch.Generator().manual_seed(stream_id("distil", self._settings.seed, epoch))
        total = self._settings.epochs * self._steps_per_epoch
        rows = torch.randperm(len(self._examples), generator=generator)[: self._settings.images]
        for number, batch in enumerate(rows.split(self._settings.batch_size)):
            step = epoch * self._steps_per_epoch + number
            gradients = list(torch.autograd.grad(self._loss(batch, generator), self._parameters))
            self._adam.step(
                self._parameters, gradients, self._moments, number=step + 1, learning_rate=self._rate(step, total)
            )
            progress(step + 1, total)

    def _rate(self, step: int, steps: int) -> float:
        warm = min(1.0, (step + 1) / WARM_UP_STEPS)
        return self._settings.learning_rate * warm * (1 + math.cos(math.pi * step / steps)) / 2

    def _loss(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """How far the pupil's answers on coarse crops are from the teacher's on sharp ones, and from the public labels."""
        sharp = random_crops(self._examples.inputs[rows], smallest=self._settings.smallest_crop, generator=generator)
        with torch.no_grad():
            wanted = log_softmax(self._teacher(self._seen(sharp, self._sides.teacher)), 1)
        features = self._pupil(self._seen(coarse(sharp, self._sides.private), self._sides.pupil))
        given = log_softmax(self._teacher.head(features), 1)
        unlike = kl_div(given, wanted, log_target=True, reduction="batchmean")
        labels = self._examples.labels[rows].to(self._device)
        misnamed = cross_entropy(LABEL_SCALE * self._namer(features), labels, label_smoothing=LABEL_SMOOTHING)
        return unlike + self._settings.label_weight * misnamed

    def _seen(self, images: Tensor, side: int) -> Tensor:
        pixels = images.to(device=self._device, dtype=torch.float32)
        return enlarge(self._examples.normalisation.apply(pixels), side)


def _namer(teacher: Net, classes: int) -> nn.Linear:
    """A layer from features to public classes that does not know any yet."""
    features = teacher.head.in_features
    assert isinstance(features, int)
    namer = nn.Linear(features, classes)
    nn.init.zeros_(namer.weight)
    nn.init.zeros_(namer.bias)
    return namer


def _in_best_order(module: M, device: torch.device) -> M:
    """The module on its device, its weights in the memory order that convolutions like best."""
    moved: M = module.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return moved
