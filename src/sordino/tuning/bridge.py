"""How a tuning stands between a model as it was built and the private task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sordino.models import Net
from sordino.tuning.strategy import Tuning


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a classifier is for: the shape of one example, and how many classes there are."""

    shape: tuple[int, ...]
    classes: int


class Bridge:
    """What a tuning may put between a model and the private task. By default there is nothing: the model is built for it.

    Example:
        `sordino.tuning.lora.Lora` puts adapters into the model and merges them at the end.
    """

    def check_start(self, start: str) -> None:
        """Refuse a start that contradicts the tuning."""
        return

    def source_task(self, task: Task) -> Task:
        """What the model is built and started for."""
        return task

    def wrap(self, net: Net, task: Task, *, seed: int) -> Net:
        """The model that is trained, around or in place of one built for `source_task`; the start still reaches that one."""
        return net

    def merged(self, net: Net) -> Net:
        """The model that is saved, made of the one that was trained; it computes the same."""
        return net

    def clip_groups(self) -> Mapping[str, Sequence[str]]:
        """Parameters whose gradients are clipped apart from one another; none where all are clipped as one."""
        return {}

    def plan_facts(self, net: Net) -> dict[str, str]:
        """What a plan should say of the wrapped model."""
        return {}


def bridge_of(tuning: Tuning) -> Bridge:
    return tuning if isinstance(tuning, Bridge) else Bridge()
