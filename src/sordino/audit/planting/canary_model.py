"""A model in which every canary row has weights of its own, for audits of noisy steps on examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sordino.models import Net
from sordino.models.inputs import Inputs
from sordino.settings import AtLeastOne, NotNegative
from sordino.tuning import Tuning

MODEL = "sordino.audit.planting.canary_model:CanaryModel"
TUNING = "sordino.audit.planting.canary_model:CanaryTuning"


class _Maps(nn.Module):
    """Linear maps side by side, so that every row asks for as much in the one as in the other."""

    def __init__(self, features: int, classes: int, count: int) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(features, classes, bias=False) for _ in range(count))
        for one in self.maps:
            nn.init.zeros_(one.weight)  # type: ignore[arg-type]

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = torch.stack([one(rows.flatten(1)) for one in self.maps]).sum(0)
        return found


@dataclass(frozen=True, kw_only=True)
class CanaryModel:
    """At weights of zero, row j with feature j alone has a gradient along weights of its own: up for one class, down for the other."""

    maps: AtLeastOne = 1
    """As many as there are groups of parameters that are clipped apart."""

    def build(self, inputs: Inputs, classes: int) -> Net:
        return Net(body=_Maps(inputs.numbers("canary rows"), classes, self.maps), head=nn.Identity())


@dataclass(frozen=True, kw_only=True)
class CanaryTuning(Tuning):
    """Everything is trained; maps are clipped apart where the audited tuning clips groups apart."""

    groups: NotNegative = 0

    def trainable(self, net: Net) -> list[str]:
        return [name for name, _ in net.named_parameters()]

    def clip_groups(self) -> Mapping[str, Sequence[str]]:
        return {f"map {k}": (f"body.maps.{k}.weight",) for k in range(int(self.groups))}
