"""How the time of a round grows with the cohort and with the model: exponents of a power law fitted to medians."""

from __future__ import annotations

import json
import math
import statistics
import sys

from benchmarks.effort import interleaved_seconds, quick, repeats
from benchmarks.our_federation import RunningFederation, federate
from benchmarks.round_jobs import BATCH, LEARNING_RATE, ROUND_JOBS
from sordino.data.examples import IDENTITY, Examples
from sordino.methods.dp_fedavg import DpFedAvg
from sordino.models import build

COHORTS = (8, 16, 32, 64, 128)
HIDDEN_SIZES = (64, 128, 256, 512)
USUAL_COHORT, USUAL_HIDDEN_SIZE = 32, 64


def measure() -> list[dict[str, object]]:
    cohorts, sizes = (COHORTS[::2], HIDDEN_SIZES[::3]) if quick() else (COHORTS, HIDDEN_SIZES)
    by_cohort = {cohort: _federation(cohort, USUAL_HIDDEN_SIZE) for cohort in cohorts}
    by_model = {_parameters(size): _federation(USUAL_COHORT, size) for size in sizes}
    return [*_grown("clients in the cohort", by_cohort), *_grown("parameters", by_model)]


def _federation(cohort: int, hidden: int) -> RunningFederation:
    job = ROUND_JOBS["mlp"]

    def data(client: int) -> Examples:
        inputs, labels = job.features(client)
        return Examples(inputs=inputs, labels=labels, normalisation=IDENTITY)

    net = build("mlp", shape=job.input_shape, classes=10, seed=0, hidden=(hidden,))
    method = DpFedAvg(batch_size=BATCH, learning_rate=LEARNING_RATE)
    return federate(net, data, clients=cohort, method=method, schedule="stacked")


def _parameters(hidden: int) -> int:
    return 784 * hidden + hidden + hidden * 10 + 10


def _grown(what: str, federations: dict[int, RunningFederation]) -> list[dict[str, object]]:
    seconds = interleaved_seconds({str(size): running.do_round for size, running in federations.items()}, repeats(7))
    exponent = _exponent({size: seconds[str(size)] for size in federations})
    return [
        {"benchmark": "growth", "with": what, "size": size, "ms": 1e3 * seconds[str(size)], "exponent": exponent}
        for size in federations
    ]


def _exponent(seconds: dict[int, float]) -> float:
    """The slope of log time over log size."""
    return statistics.linear_regression(
        [math.log(size) for size in seconds], [math.log(t) for t in seconds.values()]
    ).slope


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
