"""Training on public data: one loop, of which SAM and DPAdapter change one step."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from sordino.core import SordinoError
from sordino.data.examples import Examples
from sordino.data.public import public_settings, public_source
from sordino.data.public_overlap import refuse_same_source
from sordino.data.source import Source, describe
from sordino.gradients.losses import mean_loss
from sordino.gradients.sgd import Sgd
from sordino.kernels import fastest
from sordino.kernels.native import form
from sordino.models import Net, draw_dropout_from
from sordino.models.weights import load_weights
from sordino.pretrain.perturbation import Ball, in_chunks, perturbed
from sordino.pretrain.start import Start, StartContext, StartFacts
from sordino.pretrain.store import Progressed, Store, Trained, key_of
from sordino.privacy.streams import stream_id
from sordino.settings import AtLeastOne, Momentum, NotNegative, Positive

CHECKPOINT_SECONDS = 20.0
CHUNK = 512


@dataclass(frozen=True, kw_only=True)
class PublicTraining(Start):
    """SGD with momentum and weight decay on a data set marked public, resized to the images of the private one.

    The rate is divided by ten at half and at three quarters of all steps, or follows a cosine. With `keep_head = false` the
    public classes get a head of their own, which is dropped afterwards. `seed` is the experiment's unless given.
    """

    data: dict[str, Any]
    epochs: AtLeastOne = 20
    batch_size: AtLeastOne = 64
    learning_rate: Positive = 0.05
    decay: Literal["steps", "cosine"] = "steps"
    momentum: Momentum = 0.9
    weight_decay: NotNegative = 1e-4
    keep_head: bool = True
    seed: Annotated[int, Field(ge=0)] | None = None

    trains: ClassVar[bool] = True

    @property
    def public_data(self) -> Mapping[str, Any]:
        return self.data

    def load_public(self, facts: StartFacts) -> Source:
        return public_source(self.data, shape=facts.shape, seed=self._seed(facts), where="start.data")

    def _seed(self, facts: StartFacts) -> int:
        return facts.seed if self.seed is None else self.seed

    def prepare(self, net: Net, context: StartContext) -> None:
        trained = self.train(context)
        load_weights(net, trained.weights, origin="the pre-trained model", keep_head=self.keep_head)

    def train(self, context: StartContext) -> Trained:
        """The trained model, from the store where the same training was done before."""
        seed, source = self._seed(context), self.load_public(context)
        context.refuse_overlap(source)
        self.check_set(source.name, rows=len(source.train))
        classes = self._classes(source.name, source.classes, context)
        key = key_of(
            self, source, model=context.model, classes=classes, seed=seed, device=context.device, kernels=form()
        )
        store = Store(key)

        def train() -> tuple[dict[str, Tensor], dict[str, Any]]:
            net = fastest(context.build(classes, seed).to(context.device))
            loop = _Loop(self, net, source.train, seed, context)
            return loop.run(store), self.facts(context, source, classes=classes, seed=seed)

        return store.once(train)

    def check(self, net: Net, facts: StartFacts) -> None:
        settings = public_settings(self.data, shape=facts.shape, where="start.data")
        refuse_same_source(facts.private.settings, settings)
        found = describe(settings, seed=self._seed(facts))
        self.check_set(settings.source, rows=found.n_train)
        self._classes(settings.source, found.classes, facts)

    def check_set(self, name: str, *, rows: int) -> None:
        """Refuse settings that a public set of so many rows cannot serve."""

    def perturbation_rows(self, rows: Tensor, examples: int, generator: torch.Generator) -> Tensor | None:
        """The rows that find the perturbation for a step on `rows`; none in ordinary training."""
        return None

    @property
    def ball(self) -> Ball:
        return Ball(radius=0.0, rate=1.0)

    @property
    def plain_epochs(self) -> int:
        """Epochs of ordinary training that come first."""
        return 0

    def rate(self, step: int, steps: int) -> float:
        if self.decay == "cosine":
            return self.learning_rate * (1 + math.cos(math.pi * step / steps)) / 2
        return self.learning_rate * 0.1 ** ((2 * step >= steps) + (4 * step >= 3 * steps))

    def facts(self, context: StartContext, source: Source, *, classes: int, seed: int) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            "kind": type(self).__name__.lower(),
            "settings": settings,
            "seed": seed,
            "model": context.model,
            "shape": list(context.shape),
            "classes": classes,
            "public_set": {"name": source.name, "rows": len(source.train), "classes": source.classes},
        }

    def _classes(self, name: str, classes: int, facts: StartFacts) -> int:
        if not self.keep_head:
            return classes
        if classes > facts.classes:
            raise SordinoError(
                f"The public set {name!r} has {classes} classes, but the model's head has {facts.classes}; "
                "set [start] keep_head = false to give them a head of their own."
            )
        return facts.classes


class _Loop:
    """One training. Every epoch draws from streams of its own, so a resumed one needs no state of generators."""

    def __init__(
        self, settings: PublicTraining, net: Net, examples: Examples, seed: int, context: StartContext
    ) -> None:
        self._settings, self._net, self._examples, self._seed, self._context = settings, net, examples, seed, context
        self._parameters: list[Tensor] = [one for one in net.parameters() if one.requires_grad]
        self._optimiser = Sgd(momentum=settings.momentum, weight_decay=settings.weight_decay)
        self._velocities = self._optimiser.velocities(self._parameters)
        self._steps_per_epoch = -(-len(examples) // settings.batch_size)

    def run(self, store: Store) -> dict[str, Tensor]:
        first = self._resume(store.progressed())
        self._net.train()
        saved = time.monotonic()
        for epoch in range(first, self._settings.epochs):
            self._epoch(epoch)
            if time.monotonic() - saved >= CHECKPOINT_SECONDS:
                store.save(Progressed(epochs=epoch + 1, weights=self._net.state_dict(), velocities=self._velocities))
                saved = time.monotonic()
        return self._net.state_dict()

    def _resume(self, at: Progressed | None) -> int:
        if at is None:
            return 0
        self._net.load_state_dict(at.weights)
        self._velocities = [velocity.to(self._context.device) for velocity in at.velocities]
        return at.epochs

    def _epoch(self, epoch: int) -> None:
        batches, drawn = self._generator("batches", epoch), self._generator("perturbation", epoch)
        dropout = self._generator("dropout", epoch), self._generator("dropout while perturbing", epoch)
        total = self._settings.epochs * self._steps_per_epoch
        for number, rows in enumerate(
            torch.randperm(len(self._examples), generator=batches).split(self._settings.batch_size)
        ):
            step = epoch * self._steps_per_epoch + number
            plain = epoch < self._settings.plain_epochs
            wide = None if plain else self._settings.perturbation_rows(rows, len(self._examples), drawn)
            gradient = self._gradient_at_worst(rows, wide, dropout)
            self._optimiser.step(self._parameters, gradient, self._velocities, self._settings.rate(step, total))
            self._context.progress(step + 1, total)

    def _gradient_at_worst(
        self, rows: Tensor, wide: Tensor | None, dropout: tuple[torch.Generator, torch.Generator]
    ) -> list[Tensor]:
        if wide is None:
            draw_dropout_from(self._net, dropout[0])
            return self._gradient(rows)
        draw_dropout_from(self._net, dropout[1])
        step = self._settings.ball.perturbation(in_chunks(self._gradient, wide, CHUNK))
        draw_dropout_from(self._net, dropout[0])
        with perturbed(self._parameters, step):
            return self._gradient(rows)

    def _gradient(self, rows: Tensor) -> list[Tensor]:
        batch, device = self._examples.take(rows), self._context.device
        loss = mean_loss(self._net(batch.features(device)), batch.labels.to(device))
        return list(torch.autograd.grad(loss, self._parameters))

    def _generator(self, purpose: str, epoch: int) -> torch.Generator:
        return torch.Generator().manual_seed(stream_id("pretrain", purpose, self._seed, epoch))
