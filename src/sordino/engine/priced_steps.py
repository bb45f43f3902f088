"""Noisy steps as they were priced: how many there are, and at which rate their batches are drawn."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

from sordino.core import SordinoError
from sordino.methods.method import Method, NoisySteps


@dataclass(frozen=True, kw_only=True)
class PricedSteps:
    """What the bill knows of an example-level job.

    Formal guarantee: every figure is read from the job once. The price, the ledger's line and the draw of a batch read it
    here, so they agree even where the job would answer otherwise when asked again.
    """

    job: NoisySteps
    local_steps: int
    _rates: dict[int, float] = field(default_factory=dict, compare=False, repr=False)

    def rate(self, examples: int) -> float:
        """The chance that a row of a client with so many rows is in a batch."""
        if examples not in self._rates:
            self._rates[examples] = _checked_rate(self.job.rate(examples), examples)
        return self._rates[examples]


def priced_steps(method: Method) -> PricedSteps | None:
    """The steps to price for an example-level method, and None for a client-level one, whose uploads are priced."""
    if method.unit == "client":
        if method.pooled:
            raise SordinoError(
                "A method whose rows all lie in one place hides examples, but this one declares unit = 'client' and "
                "pooled = True; declare unit = 'example', or pooled = False."
            )
        return None
    job = method.job
    if not isinstance(job, NoisySteps):
        raise SordinoError(
            f"A method with unit = 'example' needs a job of noisy steps such as NoisySgd, but got {type(job).__name__}; "
            "declare unit = 'client', or return such a job."
        )
    return PricedSteps(job=job, local_steps=_checked_count(job.local_steps))


def _checked_count(steps: object) -> int:
    try:
        count = operator.index(steps)  # type: ignore[arg-type]
    except TypeError:
        count = 0
    if count < 1:
        raise SordinoError(
            f"Noisy steps need a whole number of local_steps from 1 on, but got {steps!r}; mend the job."
        )
    return count


def _checked_rate(rate: float, examples: int) -> float:
    if not 0 < rate <= 1:
        raise SordinoError(
            f"Noisy steps draw batches at a rate above 0 and up to 1, but got {rate!r} for a client of {examples} rows; "
            "mend the job's rate()."
        )
    return float(rate)
