"""The contract of a method, as checks that take an experiment's table: for our own methods and for a stranger's.

A check raises `Broken`, with a sentence, where a method does not keep the contract; where the engine itself refuses the
method it raises `SordinoError` first. Rounds are real ones, on rows of real size; only noise sources are seeded.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from contextlib import contextmanager
from pathlib import Path

import torch
from scipy.stats import binom

from sordino.core import unwrap
from sordino.engine.client.personal_store import PersonalStore
from sordino.engine.federation import SimulatedFederation
from sordino.engine.resolved import resolve
from sordino.engine.setup import prepare
from sordino.engine.simulate.schedule import stacked_job
from sordino.engine.simulate.workers import Workers
from sordino.experiment import experiment
from sordino.methods import METHODS
from sordino.methods.personal import Personalised
from sordino.privacy.door import Door, Permit
from sordino.privacy.ledger import Ledger
from sordino.privacy.noise import SeededNoise

ROUNDS = 2
VERBS = ("collect_sum", "collect_each", "collect_models", "collect_on_support")
TINY_CHANCE = 1e-6


class Broken(AssertionError):
    """A method does not keep the contract."""


def contract_table(method, **changes):
    """A small federation in which everybody takes part and every upload has noise of its own."""
    return {
        "seed": 5,
        "rounds": ROUNDS,
        "data": {"source": "digits", "clients": 4, "client_test_rows": 0, "options": {"limit": 90, "test_limit": 10}},
        "model": {"name": "mlp", "hidden": [6]},
        "method": method,
        "privacy": {"noise": "local", "noise_multiplier": 1.0, "clip_norm": 0.5, "sampler": "everyone"},
        "engine": {"workers": 1},
        **changes,
    }


@contextmanager
def registered(*kinds):
    """Methods from outside the package, by the names of their classes, for as long as they are looked at."""
    for kind in kinds:
        METHODS.register(kind.__name__)(kind)
    try:
        yield
    finally:
        for kind in kinds:
            del METHODS._members[kind.__name__]


class OrderedWorkers(Workers):
    """One worker that takes the clients of a round forwards or backwards; what it leaves behind meets the next client."""

    backwards = False

    def each(self, tasks, work):
        if not self.backwards:
            return super().each(tasks, work)
        return super().each(tasks[::-1], work)[::-1]


class SeeingPermit(Permit):
    """Keeps what each client gives the door, before the noise."""

    def release(self, value, part="update"):
        self._door.see(self._line, value, part)
        return super().release(value, part)

    def release_on_support(self, value, support):
        self._door.see(self._line, value, "update")
        return super().release_on_support(value, support)


class SeeingDoor(Door):
    def __init__(self, ledger, source):
        super().__init__(ledger, source)
        self.uploads, self.units = defaultdict(list), defaultdict(list)
        self._next = Counter()

    def open(self, line):
        self._next.clear()
        return SeeingPermit(line, self.ledger.charge(line), self)

    def see(self, line, value, part):
        """Lines of one client are its own throughout; in a line for several, each has its release in turn."""
        if line.owner == "server":
            raise AssertionError("a sum of all clients shows no single one; check with noise = 'local'")
        client = line.participants[self._next[part] if len(line.participants) > 1 else 0]
        self._next[part] += 1
        self.uploads[client].append((line.round, part, unwrap(value).clone()))
        self.units[client].append(value.units)


class Recorded:
    """One round of a real federation: keeps what is called and what comes out, or hands out what came out another time."""

    def __init__(self, inner, play):
        self._inner, self._play = inner, play

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        return found if name not in VERBS else lambda *given: self._play.collected(name, found(*given))


@dataclasses.dataclass
class Play:
    """A few rounds, and everything that a check may want to know of them."""

    setup: object
    federation: object
    door: SeeingDoor
    first: dict
    script: list | None = None
    verbs: list = dataclasses.field(default_factory=list)
    releases: list = dataclasses.field(default_factory=list)
    state: dict = dataclasses.field(default_factory=dict)

    def collected(self, verb, release):
        self.verbs.append(verb)
        self.releases.append(release if self.script is None else self.script[len(self.releases)])
        return self.releases[-1]

    def run(self):
        self.state = dict(self.first)
        for number in range(ROUNDS):
            view = Recorded(self.federation.for_round(number), self)
            self.state = self.setup.method.round(number, self.state, view)
        return self


def play(table, *, changed=None, backwards=False, script=None, schedule="workers"):
    """Real rounds; with a `script`, the server gets these releases and not those of the rounds, so its state is the same.

    `changed` names a client with other rows than it has.
    """
    setup = prepare(resolve(experiment(table)), folder=Path.cwd(), progress=lambda done, total: None)
    privacy, method = setup.experiment.privacy, setup.method
    workers = OrderedWorkers(setup.net, setup.space, seed=5, device=setup.device, workers=1)
    workers.backwards = backwards
    door = SeeingDoor(
        Ledger(clients=len(setup.federated.sizes), delta=privacy.delta, neighbours=privacy.neighbours), SeededNoise(5)
    )

    def rows(client):
        own = setup.federated.client(client)
        return own.map(other_rows) if client == changed else own

    keeps = isinstance(method, Personalised) and method.keeps_state
    federation = SimulatedFederation(
        sizes=setup.federated.sizes,
        expected_cohort=setup.tariff.sampler.expected_cohort,
        space=setup.space,
        data=rows,
        tariff=setup.tariff,
        door=door,
        workers=workers,
        schedule=schedule,
        anchors=setup.anchors,
        personal=PersonalStore(clients=len(setup.federated.sizes), first=method.first_personal(setup.net))
        if keeps
        else None,
    )
    try:
        first = {"model": setup.space.read(setup.net)}
        return Play(setup=setup, federation=federation, door=door, first=first, script=script).run()
    finally:
        workers.close()


def other_rows(own):
    """As many rows, and nothing else in common."""
    return dataclasses.replace(own, inputs=own.inputs.max() - own.inputs.flip(-1), labels=own.labels.flip(0))


def check_own_rows(table):
    """A client's bounded upload depends on its own rows and on what it was sent, and on nobody else's rows.

    The rows of the client that works first are changed. All others' uploads of the same rounds stay the same bit for bit,
    whichever end the work begins at, and none depends on who worked before.
    """
    last = table["data"]["clients"] - 1
    plain = play(table)
    for backwards, changed in ((False, 0), (True, last), (True, None)):
        other = play(table, changed=changed, backwards=backwards, script=plain.releases)
        _same_uploads(plain, other, but=changed)
    if stacked_job(plain.setup.method.job) is not None:
        stacked = play(table, schedule="stacked")
        _same_uploads(stacked, play(table, schedule="stacked", changed=0, script=stacked.releases), but=0)


def _same_uploads(one, other, *, but):
    for client, uploads in one.door.uploads.items():
        if client == but:
            continue
        for (number, part, mine), (_, _, theirs) in zip(uploads, other.door.uploads[client], strict=True):
            if not torch.equal(mine, theirs):
                what = "who worked before it" if but is None else f"the rows of client {but}"
                raise Broken(f"The {part} of client {client} in round {number} depends on {what}.")
    if but is not None:
        before, after = (play.door.uploads[but] for play in (one, other))
        if all(torch.equal(mine, theirs) for (_, _, mine), (_, _, theirs) in zip(before, after, strict=True)):
            raise Broken(f"Client {but} got other rows and uploads the same, so nothing was checked.")


def check_the_verb(table):
    """What the method calls is what it declares."""
    found = play(table)
    method = found.setup.method
    allowed = {"collect_models" if method.unit == "example" else f"collect_{method.uses}"}
    if getattr(method, "uncovered", ""):
        allowed.add("collect_on_support")
    if not set(found.verbs) <= allowed:
        raise Broken(f"The method declares {allowed} and calls {sorted(set(found.verbs))}.")
    if not found.verbs:
        raise Broken("The method asks its clients for nothing.")


class Replaying:
    """Hands out recorded releases again; there is no client behind it at all."""

    def __init__(self, federation, releases):
        self.expected_cohort, self.sizes = federation.expected_cohort, list(federation.sizes)
        self.space, self.clip_norm = federation.space, federation.clip_norm
        self._releases = list(releases)

    def _next(self, *given):
        return self._releases.pop(0)

    collect_sum = collect_each = collect_models = collect_on_support = _next

    def diagnose(self, *given):
        """Outside the server's state."""


def check_the_server(table):
    """The server's state depends on what was released, and on nothing that clients did besides."""
    found = play(table)
    replay, state = Replaying(found.federation, found.releases), dict(found.first)
    untouched = resolve(experiment(table)).method
    for number in range(ROUNDS):
        state = untouched.round(number, state, replay)
    if state.keys() != found.state.keys():
        raise Broken(f"From the same releases the server keeps {sorted(state)}, and not {sorted(found.state)}.")
    for key, value in state.items():
        if not torch.equal(value, found.state[key]):
            raise Broken(f"From the same releases the server comes to another {key}.")


def check_the_rate(table):
    """Batches of noisy steps are as large as the rate that was charged says; does nothing for client-level methods."""
    found = play(table)
    if found.setup.tariff.steps is None:
        return
    for client, units in found.door.units.items():
        rows = found.setup.federated.sizes[client]
        event = next(
            line for line in found.door.ledger.lines if line.participants == (client,)
        ).charges[0].event  # fmt: skip
        rate = _charged_rate(event)
        if rate == 1.0:
            drawn_as_charged = all(count == rows for count in units)
        else:
            drawn = binom(rows * len(units), rate)
            drawn_as_charged = drawn.ppf(TINY_CHANCE) <= sum(units) <= drawn.ppf(1 - TINY_CHANCE)
        if not drawn_as_charged:
            raise Broken(f"Client {client} was charged for batches at rate {rate:.3g} and drew {units} of {rows} rows.")


def _charged_rate(event):
    inner = getattr(event, "event", None)
    if hasattr(event, "sampling_probability"):
        return event.sampling_probability
    return 1.0 if inner is None else _charged_rate(inner)


def check_the_schedule(table):
    """Stacked clients upload what each computes by itself, to the tolerance of float32 sums in another order."""
    alone = play(table)
    together = play(table, schedule="stacked", script=alone.releases)
    for client, uploads in alone.door.uploads.items():
        for (number, part, mine), (_, _, theirs) in zip(uploads, together.door.uploads[client], strict=True):
            if not torch.allclose(mine, theirs, atol=2e-6, rtol=1e-4):
                raise Broken(f"The {part} of client {client} in round {number} is another where clients are stacked.")


CHECKS = (check_the_verb, check_own_rows, check_the_server, check_the_rate, check_the_schedule)
