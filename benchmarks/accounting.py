"""The time of pricing: 300 Poisson rounds, the noise for a target ε, and the whole `sordino plan --no-trial` command."""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import dp_accounting as dp

from benchmarks.command import seconds_of, write_experiment
from benchmarks.effort import interleaved_seconds, repeats
from sordino.privacy import event_kinds as kinds
from sordino.privacy.accounting import spent
from sordino.privacy.calibration import calibrate
from sordino.privacy.event_kinds import for_dp_accounting

ROUNDS, RATE, DELTA, NOISE_MULTIPLIER, EPSILON = 300, 0.05, 1e-5, 1.0, 4.0
RELEASES = 40


def measure() -> list[dict[str, object]]:
    """Median seconds; dp-accounting's own PLD accountant on the same two grids stands beside ours."""
    return [*_pricing(), _different(), _calibration(), _plan()]


_UNPRICED = itertools.count()


def _unpriced(price: Callable[[float], float]) -> float:
    """Price a noise multiplier that nobody has priced before, so that no cache answers."""
    return price(NOISE_MULTIPLIER + 1e-6 * next(_UNPRICED))


def _event(noise_multiplier: float) -> kinds.DpEvent:
    return kinds.PoissonSampledDpEvent(RATE, kinds.GaussianDpEvent(noise_multiplier))


def _ours(noise_multiplier: float, *, precise: bool) -> float:
    return spent({_event(noise_multiplier): ROUNDS}, delta=DELTA, neighbours="zero-out", precise=precise).epsilon


def _reference(noise_multiplier: float, interval: float) -> float:
    accountant = dp.pld.PLDAccountant(value_discretization_interval=interval)
    return float(accountant.compose(for_dp_accounting(_event(noise_multiplier)), ROUNDS).get_epsilon(DELTA))


def _pricing() -> list[dict[str, object]]:
    contestants: dict[str, Callable[[float], float]] = {
        "ours, quick": partial(_ours, precise=False),
        "ours, precise": partial(_ours, precise=True),
        "dp-accounting 1e-3": partial(_reference, interval=1e-3),
        "dp-accounting 1e-4": partial(_reference, interval=1e-4),
    }
    seconds = interleaved_seconds({name: partial(_unpriced, price) for name, price in contestants.items()}, repeats(7))
    epsilons = {name: price(NOISE_MULTIPLIER + 0.5) for name, price in contestants.items()}
    return [
        {
            "benchmark": "accounting",
            "what": f"ε of {ROUNDS} Poisson rounds, {name}",
            "seconds": seconds[name],
            "ratio to ours, quick": seconds[name] / seconds["ours, quick"],
            "epsilon": epsilons[name],
        }
        for name in contestants
    ]


def _different() -> dict[str, object]:
    """Releases with a noise multiplier each, on the fine grid, as a ledger has them after rounds under a schedule of noise."""

    def work() -> object:
        first = NOISE_MULTIPLIER + 1e-6 * next(_UNPRICED)
        events = {_event(first + 0.01 * number): 1 for number in range(RELEASES)}
        return spent(events, delta=DELTA, neighbours="zero-out", precise=True)

    seconds = interleaved_seconds({"different": work}, repeats(5))["different"]
    return {"benchmark": "accounting", "what": f"ε of {RELEASES} different releases", "seconds": seconds}


def _calibration() -> dict[str, object]:
    def work() -> object:
        unpriced_delta = DELTA * (1 + 1e-6 * next(_UNPRICED))
        return calibrate(
            lambda noise: {_event(noise): ROUNDS}, epsilon=EPSILON, delta=unpriced_delta, neighbours="zero-out"
        )

    seconds = interleaved_seconds({"calibrate": work}, repeats(5))["calibrate"]
    return {"benchmark": "accounting", "what": f"noise for ε = {EPSILON:g}", "seconds": seconds}


def _plan() -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="sordino-bench-") as folder:
        path = str(write_experiment(Path(folder)))
        seconds = [seconds_of(["plan", path, "--no-trial"]) for _ in range(repeats(5))]
    return {"benchmark": "accounting", "what": "sordino plan --no-trial", "seconds": statistics.median(seconds)}


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2, ensure_ascii=False)
