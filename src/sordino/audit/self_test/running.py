"""The self-test: real parts alarm nowhere, and every broken twin is caught on at least one bench."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sordino.audit.self_test import twins
from sordino.audit.self_test.benches import BENCHES, BROKEN_BY_THEMSELVES
from sordino.audit.self_test.patches import Patches
from sordino.audit.self_test.twins import Twin

REAL = "nothing: the real parts"

TWINS: dict[str, tuple[Twin, tuple[str, ...]]] = {
    "noise forgotten": (
        twins.noise_forgotten,
        ("central", "distributed, by coins", "local", "steps on examples", "last model alone"),
    ),
    "noise halved": (twins.noise_halved, ("central", "local", "local, laplace", "one step, large rate")),
    "noise a tenth short": (twins.noise_short_of_a_tenth, ("central", "steps on examples")),
    "one of two parts bare": (twins.embedding_bare, ("steps, gep",)),
    "correlated without its norm": (twins.columns_longer_than_one, ("turns, banded",)),
    "noise reused in every round": (twins.noise_reused, ("central", "local")),
    "noise seeded alike at all clients": (twins.clients_seeded_alike, ("local", "distributed, by coins")),
    "clip skipped": (twins.clip_skipped, ("central", "local", "steps on examples", "last model alone")),
    "clipped after averaging": (twins.clipped_after_averaging, ("central",)),
    "batch clipped, not examples": (twins.batch_clipped, ("steps on examples", "one step, large rate")),
    "NaN and infinity let through": (twins.let_through_what_is_not_finite, ("not finite",)),
    "groups charged as one": (twins.groups_charged_as_one, ("groups clipped apart",)),
    "drawn twice as often": (twins.drawn_twice_as_often, ("central, by coins",)),
    "batches twice as large": (twins.batches_twice_as_large, ("one step, large rate",)),
    "fixed size charged as coins": (twins.fixed_size_for_coins, ("central, by coins",)),
    "empty seats not filled": (twins.seats_left_empty, ("distributed, by coins",)),
    "divided by who came": (twins.divided_by_who_came, ("central, by coins",)),
    "support of a mask shown": (twins.mask_charged_as_covered, ("sparse updates, local mask",)),
    "price by a false declaration": (twins.priced_by_a_false_declaration, ("stranger: each as sum",)),
    "the same, declaration checked": (twins.nothing_broken, ("stranger: each as sum",)),
    "stranger returns a raw value": (twins.nothing_broken, ("stranger: raw mean",)),
    "momentum of private updates": (twins.nothing_broken, ("stranger: raw momentum",)),
    "state in a model's buffers": (twins.nothing_broken, ("stranger: state in buffers",)),
    "statistics without noise": (twins.statistics_without_noise, ("statistics", "bought means", "bought spreads")),
    "statistics half covered": (twins.statistics_half_covered, ("statistics", "bought means", "bought spreads")),
    "absent rows count nothing": (twins.absent_rows_count_nothing, ("bought means",)),
    "squares beyond the bounds": (twins.squares_beyond_the_bounds, ("bought spreads",)),
    "a ledger line edited": (twins.nothing_broken, ("edited ledger",)),
}
"""What is broken, and the benches on which it is tried; it must be caught on every one of them."""
FAST = ("noise forgotten", "clip skipped", "stranger returns a raw value", "NaN and infinity let through")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What alarmed where."""

    twin: str
    bench: str
    alarms: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Real parts must not alarm, and twins must."""
        return bool(self.alarms) != (self.twin == REAL)


def real_benches() -> list[str]:
    """Those on which real parts are tried."""
    return [name for name in BENCHES if name not in (*BROKEN_BY_THEMSELVES, "edited ledger")]


def try_twin(twin: str, bench: str) -> Outcome:
    """Break it, audit it, and put it back."""
    breaking = twins.nothing_broken if twin == REAL else TWINS[twin][0]
    with Patches() as patch:
        breaking(patch)
        return Outcome(twin=twin, bench=bench, alarms=tuple(BENCHES[bench]()))


def self_test(
    names: Sequence[str] = tuple(TWINS), *, progress: Callable[[str, int, int], None] = lambda stage, done, total: None
) -> list[Outcome]:
    """All real benches, then each twin on its benches."""
    tries = [(REAL, bench) for bench in real_benches()]
    tries += [(twin, bench) for twin in names for bench in TWINS[twin][1]]
    outcomes = []
    for number, (twin, bench) in enumerate(tries, 1):
        outcomes.append(try_twin(twin, bench))
        progress("self-test", number, len(tries))
    return outcomes


def to_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "schema": 1,
        "kind": "self-test",
        "name": "self-test",
        "holds": all(outcome.right for outcome in outcomes),
        "twins": len({outcome.twin for outcome in outcomes} - {REAL}),
        "outcomes": [
            {"twin": one.twin, "bench": one.bench, "alarms": list(one.alarms), "right": one.right} for one in outcomes
        ],
    }
