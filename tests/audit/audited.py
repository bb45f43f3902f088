"""Audits of the real parts, each a function that returns what it proved and what was claimed.

An audit alarms when it proves more than was claimed. All of them are run on the right parts, so each has a confidence of
1 - 0.05 / len(AUDITS): the chance that any of them alarms falsely, over all seeds, is at most 5 %. Seeds are fixed, so the
outcome of a test never changes by itself.
"""

import dataclasses

import numpy as np
import torch
from torch import nn

from sordino.audit.canaries import OVERSHOOT, Sighting, client_canaries, example_canaries
from sordino.audit.gaussian_dp import audit_gaussian_dp, epsilon_lower_bound_by_repeats, mu_lower_bound
from sordino.audit.sampling import audit_sampling
from sordino.audit.self_test.benches import proven_of_statistic
from sordino.audit.watched import watched_federation
from sordino.core import Private
from sordino.data.examples import IDENTITY, Examples
from sordino.engine.client.noisy_steps import StepBatch
from sordino.engine.moved_clips import MovedClips
from sordino.engine.resolved import resolve
from sordino.engine.simulate.workers import Place
from sordino.experiment import experiment
from sordino.gradients import ClippedGradients
from sordino.methods.method import Broadcast
from sordino.models import Net, build
from sordino.privacy.clipping import Clip, bound_update
from sordino.privacy.door import Door
from sordino.privacy.event_kinds import NonPrivateDpEvent
from sordino.privacy.events import canonical
from sordino.privacy.ledger import Ledger, Line
from sordino.privacy.mechanisms import MECHANISMS
from sordino.privacy.noise import SeededNoise
from sordino.privacy.pricing import Charge
from sordino.privacy.samplers import Everyone

CLIP = 0.5
CANARIES = 600
REPEATS = 1000
STEPS = {"name": "dp-sgd", "batch_size": 150, "local_steps": 2, "learning_rate": 1e-3}


def run_of(*, clients=CANARIES, rounds=1, method=None, **privacy):
    shared = {"noise_multiplier": 2.0, "delta": 1e-6, "clip_norm": CLIP, "sampler": "everyone"}
    return experiment(
        {
            "seed": 11,
            "rounds": rounds,
            "data": {"source": "digits", "clients": clients},
            "model": {"name": "logistic"},
            "method": method or {"name": "dp-fedavg"},
            "privacy": {**shared, **privacy},
        }
    )


def guessed(sighting, confidence, called_in=150, called_out=150):
    audit = sighting.audit(called_in=called_in, called_out=called_out, confidence=confidence)
    return audit.epsilon_lower, audit.claimed_epsilon


def clients_in_one_run(view, **privacy):
    """Two rounds in which every client is a canary. Proved and claimed: ε."""
    return lambda confidence: guessed(client_canaries(run_of(rounds=2, **privacy), view=view), confidence)


def sampled_clients_in_one_run(confidence):
    table = run_of(rounds=2, sampler="poisson", expected_cohort=0.3 * CANARIES)
    return guessed(client_canaries(table), confidence, called_in=120, called_out=0)


def examples_in_one_run(confidence):
    """Two clients with canary rows, two noisy steps each on half of them. Proved and claimed: ε."""
    seen = example_canaries(run_of(clients=2, method=STEPS), canaries=CANARIES)
    return guessed(seen, confidence, called_in=150, called_out=0)


def clients_as_repeats(view, noise, per_view_multiplier=0.5, shares=1):
    """The canaries of one round taken as repeats: their coordinates have independent noise. Proved and claimed: μ."""

    def audit(confidence):
        table = run_of(noise=noise, noise_multiplier=per_view_multiplier * shares**0.5)
        return told_apart(client_canaries(table, view=view), per_view_multiplier, confidence)

    return audit


def examples_as_repeats(confidence):
    """One noisy step on all rows of two clients. Proved and claimed: μ."""
    method = {**STEPS, "batch_size": CANARIES, "local_steps": 1}
    table = run_of(clients=2, method=method, noise_multiplier=0.5)
    return told_apart(example_canaries(table, canaries=CANARIES), 0.5, confidence)


def told_apart(sighting, noise_multiplier, confidence):
    absent, present = sighting.scores[~sighting.included], sighting.scores[sighting.included]
    result = audit_gaussian_dp(absent, present, noise_multiplier=noise_multiplier, confidence=confidence)
    return result.mu_lower, result.claimed_mu


def at_the_door(mechanism, contributions, weights, seed, repeats=REPEATS):
    """A weighted sum of several releases, repeated, without and with a unit that asks for too much."""
    norm = MECHANISMS[mechanism]().norm
    door = Door(Ledger(clients=1, delta=1e-6, neighbours="zero-out"), SeededNoise(seed))
    free = Charge(view="public", whom="pool", event=NonPrivateDpEvent(), because="priced by the test")
    line = Line(
        round=0,
        label="update",
        unit="client",
        owner="server",
        mechanism=mechanism,
        norm=norm,
        clip_bound=CLIP,
        noise_multiplier=1.0,
        releases=1,
        charges=(free,),
    )

    def release(asked):
        update = Private(torch.full((1,), asked))
        return door.open(line).release(bound_update(update, Clip(bound=CLIP, norm=norm), like=torch.zeros(1))).value

    def sample(here):
        return sum(
            weight * release(here * contribution * OVERSHOOT * CLIP)
            for contribution, weight in zip(contributions, weights, strict=True)
        ).item()

    return [sample(0.0) for _ in range(repeats)], [sample(1.0) for _ in range(repeats)]


def gaussian_release(confidence):
    result = audit_gaussian_dp(*at_the_door("gaussian", [1], [1], 1), noise_multiplier=1.0, confidence=confidence)
    return result.mu_lower, result.claimed_mu


def two_gaussian_releases(confidence):
    """A unit that turns its sign, and an onlooker who subtracts: noise used twice is gone. Claimed μ = √2 / z."""
    samples = at_the_door("gaussian", [1, -1], [1, -1], 2, REPEATS // 2)
    result = audit_gaussian_dp(*samples, noise_multiplier=1.0, releases=2, confidence=confidence)
    return result.mu_lower, result.claimed_mu


def laplace_release(confidence):
    return epsilon_lower_bound_by_repeats(*at_the_door("laplace", [1], [1], 3), delta=0.0, confidence=confidence), 1.0


def statistic_release(confidence):
    """The squared mean of clipped gradients of fifty rows that all pull the same way, with and without one of them."""
    return proven_of_statistic(REPEATS, confidence), 1.0


class Silent:
    def run(self, start, examples, context):
        return torch.zeros_like(start)


def nothing(count):
    one = Examples(inputs=torch.zeros(1, 1), labels=torch.zeros(1, dtype=torch.int64), normalisation=IDENTITY)
    return [Private(one)] * count


def missing_client(confidence):
    """Four seats, of which one is empty every other round. The squared length of a release of zeros must not tell."""
    rounds, clients, numbers = 800, 4, 256
    table = run_of(clients=clients, rounds=rounds, noise="distributed")
    lengths = []

    class Absent(Everyone):
        def draw(self, round_number, source):
            return self.pool(round_number)[round_number % 2 :]

    with watched_federation(
        table, resolve(table).method, nothing(clients), sizes=[1] * clients, features=1, watch=lambda *seen: None
    ) as federation:
        sampler = Absent(clients=clients, rounds=rounds, expected_cohort=clients)
        federation.tariff = dataclasses.replace(federation.tariff, sampler=sampler)
        for number in range(rounds):
            total = federation.collect_sum(number, Broadcast.of(torch.zeros(numbers)), Silent()).value
            lengths.append(total.square().sum().item())
    return mu_lower_bound(lengths[1::2], lengths[::2], confidence=confidence), 1 / 2.0


def drawn_cohorts(confidence, sampler="poisson", noise="central"):
    """Who was drawn in each round, against the event the round was charged with. Proved and claimed: a rate."""
    clients, rounds = 100, 60
    table = run_of(clients=clients, rounds=rounds, noise=noise, sampler=sampler, expected_cohort=10)
    with watched_federation(
        table, resolve(table).method, nothing(clients), sizes=[1] * clients, features=1, watch=lambda *seen: None
    ) as federation:
        for number in range(rounds):
            federation.collect_sum(number, Broadcast.of(torch.zeros(1)), Silent())
        lines = federation.door.ledger.lines
    draws = [np.array(line.participants, dtype=np.int64) for line in lines]
    charge = next(charge for charge in lines[0].charges if charge.view == "public")
    result = audit_sampling(draws, units=clients, claimed=charge.event, confidence=confidence)
    return result.rate_lower, result.claimed_rate


def drawn_batches(confidence):
    """With next to no noise, the rows of each batch show in the released gradients. Proved and claimed: a rate."""
    count, rounds = 200, 60
    method = {"name": "dp-sgd", "batch_size": 20, "learning_rate": 1e-3}
    table = run_of(clients=1, rounds=rounds, method=method, noise_multiplier=1e-3)
    rows = Examples(
        inputs=OVERSHOOT * CLIP * torch.eye(count),
        labels=torch.ones(count, dtype=torch.int64),
        normalisation=IDENTITY,
    )
    draws = []

    def watch(grant, part, gradient):
        up, down = gradient.view(2, -1)
        draws.append(torch.nonzero(up - down > CLIP / 2).flatten().numpy())

    with watched_federation(
        table, resolve(table).method, [Private(rows)], sizes=[count], features=count, watch=watch
    ) as federation:
        state = {"model": torch.zeros(2 * count)}
        for number in range(rounds):
            state = resolve(table).method.round(number, state, federation)
        charge = federation.door.ledger.lines[0].charges[0]
    result = audit_sampling(draws, units=count, claimed=charge.event, confidence=confidence)
    return result.rate_lower, result.claimed_rate


class StepsAtTheDoor:
    """Real steps of a mechanism in one place, on any rows, with an onlooker who sees everything that is released."""

    def __init__(self, mechanism, *, noise_multiplier, features, rounds=1, anchors=None):
        method = {"name": "dp-sgd", "where": "one-place", "batch_size": 1}
        table = run_of(clients=1, rounds=rounds, method=method, mechanism=mechanism, noise_multiplier=noise_multiplier)
        self.job, self.net, self.seen = (
            resolve(table).method,
            build("logistic", shape=(features,), classes=2, bias=False),
            [],
        )
        torch.nn.init.zeros_(self.net.head.weight)
        self.gradients = ClippedGradients(self.net)
        with watched_federation(
            table,
            self.job,
            nothing(1),
            sizes=[1],
            features=features,
            watch=lambda grant, part, value: self.seen.append(value.double()),
            anchors=anchors,
        ) as self.federation:
            self.tariff = self.federation.tariff

    def release(self, rows, number=0):
        """What the step of one round lets out, and how it was made."""
        self.seen.clear()
        self.federation.clips = MovedClips()
        federation, mechanism = self.federation, self.tariff.mechanism
        call = federation._call(number, Broadcast.of(torch.zeros(0)), self.job)
        request, runtime = federation._steps_request(call, 0), federation.transport.runtime(0)
        batch = StepBatch(
            rows=Private(rows),
            units=len(rows),
            expected_units=1.0,
            gradients=self.gradients,
            context=federation.transport.workers.context(self.net, Place(client=0, round=number, size=1)),
            step=0,
            anchors=runtime.anchors,
        )
        mechanism.release_step(batch, clip=request.clip, permit=runtime.door.permit(request.grant, mechanism))
        return list(self.seen), batch

    def claimed_mu(self):
        ((event, _),) = canonical(self.tariff.bill(0, "public").items())
        return 1 / event.noise_multiplier


def rows_of(inputs):
    return Examples(inputs=inputs, labels=torch.ones(len(inputs), dtype=torch.int64), normalisation=IDENTITY)


def one_row_in_or_out(mechanism, *, noise_multiplier, rounds=1, repeats=REPEATS // 4):
    """A row whose gradient is just within the clip, released again and again without and with it. Proved and claimed: μ.

    The onlooker adds up all that was released, each number with its signal over its variance.
    """

    def audit(confidence):
        door = StepsAtTheDoor(mechanism, noise_multiplier=noise_multiplier, features=1, rounds=rounds)
        row = rows_of(torch.tensor([[2**0.5 * CLIP * (1 - 1e-4)]]))
        signals = [torch.tensor([CLIP, -CLIP]).double() / 2**0.5, torch.ones(1).double()]

        def score(rows):
            total = 0.0
            for number in range(rounds):
                price = door.tariff.price(0, number)
                spreads = [price.noise_multiplier * CLIP, *(part.noise_multiplier for part in price.others)]
                for value, signal, spread in zip(door.release(rows, number)[0], signals, spreads, strict=False):
                    total += float(value @ signal) / spread**2
            return total

        absent, present = ([score(rows) for _ in range(repeats)] for rows in (row.take(torch.arange(0)), row))
        return mu_lower_bound(absent, present, confidence=confidence), door.claimed_mu()

    return audit


def rows_half_in_a_public_subspace(confidence, pairs=250, repeats=20, noise_multiplier=0.8):
    """Row j has a public feature and one of its own, so both its embedding and its residual reach their bounds. μ.

    Rows share no coordinate, and the noise of different coordinates is independent: each row is an audit of its own.
    """
    mechanism = {"name": "gep", "public": {"source": "crafted"}, "anchors": pairs, "basis": pairs}
    public, own = torch.eye(2 * pairs)[:pairs], torch.eye(2 * pairs)[pairs:]
    anchors = rows_of(public)
    door = StepsAtTheDoor(mechanism, noise_multiplier=noise_multiplier, features=2 * pairs, anchors=anchors)
    crafted = rows_of(OVERSHOOT * (public + own))
    bounds = [CLIP, door.tariff.price(0, 0).others[0].clip_bound]
    included = np.random.default_rng(5).random((repeats, pairs)) < 0.5
    scores = np.zeros((repeats, pairs))
    for repeat in range(repeats):
        chosen = crafted.take(torch.from_numpy(np.flatnonzero(included[repeat])))
        (embedding, residual), batch = door.release(chosen)
        inside = door.tariff.mechanism._subspace(batch).lift(embedding.float()).double()
        ups, downs = zip(*(value.view(2, -1) for value in (inside, residual)), strict=True)
        seen = [(up - down) / 2**0.5 / bound for up, down, bound in zip(ups, downs, bounds, strict=True)]
        scores[repeat] = seen[0][:pairs] + seen[1][pairs:]
    return mu_lower_bound(scores[~included], scores[included], confidence=confidence), door.claimed_mu()


class TwoMaps(nn.Module):
    """Two linear maps side by side, so that every row asks for as much in the one as in the other."""

    def __init__(self, features):
        super().__init__()
        self.first = nn.Linear(features, 2, bias=False)
        self.second = nn.Linear(features, 2, bias=False)

    def forward(self, rows):
        return self.first(rows) + self.second(rows)


def groups_clipped_apart(confidence):
    """One noisy step of a model whose two halves are clipped apart. Proved, and claimed by the ledger's event: μ."""
    count = 4000
    method = {"name": "dp-sgd", "batch_size": count, "learning_rate": 1e-3}
    table = run_of(clients=1, method=method, noise_multiplier=0.7)
    included = np.random.default_rng(5).random(count) < 0.5
    rows = Examples(
        inputs=torch.diag(torch.from_numpy(included) * (OVERSHOOT * CLIP)).float(),
        labels=torch.ones(count, dtype=torch.int64),
        normalisation=IDENTITY,
    )
    scores = []

    def watch(grant, part, gradient):
        first_up, first_down, second_up, second_down = gradient.double().view(4, -1)
        scores.append((first_up - first_down + second_up - second_down).numpy())

    net = Net(body=TwoMaps(count), head=nn.Identity())
    groups = {"first": ("body.first.weight",), "second": ("body.second.weight",)}
    with watched_federation(
        table, resolve(table).method, [Private(rows)], sizes=[count], features=count, watch=watch, net=net
    ) as federation:
        federation.tariff = dataclasses.replace(federation.tariff, clip=Clip(bound=CLIP, norm="l2", groups=groups))
        resolve(table).method.round(0, {"model": torch.zeros(4 * count)}, federation)
        event = federation.door.ledger.lines[0].charges[0].event
    seen = Sighting(included=included, scores=scores[0], claimed_epsilon=0.0, delta=0.0)
    return told_apart(seen, event.noise_multiplier, confidence)


AUDITS = {
    "one release, gaussian": gaussian_release,
    "two releases, gaussian": two_gaussian_releases,
    "one release, laplace": laplace_release,
    "one statistic, laplace": statistic_release,
    "one run, central, public": clients_in_one_run("public"),
    "one run, central poisson, public": sampled_clients_in_one_run,
    "one run, distributed, public": clients_in_one_run("public", noise="distributed"),
    "one run, distributed, server": clients_in_one_run(
        "server", noise="distributed", noise_multiplier=2 * CANARIES**0.5
    ),
    "one run, local, public": clients_in_one_run("public", noise="local", noise_multiplier=2 / CANARIES**0.5),
    "one run, local, server": clients_in_one_run("server", noise="local"),
    "one run, laplace, public": clients_in_one_run("public", mechanism="laplace"),
    "one run, laplace local, server": clients_in_one_run("server", mechanism="laplace", noise="local"),
    "one run, steps in clients": examples_in_one_run,
    "repeats, central, public": clients_as_repeats("public", "central"),
    "repeats, distributed, public": clients_as_repeats("public", "distributed"),
    "repeats, distributed, server": clients_as_repeats("server", "distributed", shares=CANARIES),
    "repeats, local, server": clients_as_repeats("server", "local"),
    "repeats, steps in clients": examples_as_repeats,
    "groups clipped apart": groups_clipped_apart,
    "missing client": missing_client,
    "drawn cohorts": drawn_cohorts,
    "drawn cohorts, distributed": lambda confidence: drawn_cohorts(confidence, noise="distributed"),
    "drawn cohorts, fixed size": lambda confidence: drawn_cohorts(confidence, sampler="fixed-size"),
    "drawn batches": drawn_batches,
    "steps, adaptive clip": one_row_in_or_out({"name": "adaptive-clip", "count_noise": 0.5}, noise_multiplier=2.0),
    "steps, noise schedule": one_row_in_or_out(
        {"name": "noise-schedule", "decay": 1.5}, noise_multiplier=1.5, rounds=2
    ),
    "steps, gep": rows_half_in_a_public_subspace,
}

FAMILY_ERROR = 0.05
CONFIDENCE = 1 - FAMILY_ERROR / len(AUDITS)


def proved_and_claimed(name):
    return AUDITS[name](CONFIDENCE)
