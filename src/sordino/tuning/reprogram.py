"""Leave the model alone and learn its input and its output: Reprogrammable-FL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sordino.core import SordinoError
from sordino.models import Net
from sordino.models.reprogrammed import BORDER, Reprogrammed
from sordino.settings import AtLeastOne
from sordino.tuning.strategy import TUNINGS, Tuning
from sordino.tuning.task import Task


@TUNINGS.register("reprogram")
@dataclass(frozen=True, kw_only=True)
class Reprogram(Tuning):
    """A border around the image and a linear map of the source's logits are trained; the source model is frozen.

    The image is resized to `image` pixels in the middle of a frame of `frame` pixels, which is what the source sees;
    the source has `source_classes`. Grey images need [data.options] channels = 3 for a source that was trained on colour.

    Formal guarantee: with clip = "joint" one example moves the sum by at most the clip norm. With "separate", border and
    map are each clipped to it, so together they move by √2 of it, and that is what the ledger charges.
    """

    frame: AtLeastOne = 224
    image: AtLeastOne = 200
    source_classes: AtLeastOne = 1000
    relu: bool = False
    border: Literal["zeros", "random"] = "zeros"
    """What the border's values are at first: a black frame, or normal numbers drawn with the run's seed."""
    clip: Literal["joint", "separate"] = "joint"

    def __post_init__(self) -> None:
        if self.image > self.frame:
            raise SordinoError(
                f"[tuning] frame must be at least as large as image, but the source sees {self.frame} pixels and the "
                f"image has {self.image}; choose a smaller image, or a larger frame if the source allows it."
            )

    def source_task(self, task: Task) -> Task:
        if len(task.shape) != 3:
            size = "x".join(map(str, task.shape))
            raise SordinoError(f"tuning = 'reprogram' needs images, but the data have shape {size}; choose 'full'.")
        if self.source_classes < task.classes:
            raise SordinoError(
                f"A source of at least as many classes as the data is needed, but it has {self.source_classes} and the data "
                f"{task.classes}; choose another source and set [tuning] source_classes."
            )
        return Task(shape=(task.shape[0], self.frame, self.frame), classes=self.source_classes)

    def wrap(self, net: Net, task: Task, *, seed: int) -> Net:
        return Reprogrammed(
            net,
            channels=task.shape[0],
            frame=self.frame,
            image=self.image,
            source_classes=self.source_classes,
            classes=task.classes,
            relu=self.relu,
            random_border=self.border == "random",
            seed=seed,
        )

    def trainable(self, net: Net) -> list[str]:
        return [BORDER, *net.parts()["head"]]

    def clip_groups(self) -> Mapping[str, Sequence[str]]:
        if self.clip == "joint":
            return {}
        return {"border": (BORDER,), "output map": ("head.weight", "head.bias")}

    def plan_facts(self, net: Net) -> dict[str, str]:
        assert isinstance(net, Reprogrammed)
        border = net.body.border
        return {
            "border": f"{border.values.numel():,} entries, of which {len(border.live):,} are live around a "
            f"{self.image}-pixel image in a {self.frame}-pixel frame"
        }
