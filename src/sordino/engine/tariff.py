"""The tariff of a run: how much noise everyone draws, and what each round costs whom."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sordino.core import VIEWS, Unit, View
from sordino.engine.charged_evaluation import ChargedEvaluation
from sordino.engine.priced_steps import PricedSteps
from sordino.experiment import PrivacySection
from sordino.methods.personal import OUTSIDE
from sordino.privacy.accounting import Spent, spent
from sordino.privacy.clipping import Clip
from sordino.privacy.events import joint
from sordino.privacy.ledger import Budget
from sordino.privacy.mechanisms import Mechanism, RunShape
from sordino.privacy.pricing import (
    Placement,
    Price,
    Uses,
    neighbours_in,
    price_local_steps,
    price_uncovered,
    price_unprotected,
    price_upload,
)
from sordino.privacy.samplers import CohortSampler

if TYPE_CHECKING:
    from sordino.privacy.event_kinds import DpEvent

LISTED_IN_PLAN = 20
"""Up to this many clients, a plan lists the ε of each."""


@dataclass(frozen=True, kw_only=True)
class Multipliers:
    """How much noise is drawn: settled when a run begins, kept in its record, and never worked out again."""

    common: float
    per_client: Mapping[int, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        own = {str(client): multiplier for client, multiplier in self.per_client.items()}
        return {"noise_multiplier": self.common, "noise_multiplier_per_client": own}

    @staticmethod
    def from_json(facts: Mapping[str, Any]) -> Multipliers:
        own = {int(client): float(multiplier) for client, multiplier in facts["noise_multiplier_per_client"].items()}
        return Multipliers(common=float(facts["noise_multiplier"]), per_client=own)


@dataclass(frozen=True, kw_only=True)
class Tariff:
    """Prices for every client of a run. The same object prices the plan and the rounds, so the two cannot differ."""

    unit: Unit
    uses: Uses
    protected: bool
    pooled: bool
    steps: PricedSteps | None
    sizes: Sequence[int] | None
    """Rows per client; only example-level prices depend on them."""
    mechanism_name: str
    mechanism: Mechanism
    placement: Placement
    sampler: CohortSampler
    clip: Clip
    colluders: int
    noise_multiplier: float
    per_client: Mapping[int, float] = field(default_factory=dict)
    retires: bool = False
    uncovered: str = ""
    """Why no ε holds whatever noise is drawn; nothing where one does."""
    personal: bool = False
    """Whether clients end up with models of their own, which no ε covers."""
    before: Mapping[DpEvent, int] = field(default_factory=dict)
    """What every client pays before the first round."""
    evaluation: ChargedEvaluation | None = None
    """How accuracy is released, where it is measured on rows that stay private."""
    spare_rounds: int = 0
    """Rounds that may be charged again after a crash; the noise is worked out for them too."""

    @cached_property
    def _prices(self) -> dict[tuple[float, float, float, int], Price]:
        return {}

    @property
    def noise_drawn(self) -> Placement:
        """Where the noise is drawn: noisy steps are noised where their rows are, whatever was set for uploads."""
        if self.steps is None:
            return self.placement
        return "central" if self.pooled else "local"

    @property
    def multipliers(self) -> Multipliers:
        return Multipliers(common=self.noise_multiplier, per_client=self.per_client)

    def multiplier(self, client: int) -> float:
        return self.per_client.get(client, self.noise_multiplier)

    def price(self, client: int, round_number: int) -> Price:
        """What this round costs this client when it takes part."""
        rate = self.steps.rate(self._size(client)) if self.steps is not None else 1.0
        stage = self.mechanism.stage(round_number)
        key = (self.multiplier(client), rate, self.expected_units(client), stage)
        if key not in self._prices:
            self._prices[key] = self._price(*key)
        return self._prices[key]

    def expected_units(self, client: int) -> float:
        """How many units are expected to contribute to a release: clients of a cohort, or examples of a client's batch."""
        if self.steps is None:
            return self.sampler.expected_cohort
        return self.steps.rate(self._size(client)) * self._size(client)

    def by_price(self, cohort: Sequence[int], round_number: int) -> list[tuple[list[int], Price]]:
        """The cohort in groups that pay the same."""
        groups: dict[int, tuple[list[int], Price]] = {}
        for client in cohort:
            price = self.price(client, round_number)
            groups.setdefault(id(price), ([], price))[0].append(client)
        return list(groups.values())

    def bill(self, client: int, view: View, *, until: int | None = None) -> Counter[DpEvent]:
        """What this client is charged over the whole run with all spare rounds, or `until` some round, if always drawn."""
        sampler = self.sampler
        rounds = range(client % sampler.period, sampler.rounds if until is None else until, sampler.period)
        bill: Counter[DpEvent] = Counter(self.before)
        if self.evaluation is not None:
            bill.update(self.evaluation.events(view))
        stages = self.mechanism.stages(rounds)
        for first, times in stages.items():
            bill[self.price(client, first).in_view(view).event] += times
        if stages and until is None:
            costliest = min(stages, key=lambda first: self.price(client, first).noise_multiplier)
            bill[self.price(client, costliest).in_view(view).event] += self.spare_rounds
        return bill

    def worst_bills(self, view: View) -> dict[int, Counter[DpEvent]]:
        """The most that clients can be charged over the whole run: one representative for each distinct bill."""
        bills: dict[int, Counter[DpEvent]] = {}
        seen = set()
        for client in self._representatives():
            bill = self.bill(client, view)
            if (key := frozenset(bill.items())) not in seen:
                seen.add(key)
                bills[client] = bill
        return bills

    def worst(self, privacy: PrivacySection, *, all_accountants: bool) -> dict[View, Spent]:
        """ε of the worst client in each view, if everyone is drawn as often as can be."""
        return {
            view: max(
                (
                    spent(
                        bill,
                        delta=privacy.delta,
                        neighbours=neighbours_in(view, privacy.neighbours),
                        precise=True,
                        both=all_accountants,
                    )
                    for bill in self.worst_bills(view).values()
                ),
                key=lambda price: price.epsilon,
            )
            for view in VIEWS
        }

    def each(self, privacy: PrivacySection) -> dict[int, float]:
        """ε of each of a few clients in the promised view, if all are drawn as often as can be; empty where all pay alike."""
        if not self.protected or self.sampler.clients > LISTED_IN_PLAN:
            return {}
        neighbours = neighbours_in(privacy.view, privacy.neighbours)
        found: dict[frozenset[tuple[DpEvent, int]], float] = {}
        epsilons: dict[int, float] = {}
        for client in range(self.sampler.clients):
            bill = self.bill(client, privacy.view)
            key = frozenset(bill.items())
            if key not in found:
                found[key] = spent(bill, delta=privacy.delta, neighbours=neighbours, precise=True).epsilon
            epsilons[client] = found[key]
        return epsilons if len(found) > 1 else {}

    def noise_facts(self) -> dict[str, str]:
        """What a plan should say of noise that changes over the rounds."""
        first, last = (self.price(0, number).noise_multiplier for number in (0, self.sampler.rounds - 1))
        changing = {"noise over rounds": f"each release {first:.4g} at first, {last:.4g} at last"}
        return {**self.mechanism.plan_facts(self.noise_multiplier, self.shape), **(changing if first != last else {})}

    @property
    def shape(self) -> RunShape:
        """What mechanisms know of the run."""
        return RunShape(
            unit=self.unit,
            placement=self.placement,
            sampler=self.sampler,
            protected=self.protected,
            in_steps=self.steps is not None,
        )

    def spare_facts(self, privacy: PrivacySection) -> dict[str, str]:
        """What a plan should say of rounds that may be charged twice: those that a crash cuts off, with secure noise."""
        if self.spare_rounds:
            bare = dataclasses.replace(self, spare_rounds=0).worst(privacy, all_accountants=False)[privacy.view]
            return {
                "spare rounds": f"{self.spare_rounds}, for rounds that a crash cuts off; ε = {bare.epsilon:.4g} if there is none"
            }
        if privacy.noise_source == "seeded" or budget_of(privacy) is None or not self.protected:
            return {}
        short = "none: a round that a crash cuts off is charged again, and the run then ends that much earlier"
        return {"spare rounds": f"{short}; [privacy] spare_rounds = k plans for k of them"}

    def _representatives(self) -> list[int]:
        turns = range(min(self.sampler.period, self.sampler.clients))
        if self.steps is None or self.sizes is None:
            return sorted({*turns, *self.per_client})
        smallest = [min(range(r, len(self.sizes), self.sampler.period), key=self._size) for r in turns]
        return sorted({*smallest, *self.per_client})

    def _size(self, client: int) -> int:
        assert self.sizes is not None
        return self.sizes[client]

    def _price(self, noise_multiplier: float, rate: float, expected_units: float, stage: int) -> Price:
        if not self.protected:
            return price_unprotected(self.uncovered)
        parts = self.mechanism.parts(
            noise_multiplier, bound=self.clip.bound, stage=stage, expected_units=expected_units
        )
        return self._joint_price(joint(*(part.noise_multiplier for part in parts)), rate).divided(parts)

    def _joint_price(self, noise_multiplier: float, rate: float) -> Price:
        if self.steps is not None:
            return price_local_steps(
                mechanism=self.mechanism,
                noise_multiplier=noise_multiplier,
                rate=rate,
                steps=self.steps.local_steps,
                server_holds_data=self.pooled,
                clip_groups=len(self.clip.groups),
            )
        price = price_upload(
            placement=self.placement,
            uses="each" if self.per_client else self.uses,
            mechanism=self.mechanism,
            noise_multiplier=noise_multiplier,
            sampler=self.sampler,
            colluders=self.colluders,
        )
        return price_uncovered(price, self.uncovered) if self.uncovered else price


def warnings_of(tariff: Tariff, privacy: PrivacySection, *, rows: int) -> list[str]:
    """What a person should know before trusting the figures."""
    units = tariff.sampler.clients if tariff.unit == "client" else rows
    warnings = []
    if tariff.protected and privacy.delta >= 1 / units:
        warnings.append(
            f"δ = {privacy.delta:g} is not below 1/{units}, one over the number of {tariff.unit}s: a mechanism that publishes "
            "one of them whole could meet it. Lower [privacy] delta."
        )
    if tariff.uncovered:
        warnings.append(f"No ε holds, whatever the noise: {tariff.uncovered}.")
    if tariff.personal:
        warnings.append(OUTSIDE)
    if privacy.noise_source == "seeded" and tariff.protected:
        warnings.append(
            "The noise is seeded and reproducible: this is a simulation. Set [privacy] noise_source = 'secure' to release the model."
        )
    return warnings


def budget_of(privacy: PrivacySection) -> Budget | None:
    if privacy.epsilon is None and privacy.client_epsilon is None:
        return None
    own = dict(enumerate(privacy.client_epsilon)) if isinstance(privacy.client_epsilon, tuple) else {}
    return Budget(view=privacy.view, epsilon=privacy.epsilon or max(own.values()), per_client=own)
