"""A client against servers that forge, replay and change their minds: nothing is released, and the ledger adds up."""

import dataclasses
import math
import sys

import pytest

from sordino.core import SordinoError
from sordino.engine.client.guard import OwnGuard
from sordino.engine.client.lifetime import Agreement, LifetimeLedger
from sordino.engine.client.limits import Limits
from sordino.engine.client.session import Own, Session
from sordino.engine.federation import FederationServer
from sordino.engine.hello import Beginning
from sordino.engine.messages import Missing
from sordino.engine.resolved import resolve
from sordino.engine.setup import prepare
from sordino.experiment import experiment
from sordino.methods.method import Broadcast
from sordino.privacy.accounting import spent
from sordino.privacy.door import Door
from sordino.privacy.event_kinds import GaussianDpEvent, NonPrivateDpEvent, PoissonSampledDpEvent
from sordino.privacy.ledger import Ledger
from sordino.privacy.noise import SeededNoise

ROUNDS = 3


class Overheard:
    """A transport that delivers nothing and keeps what it was to carry."""

    def __init__(self):
        self.requests = []

    def exchange(self, requests):
        self.requests += requests
        return [Missing(client=request.client, because="overheard") for request in requests]


class Scene:
    """The plan of a run, its server's requests, and the guard of client 0 with its ledger on disk."""

    def __init__(self, table, folder, limits=None, server=None):
        self.setup = prepare(resolve(experiment(table)), folder=folder, progress=lambda done, total: None)
        self.path, self.limits = folder / "ledger.jsonl", limits or Limits()
        self.server = Ledger(clients=3, delta=1e-3, neighbours="zero-out", path=server)

    def guard(self, **changes):
        facts = {"client": 0, "limits": self.limits, "ledger": LifetimeLedger(self.path), "run": self.server.run}
        plan = {"repeatable": False, "experiment": self.setup.experiment, "tariff": self.setup.tariff}
        guard = OwnGuard(**{**facts, **plan, **changes})
        guard.agree()
        return guard

    def request(self, number=0):
        heard, setup = Overheard(), self.setup
        federation = FederationServer(
            roster=setup.federated.roster,
            space=setup.space,
            tariff=setup.tariff,
            door=Door(self.server, SeededNoise(1)),
            transport=heard,
        )
        with pytest.raises(SordinoError, match="None of the"):
            federation.collect_sum(number, Broadcast.of(setup.space.read(setup.net)), setup.method.job)
        return heard.requests[0]


@pytest.fixture
def scene(tiny, tmp_path):
    def made(limits=None, **privacy):
        told = {"sampler": "everyone", "expected_cohort": None, "noise": "local", "noise_source": "secure", **privacy}
        table = tiny(
            rounds=ROUNDS,
            data={"clients": 3, "partition": {"name": "iid"}, "options": {"limit": 120}, "test": "public-split"},
            privacy=told,
        )
        return Scene(table, tmp_path, limits)

    return made


def forged(**changes):
    def change(request):
        grant = dataclasses.replace(request.grant, **changes)
        return dataclasses.replace(request, grants={"update": grant})

    return change


def cheaper(request):
    charges = tuple(
        dataclasses.replace(one, event=PoissonSampledDpEvent(0.01, one.event)) for one in request.grant.charges
    )
    return forged(charges=charges)(request)


def less_noise(request):
    (part,) = request.grant.parts
    return forged(parts=(dataclasses.replace(part, noise_multiplier=0.5),))(request)


def more_parts(request):
    (part,) = request.grant.parts
    return forged(parts=(part, dataclasses.replace(part, name="count")))(request)


FORGERIES = {
    "a cheaper price": (cheaper, "but the request has a grant that says"),
    "no price": (forged(charges=()), "but the request has a grant that says"),
    "less noise": (less_noise, "noise multiplier of 1 in round 0, but the request has 0.5"),
    "another name": (forged(label="statistic"), "release called update, but the request has statistic"),
    "another norm": (forged(norm="l1"), "in the norm l2, but the request has l1"),
    "more releases": (forged(releases=9), "releases for each grant: 1, but the request has 9"),
    "more values": (more_parts, r"releases of \['update'\]"),
    "a moving clip": (forged(moving_clip=True), "a clip that moves: False"),
    "another round": (forged(round=1), "round 0 with a grant of round 1"),
    "a bare value": (lambda one: dataclasses.replace(one, server_noises=True), "noise added by the server: False"),
    "other work": (lambda one: dataclasses.replace(one, kind="steps"), "has uploads, but the request has 'steps'"),
    "a score": (lambda one: dataclasses.replace(one, kind="score"), "releases no accuracy"),
    "another's": (forged(client=1), "but got one of client 1"),
    "another run's": (forged(run="elsewhere"), "in run elsewher"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_request_releases_and_costs_nothing(forgery, scene):
    made = scene()
    guard, (forge, sentence) = made.guard(), FORGERIES[forgery]
    before = made.path.read_bytes()
    with pytest.raises(SordinoError, match=sentence):
        guard.admit(forge(made.request()))
    assert made.path.read_bytes() == before


def test_a_request_past_the_last_round_is_refused(scene):
    made = scene()
    with pytest.raises(SordinoError, match="has 3 rounds, but the request has round 3"):
        made.guard().admit(made.request(ROUNDS))


def test_a_replayed_request_is_refused_also_by_another_process(scene):
    made = scene()
    request = made.request()
    made.guard().admit(request)
    with pytest.raises(SordinoError, match="spent before"):
        made.guard().admit(request)


def test_a_plan_that_changes_under_its_name_is_refused(scene):
    """Else a server could have a small plan agreed to, and run a large one for free."""
    made = scene()
    made.guard()
    larger = made.setup.experiment.model_copy(update={"rounds": 30})
    setup = prepare(resolve(larger), folder=made.path.parent, progress=lambda done, total: None)
    with pytest.raises(SordinoError, match="a plan that changed is another run"):
        made.guard(experiment=larger, tariff=setup.tariff)


def test_code_that_the_operator_did_not_allow_is_not_even_imported(tiny, tmp_path, monkeypatch):
    (tmp_path / "strange_part.py").write_text("from sordino.methods.dp_fedavg import DpFedAvg as Mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    facts = {"client": 0, "run": "r", "multipliers": {}, "sizes": [], "held_out": [], "shape": (), "classes": 2}
    begin = Beginning(
        **facts, vocabulary=0, parameters={}, left_to_torch={}, experiment=tiny(method={"name": "strange_part:Mine"})
    )
    own = Own(folder=tmp_path, ledger=tmp_path / "ledger.jsonl", limits=Limits())
    with pytest.raises(SordinoError, match=r"allow none of the parts.*strange_part:Mine"):
        Session(begin, own, rows=None)
    assert "strange_part" not in sys.modules


def test_rounds_after_a_restart_are_in_the_plan_and_repeated_ones_are_not(scene):
    """A run of three rounds is taken up again after the second: the second is charged twice, the third once."""
    made = scene()
    guard = made.guard()
    planned = guard.ledger.total("server").total()
    guard.admit(made.request(0))
    guard.admit(made.request(1))
    made.server._attempt = 1
    for number in (1, 2):
        guard.admit(made.request(number))
    assert guard.ledger.total("server").total() == planned + 1
    assert LifetimeLedger(made.path).total("server") == guard.ledger.total("server")


def test_pools_pay_for_repeated_rounds_in_which_this_client_was_not_drawn(scene):
    """With secret cohorts the price is the pool's: one repeat is planned for, the second one is charged besides."""
    made = scene(sampler="poisson", expected_cohort=2, noise="distributed", spare_rounds=1)
    guard = made.guard()
    planned = guard.ledger.total("public").total()
    assert planned == ROUNDS + 1
    made.server._attempt = 1
    last = made.request(2)
    guard.admit(dataclasses.replace(last, client=0, grants={"update": last.grant.share(0)}))
    assert guard.ledger.total("public").total() == planned
    made.server._attempt = 3
    last = made.request(2)
    guard.admit(dataclasses.replace(last, client=0, grants={"update": last.grant.share(0)}))
    assert guard.ledger.total("public").total() == planned + 2


def agreement(run, **changes):
    facts = {"about": run, "plan": "p", "client": 0, "unit": "client", "neighbours": "zero-out", "delta": 1e-5}
    return Agreement(run=run, **{**facts, **changes})


def bills(multiplier):
    return {view: {GaussianDpEvent(multiplier): 10} for view in ("public", "server", "client")}


def test_a_life_is_priced_by_composition_and_not_by_adding_up(tmp_path):
    """Ten runs of ten releases each: one composition of a hundred, far below ten times the ε of one."""
    ledger = LifetimeLedger(tmp_path / "ledger.jsonl")
    for run in range(10):
        ledger.agree(agreement(f"run {run}", server=f"server {run % 2}"), bills(20.0))
    one = spent({GaussianDpEvent(20.0): 10}, delta=1e-5, neighbours="zero-out").epsilon
    whole = spent({GaussianDpEvent(20.0): 100}, delta=1e-5, neighbours="zero-out").epsilon
    assert LifetimeLedger(ledger.path).epsilon("public") == pytest.approx(whole)
    assert whole < 4 * one


def test_runs_of_different_promises_are_priced_at_the_strictest(tmp_path):
    ledger = LifetimeLedger(tmp_path / "ledger.jsonl")
    ledger.agree(agreement("first"), bills(20.0))
    ledger.agree(agreement("second", delta=1e-7, neighbours="replace-one"), bills(20.0))
    strict = spent({GaussianDpEvent(20.0): 20}, delta=1e-7, neighbours="replace-one").epsilon
    assert ledger.epsilon("public") == pytest.approx(strict)
    at = spent({GaussianDpEvent(20.0): 20}, delta=1e-3, neighbours="replace-one").epsilon
    assert at < strict
    assert ledger.epsilon("public", delta=1e-3) == pytest.approx(at)


def test_a_limit_over_a_life_counts_runs_of_other_servers(scene):
    made = scene(limits=Limits(lifetime_epsilon={"server": 20.0}))
    made.guard(run="a", server="one consortium")
    refused = 0
    for number in range(9):
        try:
            made.guard(run=f"b{number}", server="another consortium")
        except SordinoError as error:
            assert "over all runs in the server view" in str(error)
            refused += 1
    ledger = LifetimeLedger(made.path)
    assert 0 < refused < 9
    assert ledger.epsilon("server") <= 20.0
    assert {one.server for one in ledger.agreements.values()} == {"one consortium", "another consortium"}


def test_an_infinite_price_stays_infinite(tmp_path):
    ledger = LifetimeLedger(tmp_path / "ledger.jsonl")
    ledger.agree(agreement("bare"), {**bills(1.0), "server": {NonPrivateDpEvent(): 1}})
    ledger.agree(agreement("good"), bills(50.0))
    assert ledger.epsilon("server") == math.inf
    assert ledger.epsilon("public") < math.inf
