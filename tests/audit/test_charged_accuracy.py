"""Charged evaluation from clients' rows to the released accuracy: its noise, what it proves, and the twins it would catch.

The audits hold what repeated evaluations prove against what the ledger booked for one of them: ε where the noise is
Laplace's, μ where it is Gaussian. Each has a confidence of 1 - 0.05 / len(KINDS), so the chance that any of them alarms
falsely, over all seeds, is at most 5 %.
"""

import dataclasses

import numpy as np
import pytest
import torch
from audited import run_of
from scipy.optimize import brentq
from scipy.stats import kstest
from torch import nn

from sordino.audit.gaussian_dp import epsilon_lower_bound_by_repeats, mu_lower_bound
from sordino.audit.watched import WatchedClientDoor, WatchedDoor
from sordino.core import Private
from sordino.data.examples import IDENTITY, Examples
from sordino.engine import scoring
from sordino.engine.charged_evaluation import EMPTY_SLOT, ChargedEvaluation
from sordino.engine.client import runtime as runtime_module
from sordino.engine.client.runtime import ClientRuntime
from sordino.engine.federation import FederationServer
from sordino.engine.pricing import make_tariff
from sordino.engine.resolved import resolve
from sordino.engine.roster import Roster
from sordino.engine.simulate.transport import LocalTransport
from sordino.engine.simulate.workers import Workers
from sordino.models import FlatSpace, Net
from sordino.privacy.clipping import StatisticBound
from sordino.privacy.gaussian import gaussian_epsilon
from sordino.privacy.ledger import Ledger
from sordino.privacy.noise import SeededNoise
from sordino.privacy.streams import stream_id

CLIENTS, SLOTS = 2, 5
REPEATS = 1000
EPSILON, GAUSSIAN_EPSILON, DELTA = 1.0, 4.0, 1e-3
GAUSSIAN_MU = brentq(lambda mu: gaussian_epsilon(mu, DELTA) - GAUSSIAN_EPSILON, 0.1, 10)
STEPS = {"name": "dp-sgd", "batch_size": 1}
KINDS = {
    "example level": ("server", {"method": STEPS}),
    "example level, replaced": ("server", {"method": STEPS, "neighbours": "replace-one"}),
    "central": ("public", {"noise": "central"}),
    "central, replaced": ("public", {"noise": "central", "neighbours": "replace-one"}),
    "local": ("server", {"noise": "local"}),
    "distributed, seen by all": ("public", {"noise": "distributed"}),
    "distributed, seen by the server": ("server", {"noise": "distributed", "view": "server"}),
}
CONFIDENCE = 1 - 0.05 / len(KINDS)


class Always(nn.Module):
    """Answers "class 1" to whatever comes."""

    def forward(self, rows):
        return torch.stack([torch.zeros(len(rows)), torch.ones(len(rows))], dim=1)


def rows(labels):
    return Examples(
        inputs=torch.zeros(len(labels), 1), labels=torch.tensor(labels, dtype=torch.int64), normalisation=IDENTITY
    )


class Watched:
    """Real evaluations of one crafted federation, with an onlooker at the door."""

    def __init__(self, settings, seed=5):
        table = run_of(clients=CLIENTS, delta=DELTA, **settings)
        self.gaussian = settings.get("noise") == "distributed"
        epsilon = GAUSSIAN_EPSILON if self.gaussian else EPSILON
        data = table.data.model_copy(update={"test": {"name": "charged", "epsilon": epsilon}})
        self.table = table.model_copy(update={"data": data})
        self.tariff = make_tariff(resolve(self.table), clients=CLIENTS, sizes=[SLOTS] * CLIENTS)
        self.evaluation = self.tariff.evaluation
        self.seed, self.seen = seed, []
        self.door = self.new_door(seed)

    def new_door(self, seed):
        privacy = self.table.privacy
        ledger = Ledger(clients=CLIENTS, delta=privacy.delta, neighbours=privacy.neighbours)
        return WatchedDoor(ledger, SeededNoise(seed), self._watch)

    def _watch(self, grant, part, value):
        self.seen.append((grant.client or 0, float(value)))

    def accuracies(self, own, count, door=None, others=(1,) * SLOTS):
        """Of a federation whose first client holds these rows, and whose others answer right throughout."""
        held = [rows(own), *(rows(others) for _ in range(CLIENTS - 1))]
        net, door = Net(body=nn.Identity(), head=Always()), door or self.door
        workers = Workers(net, FlatSpace(net), seed=0, device=torch.device("cpu"), workers=1)
        roster = Roster(sizes=[SLOTS] * CLIENTS, held_out=[SLOTS] * CLIENTS)
        noise = [SeededNoise(stream_id(self.seed, client)) for client in range(CLIENTS)]

        def runtime(client):
            return ClientRuntime(
                client=client,
                rows=lambda: Private(held[client]),
                held_out=lambda: Private(held[client]),
                tariff=self.tariff,
                door=WatchedClientDoor(noise[client], self._watch),
            )

        federation = FederationServer(
            roster=roster,
            space=FlatSpace(net),
            tariff=self.tariff,
            door=door,
            transport=LocalTransport(runtime=runtime, roster=roster, workers=workers),
        )
        try:
            totals = [scoring._noisy_total(self.evaluation, federation, torch.zeros(0), 0) for _ in range(count)]
        finally:
            workers.close()
        return [self.evaluation.accuracy(total, roster.held_out) for total in totals]

    def uploads(self, own, count):
        """What clients that hold these rows sent, to the eyes of the server: all do, and each draws noise of its own."""
        self.seen.clear()
        self.accuracies(own, count // CLIENTS, others=own)
        assert len(self.seen) == count
        return [value for _, value in self.seen]

    def booked(self, view):
        """What the ledger says that one evaluation costs the first client: ε, or μ where the noise is Gaussian."""
        door = self.new_door(self.seed)
        self.accuracies([1] * SLOTS, 1, door)
        events = [charge.event for line in door.ledger.lines for charge in line.charges if charge.view == view]
        if not self.gaussian or not events:
            return door.ledger.report()[view].per_client.get(0, 0.0)
        return 1 / events[0].noise_multiplier


def neighbours_of(settings):
    """The first client's rows, and those of its worst neighbour: one unit contributes nothing, or is replaced."""
    whole, example = [1] * SLOTS, "method" in settings
    if settings.get("neighbours") == "replace-one":
        return whole, [*whole[1:], 0] if example else [0] * SLOTS
    return whole, whole[1:] if example else []


def proved_and_claimed(kind):
    view, settings = KINDS[kind]
    watched = Watched(settings)
    sample = watched.accuracies if view == "public" else watched.uploads
    present, absent = (sample(own, REPEATS) for own in neighbours_of(settings))
    if watched.gaussian:
        return mu_lower_bound(absent, present, confidence=CONFIDENCE), watched.booked(view)
    proved = epsilon_lower_bound_by_repeats(absent, present, delta=0.0, confidence=CONFIDENCE)
    return proved, watched.booked(view)


@pytest.mark.parametrize("kind", KINDS)
def test_what_repeated_evaluations_prove_lies_under_what_was_charged(kind):
    proved, claimed = proved_and_claimed(kind)
    assert 0.1 < proved <= claimed
    assert claimed == pytest.approx(GAUSSIAN_MU if kind.startswith("distributed") else EPSILON, rel=1e-2)


def noise_for_the_mean(patch):
    """As if the noise were for the mean over clients and not for their sum."""
    right = ChargedEvaluation._line

    def line(self, *given):
        return dataclasses.replace(right(self, *given), clip_bound=EMPTY_SLOT / CLIENTS)

    patch.setattr(ChargedEvaluation, "_line", line)
    patch.setattr(
        ChargedEvaluation, "bound", lambda self, slots: StatisticBound(largest=slots, moves=EMPTY_SLOT / CLIENTS)
    )
    right_clip = ChargedEvaluation.clip.fget
    patch.setattr(
        ChargedEvaluation,
        "clip",
        property(lambda self: dataclasses.replace(right_clip(self), bound=EMPTY_SLOT / CLIENTS)),
    )


def empty_slots_are_wrong(patch):
    """A row that is not there counts as a wrong answer, and then moves the sum by 1 where ½ was noised."""

    def contribution(*, right, filled, slots, unit):
        return right if unit == "example" else right / slots

    patch.setattr(runtime_module, "contribution", contribution)


def not_charged(patch):
    right = ChargedEvaluation._line
    patch.setattr(ChargedEvaluation, "_line", lambda self, *given: dataclasses.replace(right(self, *given), charges=()))


def replaced_as_zeroed(patch):
    """As if a unit that is replaced moved a sum no further than one that contributes nothing."""
    right = make_tariff

    def tariff(resolved, **more):
        privacy = resolved.privacy.model_copy(update={"neighbours": "zero-out"})
        zeroed = resolved.experiment.model_copy(update={"privacy": privacy})
        return right(dataclasses.replace(resolved, experiment=zeroed), **more)

    patch.setitem(globals(), "make_tariff", tariff)
    report = Ledger.report
    patch.setattr(Ledger, "report", lambda self: (setattr(self, "neighbours", "zero-out"), report(self))[1])


CAUGHT_BY = {
    noise_for_the_mean: ["example level", "central", "distributed, seen by all"],
    empty_slots_are_wrong: ["example level", "central"],
    not_charged: ["central"],
    replaced_as_zeroed: ["example level, replaced", "central, replaced"],
}


@pytest.mark.parametrize(
    ("twin", "kind"),
    [(twin, kind) for twin, kinds in CAUGHT_BY.items() for kind in kinds],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_broken_twin_is_caught(twin, kind, monkeypatch):
    twin(monkeypatch)
    proved, claimed = proved_and_claimed(kind)
    assert proved > claimed


@pytest.mark.parametrize("kind", ["example level", "central", "distributed, seen by all"])
def test_the_released_accuracy_has_the_noise_that_is_announced(kind):
    """Two-sided: over 3,000 evaluations a deviation 10 % too small or too large is rejected, and so is noise of another kind."""
    draws = 3000
    watched = Watched(KINDS[kind][1])
    accuracies = np.array(watched.accuracies([1, 1, 1, 0, 0], draws))
    noise = (accuracies - (3 + SLOTS * (CLIENTS - 1)) / (SLOTS * CLIENTS)) / watched.evaluation.deviation(
        SLOTS * CLIENTS
    )
    spread = 4 * (5 / 4 / draws) ** 0.5
    assert spread < 0.1
    assert float(noise.std()) == pytest.approx(1.0, abs=spread)
    assert float(noise.mean()) == pytest.approx(0.0, abs=4 / draws**0.5)
    line = watched.evaluation._line(0, "", (), 1)
    bare = {"example level": 3.0, "central": 0.6 + CLIENTS - 1}.get(kind, 0.6)
    uploads = np.array([value for client, value in watched.seen if client == 0])
    drawn = (uploads - bare) / (line.noise_multiplier * line.clip_bound)
    assert len(drawn) == draws
    assert kstest(drawn, "norm" if watched.gaussian else "laplace").pvalue > 1e-3
