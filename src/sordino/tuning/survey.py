"""Numbers about every client's rows that a tuning decides by: what is measured, what bounds it, and how it is noised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from sordino.core import Neighbours
from sordino.privacy.clipping import Clip, StatisticBound

if TYPE_CHECKING:
    from sordino.data.examples import Examples
    from sordino.methods.context import ClientContext
    from sordino.methods.jobs import Job

Choice = dict[str, Any]
"""What was chosen and why, as it is kept in the run record."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What is public of a run before its noise is worked out."""

    rounds: int
    sizes: Sequence[int]
    """Rows per client."""
    neighbours: Neighbours
    budgets: Mapping[str, float]
    """Every ε that the file sets, by the words to call it."""
    job: Job
    clip: Clip


@dataclass(frozen=True, kw_only=True)
class NoiseFacts(RunFacts):
    """The same with the noise of the training."""

    multipliers: Sequence[float]
    """Of each client."""
    noise: str
    """The kind of noise: `gaussian` or `laplace`."""
    cohort_share: float
    """How much of the roster a round draws, on average."""
    delta: float = 0.0
    client_epsilons: Sequence[float] = ()
    """The target of each client, where any was set."""


class Survey(Protocol):
    """A few numbers about one client's rows, each released once by every client with Laplace noise."""

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def noise_multiplier(self) -> float:
        """The scale of the Laplace noise over the sensitivity of each number."""
        ...

    def bound(self, name: str, size: int) -> StatisticBound:
        """The public range of a number of a client with so many rows, and how far one row moves it."""
        ...

    def measure(self, model: Tensor, examples: Examples, context: ClientContext) -> Mapping[str, float]:
        """The numbers, still private, at a public model."""
        ...


class AskClients(Protocol):
    """Takes a survey to every client and returns the released numbers, by name, one for each client."""

    def __call__(self, survey: Survey) -> Mapping[str, Sequence[float]]: ...
