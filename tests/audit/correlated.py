"""Audits of correlated noise in real rounds, by an onlooker who knows how it is made and sees everything that is released.

The onlooker runs the same code on units in place of noise, and so learns W: what each fresh number does to each release.
With the covariance W·Wᵀ the best test of all for a client that contributes at each of its turns is known, and how well it
can do, exactly. Then a pool of canaries, each in a coordinate of its own, is really told apart by that test.
"""

import copy
import math
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import torch

from sordino.audit.gaussian_dp import mu_lower_bound
from sordino.audit.watched import watched_federation
from sordino.core import Private
from sordino.data.examples import IDENTITY, Examples
from sordino.engine.resolved import resolve
from sordino.experiment import experiment
from sordino.methods.method import Broadcast
from sordino.privacy.noise import SeededNoise

ROUNDS, PERIOD, CLIP, Z = 12, 3, 0.5, 1.0
CANARIES = 400
CONFIDENCE = 0.99
"""Each audit alarms falsely with a chance of 1 % over all seeds; seeds are fixed, so outcomes never change by themselves."""
HARDLY_ANY = 1e-9
"""A variance that lets the onlooker use releases, or differences of releases, without any noise."""


@dataclass(frozen=True)
class Canary:
    """Everyone in one pool asks for too much, in a coordinate of its own, if its row says so."""

    pool: int

    def run(self, start, examples, context):
        update = torch.zeros_like(start)
        if context.client % PERIOD == self.pool:
            update[context.client // PERIOD] = 20 * CLIP * float(examples.inputs.sum())
        return update


class Units:
    """A source whose draws are unit vectors, one for each name, in place of noise."""

    kind = "seeded"

    def __init__(self):
        self._names = {}

    def gaussian(self, size, *, std, stream, device, dtype):
        return std * torch.eye(size, dtype=dtype)[self._names.setdefault(stream, len(self._names))]


class Onlooker:
    """Begins federations of the same clients and noise, and keeps what they release."""

    def __init__(self, closing, source, *, coins, pool, numbers):
        self._closing, self._source, self._pool, self._numbers = closing, source, pool, numbers
        self._clients = [Private(_row(coin)) for coin in coins for _ in range(PERIOD)]
        self._table = _table(len(self._clients))
        self.rows, self.rounds, self.ledger = [], [], None

    def begin(self):
        federation = self._closing.enter_context(
            watched_federation(
                self._table,
                resolve(self._table).method,
                self._clients,
                sizes=[1] * len(self._clients),
                features=1,
                watch=lambda *shown: None,
                source=lambda client: self._source,
            )
        )
        self.ledger = federation.door.ledger
        return federation

    def collect(self, federation, number, *, look=True):
        start = Broadcast.of(torch.zeros(self._numbers))
        total = federation.collect_sum(number, start, Canary(self._pool)).value
        if look:
            self.rows.append(total.double().numpy())
            self.rounds.append(number)


def as_planned(onlooker):
    federation = onlooker.begin()
    for number in range(ROUNDS):
        onlooker.collect(federation, number)


def seeded_crash(onlooker, recalled=lambda memory: memory):
    """Round 5 is out when the run dies; it is resumed from the checkpoint before, with the same names for its draws."""
    first, second = onlooker.begin(), onlooker.begin()
    for number in range(6):
        onlooker.collect(first, number)
    for number in range(5):
        onlooker.collect(second, number, look=False)
    second.door.memory = recalled(second.door.memory)
    for number in range(5, ROUNDS):
        onlooker.collect(second, number)


def secure_crash(onlooker):
    """Three times the run dies when round 5 is out, and is taken up again with new names for its draws."""
    federation = onlooker.begin()
    for number in range(5):
        onlooker.collect(federation, number)
    checkpoint = copy.deepcopy(federation.door.memory)
    for attempt in range(4):
        federation.door.memory = copy.deepcopy(checkpoint)
        federation.door.ledger._attempt = attempt
        onlooker.collect(federation, 5)
    for number in range(6, ROUNDS):
        onlooker.collect(federation, number)


HISTORIES = {"as planned": as_planned, "seeded crash": seeded_crash, "secure crash": secure_crash}


@dataclass(frozen=True)
class Releases:
    """All rows that were released, the round of each, and which pools the ledger charged."""

    rows: np.ndarray
    rounds: np.ndarray
    charged: list[int]


def play(history, source, *, coins, pool=0, numbers):
    """What leaves a federation with this history, where the canaries whose coin is 1 take part."""
    with ExitStack() as closing:
        onlooker = Onlooker(closing, source, coins=coins, pool=pool, numbers=numbers)
        history(onlooker)
    charged = [line.residue for line in onlooker.ledger.lines]
    return Releases(rows=np.stack(onlooker.rows), rounds=np.array(onlooker.rounds), charged=charged)


def _table(clients):
    privacy = {
        "mechanism": "banded",
        "noise_multiplier": Z,
        "clip_norm": CLIP,
        "delta": 1e-6,
        "sampler": "everyone",
        "participation_cap": ROUNDS // PERIOD,
    }
    return experiment(
        {
            "rounds": ROUNDS,
            "data": {"source": "digits", "clients": clients},
            "model": {"name": "logistic"},
            "method": {"name": "dp-fedavg"},
            "privacy": privacy,
        }
    )


def _row(coin):
    inputs = torch.tensor([[float(coin)]])
    return Examples(inputs=inputs, labels=torch.zeros(1, dtype=torch.int64), normalisation=IDENTITY)


@dataclass(frozen=True)
class Attack:
    """The best test for a pool: weights for all releases, the μ it has, and the μ that the ledger claims for the pool."""

    pool: int
    weights: np.ndarray
    exact_mu: float
    claimed_mu: float

    @property
    def excess(self):
        return self.exact_mu / self.claimed_mu


def worst_attack(history):
    """On the pool that fares worst, by what is known of how the noise is made."""
    known = play(history, Units(), coins=[0], numbers=64)
    covariance = known.rows @ known.rows.T + HARDLY_ANY * np.eye(len(known.rows))
    return max((_attack(pool, known, covariance) for pool in range(PERIOD)), key=lambda attack: attack.excess)


def _attack(pool, known, covariance):
    moved = CLIP * (known.rounds % PERIOD == pool)
    weights = np.linalg.solve(covariance, moved)
    claimed = math.sqrt(known.charged.count(pool)) / Z
    return Attack(pool=pool, weights=weights, exact_mu=math.sqrt(moved @ weights), claimed_mu=claimed)


def worst_of(history):
    """How many times better than claimed the best test of all tells a client's part; no more than 1 where promises hold."""
    return worst_attack(history).excess


def proved_and_claimed(history):
    """μ that canaries of the pool that fares worst really prove, and μ that the ledger claims for it."""
    worst, coins = worst_attack(history), np.random.default_rng(7).random(CANARIES) < 0.5
    found = play(history, SeededNoise(11), coins=coins, pool=worst.pool, numbers=CANARIES)
    scores = worst.weights @ found.rows
    return mu_lower_bound(scores[~coins], scores[coins], confidence=CONFIDENCE), worst.claimed_mu
