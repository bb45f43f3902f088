"""Bounds on ε beside jax_privacy's, on the same scores of the same Gaussian mechanism; run by `python -m benchmarks.audit_bounds`.

The peer lives in an environment of its own: SORDINO_BENCH_AUDIT_PYTHON names an interpreter that has jax_privacy. Every bound of both
sides gets the same scores and the same error of 5 %; the peer is asked with both of its ways to fix a threshold.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np

from sordino.audit.bounds import Guessing, choose
from sordino.audit.trade_off import Claim
from sordino.privacy.event_kinds import GaussianDpEvent

DELTA, CONFIDENCE, SEEDS = 1e-5, 0.95, 10

PEER = """
import json, sys, numpy as np
from jax_privacy import auditing
given = json.load(sys.stdin)
found = []
for case in given["cases"]:
    inside, outside = np.array(case["inside"]), np.array(case["outside"])
    auditor = auditing.CanaryScoreAuditor(inside, outside)
    level, delta = given["level"], given["delta"]
    bounds = {"Gaussian DP": auditor.epsilon_from_gdp(level, delta)}
    for name, strategy in (("all thresholds", auditing.Bonferroni()), ("split", auditing.Split(0.5, seed=0))):
        bounds[f"repeats, {name}"] = auditor.epsilon_clopper_pearson(
            level, delta, one_sided=False, threshold_strategy=strategy
        )
        bounds[f"one-run, {name}"] = auditor.epsilon_one_run(level, delta, threshold_strategy=strategy)
        bounds[f"one-run f-DP, {name}"] = auditor.epsilon_one_run_fdp(level, delta, threshold_strategy=strategy)
    found.append(bounds)
print(json.dumps(found))
"""


def main() -> int:
    python = os.environ.get("SORDINO_BENCH_AUDIT_PYTHON")
    if not python:
        sys.stderr.write("Set SORDINO_BENCH_AUDIT_PYTHON to a Python that has jax_privacy.\n")
        return 2
    for mu, count in ((1.0, 1000), (2.0, 1000), (1.0, 10000)):
        cases = [_scores(mu, count, seed) for seed in range(SEEDS)]
        ours = _ours(mu, cases)
        theirs = _theirs(python, cases)
        true = Claim({GaussianDpEvent(1 / mu): 1}, "zero-out", DELTA).epsilon()
        sys.stdout.write(f"mu {mu:g}, {count} canaries, true epsilon {true:.3f}; medians over {SEEDS} seeds\n")
        for name, values in {
            **{f"ours, {k}": v for k, v in ours.items()},
            **{f"jax_privacy, {k}": v for k, v in theirs.items()},
        }.items():
            sys.stdout.write(
                f"  {name:34s} {np.median(values):.3f}  (above the truth {sum(v > true for v in values)} times)\n"
            )
    return 0


def _scores(mu: float, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, count])
    coins = rng.random(count) < 0.5
    return rng.standard_normal(count) + mu * coins, coins


def _ours(mu: float, cases: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, list[float]]:
    claim = Claim({GaussianDpEvent(1 / mu): 1}, "zero-out", DELTA)
    chosen, ways = choose(len(cases[0][0]), claim, confidence=CONFIDENCE)

    def proven(way: Guessing) -> list[float]:
        return [way.proven(scores, coins, claim, confidence=CONFIDENCE) for scores, coins in cases]

    return {**{bound: proven(way) for bound, way in ways.items()}, f"chosen ({chosen.bound})": proven(chosen)}


def _theirs(python: str, cases: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, list[float]]:
    given = [{"inside": scores[coins].tolist(), "outside": scores[~coins].tolist()} for scores, coins in cases]
    content = json.dumps({"cases": given, "level": 1 - CONFIDENCE, "delta": DELTA})
    done = subprocess.run([python, "-c", PEER], input=content, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return {name: [one[name] for one in found] for name in found[0]}


if __name__ == "__main__":
    sys.exit(main())
