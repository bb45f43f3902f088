"""One step of a client as each onlooker sees it: bare, clipped, noised as its view is noised, and after a server's smoothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sordino.audit.attacks.inversion import gradient_of
from sordino.core import VIEWS
from sordino.engine.tariff import Tariff
from sordino.methods.method import Method
from sordino.models import FlatSpace, Net
from sordino.privacy.pricing import unbounded

BARE = "none"


@dataclass(frozen=True, kw_only=True)
class Victim:
    """Whose step is looked at: rows that are public, in the experiment's own model, at its own settings."""

    net: Net
    space: FlatSpace
    model: Tensor
    tariff: Tariff
    method: Method

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        return gradient_of(self.net, self.space, self.model, images, labels).detach()

    @property
    def step(self) -> float:
        """The learning rate of the client's one step."""
        rate = getattr(self.method.job, "learning_rate", 1.0)
        return float(rate) if not isinstance(rate, str) else 1.0

    def defences(self) -> dict[str, float | None]:
        """What each view really sees, by name: the deviation of the noise on the clipped step, and None for no defence at all."""
        found: dict[str, float | None] = {BARE: None}
        if not self.method.protected:
            return found
        price, clip = self.tariff.price(0, 0), self.tariff.clip.bound
        for view in VIEWS:
            name = f"{view} view"
            if unbounded(price.in_view(view).event):
                found[name] = 0.0
                continue
            seats = self.tariff.sampler.seats - (self.tariff.colluders if view == "client" else 0)
            summed = view != "server" and self.tariff.uses == "sum" and self.tariff.steps is None
            wider = math.sqrt(max(1, seats)) if summed and self.tariff.placement != "central" else 1.0
            found[name] = price.noise_multiplier * clip * wider
        return found

    def seen(self, images: Tensor, labels: Tensor, deviation: float | None, generator: torch.Generator) -> Tensor:
        """The mean gradient of these rows as an onlooker works it out from the step."""
        if deviation is None:
            return self.gradient(images, labels)
        clip = self.tariff.clip.bound
        noise = deviation * torch.randn(self.space.size, generator=generator)
        if self.tariff.steps is not None:
            each = [self.gradient(images[k : k + 1], labels[k : k + 1]) for k in range(len(images))]
            return (torch.stack([_clipped(one, clip) for one in each]).sum(0) + noise) / len(images)
        return (_clipped(self.step * self.gradient(images, labels), clip) + noise) / self.step

    def smoothed(
        self, batches: Sequence[tuple[Tensor, Tensor]], deviation: float | None, generator: torch.Generator
    ) -> Tensor | None:
        """The first client's step as it is left by a server that smooths models against each other; None where none does."""
        smooth: Any = getattr(self.method, "smooth_models", None)
        if smooth is None or deviation is None:
            return None
        seen = [self.seen(images, labels, deviation, generator) for images, labels in batches]
        copies = torch.stack([self.model - self.step * one for one in seen])
        interval: int = getattr(self.method, "interval", 1)
        threshold: float = getattr(self.method, "_threshold")(interval)  # noqa: B009
        left: Tensor = smooth(copies, threshold, self.space)[0][0]
        return (self.model - left) / self.step


def _clipped(update: Tensor, bound: float) -> Tensor:
    return update * min(1.0, bound / max(1e-12, float(update.norm())))
