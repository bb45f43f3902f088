"""The contract of a mechanism: what it draws is what it tells the accountant."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sordino.privacy.event_kinds import DpEvent, GaussianDpEvent, LaplaceDpEvent, NonPrivateDpEvent
from sordino.privacy.mechanisms import MECHANISMS, UPDATE, Draw, Mechanism
from sordino.privacy.noise import SeededNoise
from sordino.settings import member
from sordino.testing.broken import Broken, demand
from sordino.testing.tables import Table

DRAWS = 50_000
CLOSE = 0.03
"""The spread of so many draws strays from that of the distribution by less than this share."""
SCALE = 2.0


def check_the_event(table: Table) -> None:
    """The event has the multiplier that was asked for, and without noise there is no promise."""
    mechanism = _made(table)
    found = getattr(mechanism.event(1.3), "noise_multiplier", None)
    demand(found == 1.3, f"The event of a noise multiplier of 1.3 says {found}.")
    nothing = type(mechanism.event(0.0)).__name__
    demand(nothing == NonPrivateDpEvent.__name__, f"Without noise the event is {nothing}, and not NonPrivateDpEvent.")
    demand(mechanism.norm in ("l1", "l2"), f"The norm is {mechanism.norm!r}, and neither 'l1' nor 'l2'.")


def check_the_noise(table: Table) -> None:
    """Noise has mean zero and the spread of the event: no less, which would break the promise, and no more."""
    mechanism = _made(table)
    values = _drawn(mechanism, stream=1)
    expected = _mean_size(mechanism.event(1.0))
    found = float(values.abs().mean()) / SCALE
    demand(
        abs(found / expected - 1) < CLOSE, f"Noise of scale 1 has mean size {found:.4f}, and its event {expected:.4f}."
    )
    demand(abs(float(values.mean())) < CLOSE * SCALE, f"Noise has mean {float(values.mean()):.4f}, and not zero.")


def check_the_streams(table: Table) -> None:
    """A stream gives the same noise again, and another stream other noise."""
    mechanism = _made(table)
    first, again, other = (_drawn(mechanism, stream=stream) for stream in (1, 1, 2))
    demand(torch.equal(first, again), "The same stream gave other noise the second time, so no run can be resumed.")
    correlation = float((first * other).mean()) / float(first.square().mean())
    demand(abs(correlation) < CLOSE, f"Noise of two streams is correlated by {correlation:.3f}.")


def check_the_parts(table: Table) -> None:
    """What is released from a batch begins with the update, under the clip; ledger lines know the noise by its name."""
    mechanism = _made(table)
    first, *_ = mechanism.parts(1.3, bound=0.5, stage=mechanism.stage(0), expected_units=10.0)
    demand(first.name == UPDATE, f"The first part released is {first.name!r}, and not {UPDATE!r}.")
    demand(first.clip_bound <= 0.5, f"The clip is 0.5, and the update's bound {first.clip_bound:g}.")
    known = MECHANISMS[mechanism.noise]
    demand(known.norm == mechanism.norm, f"The noise {mechanism.noise!r} of ledger lines is for {known.norm}.")


MECHANISM_CHECKS = (check_the_event, check_the_noise, check_the_streams, check_the_parts)


def _made(table: Table) -> Mechanism:
    mechanism: Mechanism = member(MECHANISMS, table, where="privacy.mechanism")
    return mechanism


def _drawn(mechanism: Mechanism, *, stream: int) -> Tensor:
    return mechanism.draw(SeededNoise(1), torch.zeros(DRAWS), Draw(scale=SCALE, stream=stream))


def _mean_size(event: DpEvent) -> float:
    """The mean of |noise| at a scale of one."""
    if isinstance(event, GaussianDpEvent):
        return math.sqrt(2 / math.pi)
    if isinstance(event, LaplaceDpEvent):
        return 1.0
    raise Broken(f"The event {type(event).__name__} is none whose noise can be checked here: Gaussian or Laplace.")
