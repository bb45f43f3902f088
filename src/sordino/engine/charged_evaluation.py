"""Accuracy on rows that stay private: what an evaluation releases, with how much noise, and what it costs in each view.

A client with s held-out slots (a public number) counts its right answers c and its filled slots f, and contributes

    c + (s − f) / 2          example level: the sum over clients, divided by all slots, is the accuracy
    (c + (s − f) / 2) / s    client level: the mean over clients is the accuracy

Where a number is learnt, a row counts how close the prediction comes (`number_scores.closeness`, from 0 to 1) instead of right or
wrong. A slot that is right counts 1, a wrong one 0 and an empty one ½. So a unit that contributes nothing moves its sum by at most ½,
and one that is replaced by at most 1, which is twice as much, as `StatisticBound` asks. Counting empty slots as wrong would need
twice the noise.

| level, noise drawn | released | server view | public and client views |
|---|---|---|---|
| example | each client's sum, Laplace noise of its own | the same (infinite where the rows lie with the server) | Laplace |
| client, `central` | the sum of all, Laplace noise by the server | nothing holds | Laplace |
| client, `local` | each client's share, Laplace noise of its own | Laplace | Laplace: a sum of Laplace noises is not Laplace noise |
| client, `distributed` | each client's share, a share of Gaussian noise | z/√m | z; z·√((m−k)/m) to k colluders |

Formal guarantee: every client takes part in every evaluation, so nothing is amplified and everybody pays for each. Training and
evaluation are composed; at the example level that is more than is needed, since no row is both trained and tested on.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sordino.core import SordinoError, Unit, View
from sordino.data.evaluation_rows import Charged
from sordino.engine.resolved import Resolved
from sordino.experiment import Experiment, PrivacySection
from sordino.methods.method import Method
from sordino.privacy.accounting import spent
from sordino.privacy.calibration import calibrate
from sordino.privacy.clipping import Clip, StatisticBound
from sordino.privacy.ledger import Line
from sordino.privacy.mechanisms import Gaussian, Laplace, Mechanism
from sordino.privacy.pricing import Price, neighbours_in, price_local_steps, price_upload, unbounded
from sordino.privacy.samplers import Everyone

if TYPE_CHECKING:
    from sordino.privacy.event_kinds import DpEvent

EVALUATION = "evaluation"
"""The label of ledger lines that pay for an accuracy."""
EMPTY_SLOT = 0.5
"""What a held-out slot counts where there is no row, and by that the most that one unit moves a sum by not contributing."""


def contribution(*, right: float, filled: int, slots: int, unit: Unit) -> float:
    """What one client tells of its held-out rows, before any noise."""
    counted = right + (slots - filled) * EMPTY_SLOT
    return counted if unit == "example" else counted / slots


@dataclass(frozen=True, kw_only=True)
class ChargedEvaluation:
    """The evaluations of one run: how they are noised, and what they cost."""

    epsilon: float
    """Of all evaluations together, in the promised view."""
    evaluations: int
    unit: Unit
    clients: int
    mechanism: Mechanism
    price: Price
    """Of one evaluation, for every client."""
    summed: bool
    """Whether the server noises the sum of all clients, and not each client its own part."""

    def events(self, view: View) -> Counter[DpEvent]:
        """What every client pays in this view over the whole run."""
        return Counter({self.price.in_view(view).event: self.evaluations})

    def deviation(self, slots: int) -> float:
        """The standard deviation of the noise in an accuracy over so many held-out slots in all."""
        per_scale = math.sqrt(2) if self.mechanism.noise == "laplace" else 1.0
        releases = 1 if self.summed else self.clients
        units = slots if self.unit == "example" else self.clients
        return per_scale * self.price.noise_multiplier * EMPTY_SLOT * math.sqrt(releases) / units

    def lines(self, round_number: int) -> list[Line]:
        """What one evaluation is charged: a line for each client, or one for all of them."""
        everyone = tuple(range(self.clients))
        if self.unit == "example":
            return [self._line(round_number, f"client {client}", (client,), 1) for client in everyone]
        if self.summed:
            return [self._line(round_number, "server", everyone, 1)]
        return [self._line(round_number, "each client", everyone, self.clients)]

    @property
    def clip(self) -> Clip:
        """How far one unit moves a contribution, as a clip."""
        return Clip(bound=EMPTY_SLOT, norm=self.mechanism.norm)

    def accuracy(self, total: float, slots: Sequence[int]) -> float:
        """From the noisy sum of contributions; it may lie a little outside 0 to 1."""
        return total / (sum(slots) if self.unit == "example" else self.clients)

    def bound(self, slots: int) -> StatisticBound:
        return StatisticBound(largest=float(slots) if self.unit == "example" else 1.0, moves=EMPTY_SLOT)

    def _line(self, round_number: int, owner: str, participants: tuple[int, ...], releases: int) -> Line:
        return Line(
            round=round_number,
            label=EVALUATION,
            unit=self.unit,
            owner=owner,
            mechanism=self.mechanism.noise,
            norm=self.mechanism.norm,
            clip_bound=EMPTY_SLOT,
            noise_multiplier=self.price.noise_multiplier,
            releases=releases,
            participants=participants,
            charges=self.price.charges,
        )


def charged_evaluation(resolved: Resolved, *, clients: int, before: Mapping[DpEvent, int]) -> ChargedEvaluation | None:
    """The evaluations of an experiment, if it lets them be charged; budgets that do not cover them are refused."""
    experiment, method, rows = resolved.experiment, resolved.method, resolved.test_rows
    if not isinstance(rows, Charged):
        return None
    privacy = experiment.privacy
    _refuse_what_cannot_be_charged(experiment, method)
    _check_budgets(resolved, rows, before)
    shares = method.unit == "client" and privacy.noise == "distributed"
    mechanism: Mechanism = Gaussian() if shares else Laplace()

    def price(noise_multiplier: float) -> Price:
        return _price(method, privacy, mechanism, noise_multiplier, clients)

    count = len(experiment.evaluation_rounds)
    if shares:
        neighbours = neighbours_in(privacy.view, privacy.neighbours)
        noise_multiplier = calibrate(
            lambda noise: {price(noise).in_view(privacy.view).event: count},
            epsilon=rows.epsilon,
            delta=privacy.delta,
            neighbours=neighbours,
        )
    else:
        noise_multiplier = count * (2 if privacy.neighbours == "replace-one" else 1) / rows.epsilon
    return ChargedEvaluation(
        epsilon=rows.epsilon,
        evaluations=count,
        unit=method.unit,
        clients=clients,
        mechanism=mechanism,
        price=price(noise_multiplier),
        summed=method.unit == "client" and privacy.noise == "central",
    )


def _price(
    method: Method, privacy: PrivacySection, mechanism: Mechanism, noise_multiplier: float, clients: int
) -> Price:
    """Of one evaluation: every client takes part, and is named in the line."""
    if method.unit == "example":
        found = price_local_steps(
            mechanism=mechanism,
            noise_multiplier=noise_multiplier,
            rate=1.0,
            steps=1,
            server_holds_data=method.pooled,
        )
    else:
        found = price_upload(
            placement=privacy.noise,
            uses="sum",
            mechanism=mechanism,
            noise_multiplier=noise_multiplier,
            sampler=Everyone(clients=clients, rounds=1, expected_cohort=clients),
            colluders=privacy.colluders,
        )
    own = "each client noises the count of its right answers itself"
    charges = tuple(
        dataclasses.replace(
            charge,
            whom="participants",
            because="evaluation on held-out rows: "
            + (own if method.unit == "example" and not unbounded(charge.event) else charge.because),
        )
        for charge in found.charges
    )
    return dataclasses.replace(found, charges=charges)


def _refuse_what_cannot_be_charged(experiment: Experiment, method: Method) -> None:
    if method.personalised:
        raise SordinoError(
            f"Charged evaluation releases the accuracy of one model for all, but method {experiment.method['name']!r} gives clients "
            'models of their own; name a public test source, or set [data] test = "public-split".'
        )
    if experiment.privacy.client_epsilon is not None and experiment.privacy.noise_multiplier is not None:
        raise SordinoError(
            "With client_epsilon and noise_multiplier clients train until their budgets are spent, which leaves nothing for charged "
            "evaluation; leave out [privacy] noise_multiplier, or name public test rows in [data] test."
        )
    if experiment.data.client_test_rows:
        raise SordinoError(
            "[data] client_test_rows draws from public test rows, but there are none where evaluation is charged; leave it out, or "
            "name public test rows in [data] test."
        )


def _check_budgets(resolved: Resolved, rows: Charged, before: Mapping[DpEvent, int]) -> None:
    already = spent(before, delta=0.0, neighbours=resolved.privacy.neighbours).epsilon
    for whose, epsilon in resolved.budgets.items():
        if epsilon <= rows.epsilon + already:
            besides = f" besides ε = {already:g} of the statistics before training" if already else ""
            raise SordinoError(
                f"Evaluation costs ε = {rows.epsilon:g}{besides}, but {whose} is {epsilon:g} and must leave some for training; "
                "raise it or lower epsilon in [data] test."
            )
