"""The ledger: every release is written down, synced to disk and charged before its noise is drawn."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.core import VIEWS, Neighbours, Norm, SordinoError, Unit, View
from sordino.files import disk_errors, write_whole
from sordino.privacy.accounting import Spent, spent
from sordino.privacy.events import from_json, to_json
from sordino.privacy.mechanisms import UPDATE, Part
from sordino.privacy.pricing import Charge, neighbours_in

if TYPE_CHECKING:
    from sordino.privacy.event_kinds import DpEvent

Multiset = Counter["DpEvent"]

LISTED = 1000
"""Up to this many clients, ε is listed for each."""

EVALUATION = "evaluation"
"""The label of lines that pay for an accuracy; a report's reason is that of the training, where there was any."""


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


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The largest ε a view may reach, for everyone or for each client by itself."""

    view: View
    epsilon: float
    per_client: Mapping[int, float] = field(default_factory=dict)

    def of(self, client: int) -> float:
        return self.per_client.get(client, self.epsilon)


class OverBudget(SordinoError):
    """A release was refused because it would have passed the budget."""


class Accounts:
    """Who has paid what, in one view: pools pay together, participants one by one."""

    def __init__(self) -> None:
        self._pools: dict[tuple[int, int], Multiset] = defaultdict(Counter)
        self._own: dict[int, Multiset] = defaultdict(Counter)

    def add(self, line: Line, charge: Charge) -> None:
        if charge.whom == "pool":
            self._pools[line.period, line.residue][charge.event] += 1
        else:
            for client in line.participants:
                self._own[client][charge.event] += 1

    def of(self, client: int) -> Multiset:
        total = Counter(self._own.get(client, Counter()))
        for (period, residue), events in self._pools.items():
            if client % period == residue:
                total.update(events)
        return total

    def bills(self, clients: int) -> dict[frozenset[tuple[DpEvent, int]], list[int]]:
        """Clients that paid the same, together, so that each distinct bill is priced once.

        On a roster larger than `LISTED`, clients that never took part are stood for by one of each pool.
        """
        bills: dict[frozenset[tuple[DpEvent, int]], list[int]] = defaultdict(list)
        for client in self._own:
            bills[frozenset(self.of(client).items())].append(client)
        period = math.lcm(*(period for period, _ in self._pools)) if self._pools else 1
        for residue in range(min(period, clients)):
            others = (client for client in range(residue, clients, period) if client not in self._own)
            idle = list(others) if clients <= LISTED else list(itertools.islice(others, 1))
            if idle:
                bills[frozenset(self.of(idle[0]).items())].extend(idle)
        return bills


@dataclass(frozen=True, kw_only=True)
class ViewReport:
    """ε in one view: of the worst client, and of each."""

    view: View
    worst: Spent
    worst_client: int
    per_client: Mapping[int, float]
    because: str


class Ledger:
    """Accounts for one run. With a path, every line is on disk before the release it allows.

    Formal guarantee: `charge` either raises and changes nothing, or returns after the lines are durable; the budget is
    checked over everything charged so far plus the new lines.
    """

    def __init__(
        self,
        *,
        clients: int,
        delta: float,
        neighbours: Neighbours,
        budget: Budget | None = None,
        path: Path | None = None,
        planned: Iterable[Mapping[DpEvent, int]] = (),
    ) -> None:
        self.clients = clients
        self.delta = delta
        self.neighbours = neighbours
        self.budget = budget
        self.path = path
        self.lines: list[Line] = []
        self._accounts: dict[View, Accounts] = {view: Accounts() for view in VIEWS}
        self._reasons: dict[View, str] = {}
        self._replayed: list[Line] = []
        self._approved: dict[float, list[Multiset]] = defaultdict(list)
        for events in planned:
            self._approve(Counter(events))

    def open(self, *, keep: int, replay: bool) -> None:
        """Continue a ledger found on disk, whose first `keep` lines belong to completed rounds.

        Later lines belong to a round that was cut off. With reproducible noise that round is `replay`ed: it must charge the
        same lines again, which then stand once. With secure noise it draws afresh, so what it charged before stays charged.
        A last line cut short was never synced, so its noise was never drawn: it is dropped.
        """
        if self.path is None or not self.path.exists():
            lines = []
        else:
            lines = read_lines(self.path)
            write_whole(self.path, "".join(_row(line) + "\n" for line in lines).encode())
        if len(lines) < keep:
            raise SordinoError(
                f"The ledger {self.path} has {len(lines)} whole lines but the checkpoint counts {keep}; "
                "it was cut or edited, so restore the folder from a copy."
            )
        for line in lines[:keep] if replay else lines:
            self._book(line)
        self._replayed = lines[keep:] if replay else []

    def charge(self, line: Line) -> int:
        """Check the budget, write the line, and return its number; nothing is drawn before this returns."""
        if self._replayed:
            return self._charge_again(line)
        self._refuse_over_budget(line)
        if self.path is not None:
            _append(self.path, _row(line))
        self._book(line)
        return len(self.lines) - 1

    def affords(self, client: int, charges: Sequence[Charge]) -> bool:
        """Whether this client's own budget allows these charges once more."""
        if self.budget is None:
            return True
        after = self._accounts[self.budget.view].of(client)
        after.update(charge.event for charge in charges if charge.view == self.budget.view)
        return self._within(after, self.budget.of(client))

    def report(self) -> dict[View, ViewReport]:
        """ε per view on the fine grid, with every accountant's figure."""
        return {view: self._view(view, thorough=True) for view in VIEWS}

    def worst(self, view: View) -> Spent:
        """ε so far for the worst client of one view."""
        return self._view(view, thorough=False).worst

    def _view(self, view: View, *, thorough: bool) -> ViewReport:
        per_client: dict[int, float] = {}
        worst, worst_client = Spent(epsilon=0.0, delta=self.delta, accountant="none", also={}, note=""), 0
        for bill, clients in self._accounts[view].bills(self.clients).items():
            price = spent(
                dict(bill),
                delta=self.delta,
                neighbours=neighbours_in(view, self.neighbours),
                precise=thorough,
                both=thorough,
            )
            per_client.update(dict.fromkeys(clients, price.epsilon))
            if price.epsilon > worst.epsilon:
                worst, worst_client = price, clients[0]
        return ViewReport(
            view=view,
            worst=worst,
            worst_client=worst_client,
            per_client=dict(sorted(per_client.items())),
            because=self._reasons.get(view, "nothing was released"),
        )

    def _book(self, line: Line) -> None:
        self.lines.append(line)
        for charge in line.charges:
            self._accounts[charge.view].add(line, charge)
            if line.label != EVALUATION or charge.view not in self._reasons:
                self._reasons[charge.view] = charge.because

    def _charge_again(self, line: Line) -> int:
        expected = self._replayed.pop(0)
        if expected != line:
            raise SordinoError(
                f"Round {line.round} charged something else before the interruption than it does now; the run folder belongs "
                "to another version or machine, so start anew with a fresh --out."
            )
        self._book(line)
        return len(self.lines) - 1

    def _refuse_over_budget(self, line: Line) -> None:
        budget = self.budget
        if budget is None:
            return
        for charge in (charge for charge in line.charges if charge.view == budget.view):
            payers: Iterable[int] = line.participants if charge.whom == "participants" else self._representatives(line)
            for client in payers:
                after = self._accounts[budget.view].of(client)
                after[charge.event] += 1
                if not self._within(after, budget.of(client)):
                    raise OverBudget(
                        f"Round {line.round} would take client {client} past its budget of ε = {budget.of(client):g} in the "
                        f"{budget.view} view; nothing was released. Plan fewer rounds, more noise or a larger budget."
                    )

    def _representatives(self, line: Line) -> Iterable[int]:
        """One client per distinct bill and budget: the others of the pool fare the same."""
        assert self.budget is not None
        if line.residue < self.clients:
            yield line.residue
        for client in self.budget.per_client:
            if client % line.period == line.residue:
                yield client

    def _within(self, events: Multiset, epsilon: float) -> bool:
        if any(events <= approved for approved in self._approved[epsilon]):
            return True
        assert self.budget is not None
        price = spent(
            events, delta=self.delta, neighbours=neighbours_in(self.budget.view, self.neighbours), precise=True
        )
        if price.epsilon <= epsilon:
            self._approved[epsilon] = [events, *self._approved[epsilon][:7]]
            return True
        return False

    def _approve(self, events: Multiset) -> None:
        """Price a whole plan once, so that each of its rounds need not be priced again."""
        if self.budget is not None:
            for epsilon in {self.budget.epsilon, *self.budget.per_client.values()}:
                self._within(events, epsilon)


def _row(line: Line) -> str:
    return json.dumps(line.to_json(), ensure_ascii=False)


def read_lines(path: Path) -> list[Line]:
    """The whole lines of a ledger file; a last line without its newline is not one."""
    text = path.read_text(encoding="utf-8")
    try:
        return [Line.from_json(json.loads(row)) for row in text[: text.rfind("\n") + 1].splitlines()]
    except (ValueError, KeyError, TypeError) as error:
        raise SordinoError(
            f"The ledger {path} has a line that cannot be read ({error}); restore the folder from a copy."
        ) from error


def _append(path: Path, row: str) -> None:
    """Add one durable line; if the disk refuses, the file is as it was before."""
    with disk_errors(path), path.open("ab") as file:
        before = file.tell()
        try:
            file.write(row.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            os.truncate(path, before)
            raise
