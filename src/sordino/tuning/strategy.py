"""What a tuning decides, and where tunings are found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sordino.models import Net
from sordino.registry import Registry
from sordino.tuning.survey import AskClients, Choice, NoiseFacts, RunFacts, Survey
from sordino.tuning.task import Task

if TYPE_CHECKING:
    from sordino.privacy.event_kinds import DpEvent


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A stretch of rounds, from `first_round` on, in which the same parameters are trained."""

    first_round: int
    trainable: tuple[str, ...]


class Tuning(ABC):
    """Chooses the parameters that are trained; the others keep the values they started with.

    A frozen dataclass whose fields are the settings of `[tuning]`. It must say what is trainable. By default that is one
    phase, on the model as it was built for the private task, clipped as one, and nothing is asked of the data.

    Example:
        see `sordino.tuning.head.Head`, or "Add a tuning" in CONTRIBUTING.md
    """

    @abstractmethod
    def trainable(self, net: Net) -> list[str]:
        """The names of the parameters that are trained, at the end if there are several phases."""

    def phases(self, net: Net, rounds: int) -> tuple[Phase, ...]:
        """The phases of a run of so many rounds, first to last: each trains what the one before it did, and more."""
        return (Phase(first_round=0, trainable=tuple(self.trainable(net))),)

    def check_start(self, start: str) -> None:
        """Refuse a start that contradicts the tuning."""
        return

    def source_task(self, task: Task) -> Task:
        """What the model is built and started for."""
        return task

    def wrap(self, net: Net, task: Task, *, seed: int) -> Net:
        """The model that is trained, around or in place of one built for `source_task`; the start still reaches that one."""
        return net

    def finish(self, net: Net) -> Net:
        """The model as it is saved when training is over, made of the trained one."""
        return net

    def clip_groups(self) -> Mapping[str, Sequence[str]]:
        """Parameters whose gradients are clipped apart from one another; none where all are clipped as one."""
        return {}

    def plan_facts(self, net: Net) -> dict[str, str]:
        """What a plan should say of the wrapped model."""
        return {}

    # What follows is for tunings that decide by private data before the first round.

    def charges_before(self, run: RunFacts) -> Mapping[DpEvent, int]:
        """What every client pays before the first round; a run or a budget that this does not suit is refused."""
        return {}

    def choice_facts(self, net: Net, run: NoiseFacts) -> dict[str, str]:
        """What a plan can say of the choice without any data."""
        return {}

    def survey(self, net: Net, run: RunFacts) -> Survey | None:
        """What clients are asked before the first round; None where nothing is."""
        return None

    def decide(self, net: Net, run: NoiseFacts, ask: AskClients) -> Choice | None:
        """Ask the clients, and decide; the choice is kept in the run record. It has a `sentence` to show."""
        return None

    def chosen_phases(self, net: Net, rounds: int, choice: Choice) -> tuple[Phase, ...]:
        """The phases that follow from a choice."""
        return self.phases(net, rounds)


TUNINGS: Registry[type[Tuning]] = Registry("tuning", "sordino.tuning", Tuning)


def lengths(phases: tuple[Phase, ...], rounds: int) -> list[int]:
    """How many rounds each phase lasts."""
    begins = [phase.first_round for phase in phases]
    return [end - begin for begin, end in zip(begins, [*begins[1:], rounds], strict=True)]
