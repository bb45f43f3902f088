"""An onlooker who sees the last model alone: canaries in random directions, scored by their cosine with the way that the model went.

Andrew et al. (arXiv:2302.03098) guess ε from the mean and the spread of these cosines. That guess has no confidence, so it is told
and decides nothing. What decides is a one-run bound on the same cosines, with a coin for each canary: it holds whatever the noise, the
server's optimiser or the dependence between canaries.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from torch import Tensor

from sordino.audit.bounds import Guessing, choose
from sordino.audit.planting.ground import Ground
from sordino.audit.planting.jobs import direction
from sordino.audit.planting.planted import Planted
from sordino.audit.planting.rounds import canary_run, worst_bill
from sordino.audit.trade_off import Claim
from sordino.core import SordinoError
from sordino.privacy.pricing import neighbours_in

Floats = NDArray[np.float64]
PLACES = 20_001
LARGEST = 200.0


@dataclass(frozen=True, kw_only=True)
class FinalVerdict:
    """What the last model alone proves beside the public's ε."""

    claimed: float
    proven: float
    power: float
    guessing: Guessing
    canaries: int
    correct: int
    confidence: float
    numbers: int
    estimate: float

    @property
    def holds(self) -> bool:
        return self.proven <= self.claimed

    def to_json(self) -> dict[str, Any]:
        return {
            "claimed_epsilon": self.claimed,
            "proven_epsilon": self.proven,
            "power": self.power,
            "bound": f"{self.guessing.bound}, cosine with the last model",
            "canaries": self.canaries,
            "guesses": self.guessing.guesses,
            "correct": self.correct,
            "confidence": self.confidence,
            "numbers": self.numbers,
            "estimated_epsilon": self.estimate,
            "holds": self.holds,
            "audited": True,
        }


def in_random_directions(ground: Ground) -> Ground:
    """The same ground, whose canaries push along directions drawn by lot, the same way in every round."""
    planted = ground.resolved.method
    assert isinstance(planted, Planted)
    if ground.unit != "client":
        raise SordinoError(
            "--final-model plants whole clients, but this method promises something to every example; leave it out, and audit its views."
        )
    if ground.experiment.engine.name == "flower":
        raise SordinoError(
            "--final-model is for clients on this machine; say --set engine.name=simulate, which gives the same bits."
        )
    resolved = dataclasses.replace(ground.resolved, method=planted.in_random_directions())
    table = resolved.experiment.model_copy(update={"method": {**resolved.experiment.method, "random": True}})
    return dataclasses.replace(ground, resolved=dataclasses.replace(resolved, experiment=table))


def audit_final_model(ground: Ground, *, runs: int, scratch: Path, level: float) -> FinalVerdict:
    """Run the experiment with such canaries, and hold what its last models tell against the public's ε."""
    ground = in_random_directions(ground)
    privacy = ground.experiment.privacy
    scores, coins, bills = [], [], []
    numbers = 0
    for repeat in range(runs):
        run = canary_run(ground, repeat=repeat, views=["public"], scratch=scratch / f"last-model-{repeat}")
        if run.moved is None:
            raise SordinoError(
                "--final-model needs a run whose model keeps its shape, but this one goes through phases."
            )
        numbers = run.moved.numel()
        scores.append(_cosines(run.moved, ground.clients, run.seed))
        coins.append(run.coins)
        bills.append(worst_bill(run, "public"))
    seen, inside = np.concatenate(scores), np.concatenate(coins)
    bill, claimed = max(bills, key=lambda entry: entry[1])
    claim = Claim(bill, neighbours_in("public", privacy.neighbours), privacy.delta)
    _, ways = choose(len(seen), claim, confidence=1 - level)
    way = ways["one-run f-DP"]
    return FinalVerdict(
        claimed=claimed,
        proven=way.proven(seen, inside, claim, confidence=1 - level),
        power=way.power(len(seen), claim, confidence=1 - level),
        guessing=way,
        canaries=len(seen),
        correct=way.correct(seen, inside) or 0,
        confidence=1 - level,
        numbers=numbers,
        estimate=estimated_epsilon(seen[inside] * np.sqrt(numbers), delta=privacy.delta),
    )


def _cosines(moved: Tensor, clients: int, seed: int) -> Floats:
    way = moved.double().cpu()
    length = max(1e-300, float(way.norm()))
    shown = [float(direction(client, way.numel(), seed).double() @ way) / length for client in range(clients)]
    return np.array(shown)


def estimated_epsilon(present: Sequence[float] | Floats, *, delta: float) -> float:
    """ε of two normal distributions: cosines of canaries that were out, which are standard normal, and of those that were in."""
    mean, spread = float(np.mean(present)), max(1e-6, float(np.std(present, ddof=1)))

    def excess(epsilon: float) -> float:
        return max(_beyond(epsilon, mean, spread)) - delta

    return float(optimize.brentq(excess, 0.0, LARGEST)) if excess(0.0) > 0 > excess(LARGEST) else 0.0


def _beyond(epsilon: float, mean: float, spread: float) -> tuple[float, float]:
    """By how much the one distribution is more than e^ε times the other, and the other way round."""
    reach = 12 * max(1.0, spread)
    places = np.linspace(min(0.0, mean) - reach, max(0.0, mean) + reach, PLACES)
    out, within = stats.norm.logpdf(places), stats.norm.logpdf(places, mean, spread)
    step = float(places[1] - places[0])
    over = np.exp(within) * -np.expm1(np.minimum(0.0, epsilon + out - within))
    under = np.exp(out) * -np.expm1(np.minimum(0.0, epsilon + within - out))
    return float(over.sum()) * step, float(under.sum()) * step
