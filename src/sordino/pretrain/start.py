"""What a start does, and where starts are found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from sordino.data.source import Source
from sordino.models import Net
from sordino.pretrain.provenance import PrivateData, Provenance, lineage_warnings, start_provenance
from sordino.registry import Registry

if TYPE_CHECKING:
    from sordino.pretrain.store import Trained

Progress = Callable[[int, int], None]
"""Told how many steps of how many are done."""

Build = Callable[[int, int], Net]
"""The experiment's model with so many classes, from this seed."""


@dataclass(frozen=True, kw_only=True)
class StartFacts:
    """What a start may know before anything is loaded: never private rows."""

    shape: tuple[int, ...]
    classes: int
    seed: int
    folder: Path
    """Where relative paths of the experiment file begin."""
    private: PrivateData


@dataclass(frozen=True, kw_only=True)
class StartContext(StartFacts):
    """What a start may use when it is made."""

    device: torch.device
    progress: Progress
    model: dict[str, Any]
    build: Build
    refuse_overlap: Callable[[Source], None]
    """Raises where a public set shares examples with the private one. Every start that learns from a public set calls it first."""
    learnt: Sequence[Provenance] = ()
    """The public sets that were not refused: a start that learns has learnt from these."""


class Start(ABC):
    """Gives a freshly built model its first weights. A frozen dataclass whose fields are the settings of `[start]`.

    It must prepare a model. By default it trains nothing, needs no public data, and takes no weights from files.

    Example:
        see `sordino.pretrain.scratch.Scratch` and `sordino.pretrain.file.File`
    """

    trains: ClassVar[bool] = False
    """Whether there is anything to train on public data, which `train` then does."""

    @abstractmethod
    def prepare(self, net: Net, context: StartContext) -> None:
        """Give `net` its weights, in place."""

    @property
    def public_data(self) -> Mapping[str, Any] | None:
        """The data source that it learns from, which must be marked public; None for a start that learns nothing."""
        return None

    def load_public(self, facts: StartFacts) -> Source | None:
        """Those data, as they are learnt from."""
        return None

    def train(self, context: StartContext) -> Trained | None:
        """The trained weights by themselves; None for a start that trains nothing."""
        return None

    def check(self, net: Net, facts: StartFacts) -> None:
        """Refuse what can be refused without training; the net's weights may be used up."""
        return

    def files(self, folder: Path) -> tuple[Path, ...]:
        """The files whose weights the model begins with."""
        return ()

    def lineage(self, folder: Path) -> tuple[Provenance, ...]:
        """All trainings that went into those files."""
        return tuple(one for path in self.files(folder) for one in start_provenance(path))

    def warnings(self, facts: StartFacts) -> list[str]:
        """What belongs into the plan and the summary of a run that begins here; refuses what no run may begin with."""
        return [
            warning
            for path in self.files(facts.folder)
            for warning in lineage_warnings(path, start_provenance(path), facts.private)
        ]


STARTS: Registry[type[Start]] = Registry("start", "sordino.pretrain", Start)
