"""One line of a ledger: what was released, to whom, and what it costs in each view."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sordino.core import Norm, Unit
from sordino.privacy.events import from_json, to_json
from sordino.privacy.mechanisms import UPDATE, Part
from sordino.privacy.pricing import Charge

SAME = 1e-9
"""Numbers that differ by less than this share are one number, computed by two processors."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One release: what was done, to whom, and what it costs in each view."""

    round: int
    label: str
    unit: Unit
    owner: str
    """Who draws the noise: `server`, or `client 7`."""
    mechanism: str
    norm: Norm
    clip_bound: float
    noise_multiplier: float
    releases: int
    """How many noisy values this line allows."""
    period: int = 1
    residue: int = 0
    """The pool whose members pay the `pool` charges: clients that leave `residue` when divided by `period`."""
    participants: tuple[int, ...] = ()
    attempt: int = 0
    """Which time the run was taken up when this was charged; with noise that cannot be repeated, a round may be charged twice."""
    others: tuple[Part, ...] = ()
    """What else is released from the same batch; the charges are for all of it jointly."""
    moving_clip: bool = False
    """Whether the clip moves from one release to the next, beginning at `clip_bound`; noise is then scaled to it."""
    charges: tuple[Charge, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        first = Part(name=UPDATE, clip_bound=self.clip_bound, noise_multiplier=self.noise_multiplier)
        return (first, *self.others)

    def to_json(self) -> dict[str, Any]:
        charges = [
            {"view": c.view, "whom": c.whom, "event": to_json(c.event), "because": c.because} for c in self.charges
        ]
        bound = self.clip_bound if math.isfinite(self.clip_bound) else "inf"
        plain = {"clip_bound": bound, "participants": list(self.participants), "charges": charges}
        others = [dict(part.__dict__) for part in self.others]
        return {**self.__dict__, **plain, "others": others}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Line:
        charges = tuple(Charge(**{**charge, "event": from_json(charge["event"])}) for charge in data["charges"])
        exact = {
            "clip_bound": float(data["clip_bound"]),
            "participants": tuple(data["participants"]),
            "others": tuple(Part(**part) for part in data.get("others", ())),
            "charges": charges,
        }
        return Line(**{**data, **exact})

    def same_charge(self, other: Line) -> bool:
        """Whether both charge the same for the same release; words do not count, nor the last digits of computed numbers."""
        return alike(_bare(self), _bare(other))


def _bare(line: Line) -> dict[str, Any]:
    charges = tuple(dataclasses.replace(charge, because="") for charge in line.charges)
    return dataclasses.replace(line, charges=charges).to_json()


def alike(one: Any, other: Any) -> bool:
    """Whether two values of JSON are the same but for the last digits of computed numbers."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=SAME)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)
