"""A round of many clients: ours against Flower's simulation and pfl-research, each in its own process, taking turns."""

from __future__ import annotations

import json
import statistics
import sys

from benchmarks.effort import repeats
from benchmarks.lockstep import Absent, Contestant, peers_python, serve
from benchmarks.peers_rounds import PEERS, arguments
from benchmarks.round_jobs import BATCH, L2_CLIP_NORM, LEARNING_RATE, NOISE_MULTIPLIER, ROUND_JOBS, RoundJob

OURS = "sordino"
WARM_UP_ROUNDS = 1


def measure() -> list[dict[str, object]]:
    """One row per model: median milliseconds per round of every engine, and each peer's multiple of ours."""
    return [_row(job) for job in ROUND_JOBS.values()]


def _row(job: RoundJob) -> dict[str, object]:
    contestants = {OURS: Contestant(["-m", "benchmarks.rounds", job.name])}
    contestants |= {peer: Contestant(arguments(peer, job.name), python=peers_python()) for peer in PEERS}
    row: dict[str, object] = {"benchmark": "rounds", "model": job.name, "clients": job.clients, "steps": job.steps}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    try:
        for turn in range(WARM_UP_ROUNDS + repeats(9, when_quick=3)):
            for name, contestant in list(contestants.items()):
                try:
                    report = contestant.turn()
                except Absent as reason:
                    contestants.pop(name).leave()
                    row[f"{name} absent"] = str(reason)
                    continue
                if turn >= WARM_UP_ROUNDS:
                    seconds[name].append(report.pop("seconds"))
                row |= {f"{name} {fact}": value for fact, value in report.items() if fact != "seconds"}
    finally:
        for contestant in contestants.values():
            contestant.leave()
    medians = {name: statistics.median(times) for name, times in seconds.items() if times and name in contestants}
    row |= {f"{name} ms": 1e3 * median for name, median in medians.items()}
    if OURS in medians:
        row |= {f"{name} / {OURS}": median / medians[OURS] for name, median in medians.items() if name != OURS}
    return row


def serve_our_rounds(job: RoundJob) -> None:
    from benchmarks.our_federation import as_net, federate
    from sordino.data.examples import IDENTITY, Examples, Normalisation
    from sordino.methods.dp_fedavg import DpFedAvg

    def data(client: int) -> Examples:
        pictures = len(job.input_shape) == 3
        inputs, labels = job.pixels(client) if pictures else job.features(client)
        return Examples(inputs=inputs, labels=labels, normalisation=Normalisation() if pictures else IDENTITY)

    running = federate(
        as_net(job.model()),
        data,
        clients=job.clients,
        method=DpFedAvg(batch_size=BATCH, learning_rate=LEARNING_RATE),
        l2_clip_norm=L2_CLIP_NORM,
        noise_multiplier=NOISE_MULTIPLIER,
    )
    serve(running.do_round, {"schedule": running.federation.schedule})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve_our_rounds(ROUND_JOBS[sys.argv[1]])
    else:
        json.dump(measure(), sys.stdout, indent=2)
