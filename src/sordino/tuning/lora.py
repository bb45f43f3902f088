"""LoRA: train adapters of low rank beside the layers of a frozen body."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import nn

from sordino.core import SordinoError
from sordino.models import Net
from sordino.models.adapted import Adapted, adaptable_layers, adapted_layers, with_layers
from sordino.models.assembly import seeded
from sordino.settings import AtLeastOne, Positive
from sordino.tuning.strategy import TUNINGS, Tuning
from sordino.tuning.task import Task


@TUNINGS.register("lora")
@dataclass(frozen=True, kw_only=True)
class Lora(Tuning):
    """Adapters of low rank beside layers of a frozen body are trained, and the head; they are merged into the saved model.

    A chosen layer W becomes W + (alpha/rank)·up·down, where `up` begins at zero, so that training begins at the start's own
    model (arXiv:2106.09685). Fewer coordinates are trained and sent, and each carries noise. Noise on both factors multiplies
    in their product; train_down = false keeps `down` as it was drawn, so that noise enters once (arXiv:2403.12313).

    Formal guarantee: that of the method. `down` is drawn from the public seed, merging is post-processing of released values,
    and what is frozen is as public as the start.
    """

    rank: AtLeastOne = 4
    """Rank of every adapter, or that of its layer where that is lower."""
    alpha: Positive = 8.0
    """The adapters' output is multiplied by alpha/rank, so that learning rates need not change with the rank."""
    layers: tuple[str, ...] = ("*",)
    """Which dense layers and convolutions get one: patterns of their names, such as "body.0" or "body.layer4.*"."""
    train_head: bool = True
    """Whether the head is trained as a whole; otherwise it is a layer like others."""
    train_down: bool = True

    def wrap(self, net: Net, task: Task, *, seed: int) -> Net:
        layers = {name: layer for name, layer in adaptable_layers(net).items() if not self._is_trained_whole(name)}
        chosen = [name for name in layers if any(fnmatchcase(name, pattern) for pattern in self.layers)]
        if not chosen:
            raise SordinoError(
                f"tuning = 'lora' needs dense layers or convolutions for its adapters, but none of {sorted(layers)} is called "
                f"{' or '.join(self.layers)}; choose other [tuning] layers, or another model."
            )
        with seeded(seed):
            return with_layers(net, {name: self._adapted(layers[name]) for name in chosen})

    def _is_trained_whole(self, name: str) -> bool:
        return self.train_head and f"{name}.".startswith("head.")

    def _adapted(self, layer: nn.Linear | nn.Conv2d) -> Adapted:
        return Adapted(layer, rank=self.rank, scale=self.alpha / self.rank)

    def trainable(self, net: Net) -> list[str]:
        factors = ("down", "up") if self.train_down else ("up",)
        adapters = [f"{name}.{factor}.weight" for name in adapted_layers(net) for factor in factors]
        return [*adapters, *(net.parts()["head"] if self.train_head else ())]

    def finish(self, net: Net) -> Net:
        return with_layers(net, {name: layer.merged() for name, layer in adapted_layers(net).items()})

    def plan_facts(self, net: Net) -> dict[str, str]:
        adapters = adapted_layers(net)
        trained = sum(net.get_parameter(name).numel() for name in self.trainable(net))
        return {
            "adapters": f"rank {self.rank} beside {len(adapters)} layers; with the head, {trained:,} numbers are trained"
        }
