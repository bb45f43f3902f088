"""A round of many clients: ours against Flower's simulation and pfl-research, each in its own process, taking turns."""

from __future__ import annotations

import json
import statistics
import sys

from benchmarks.effort import repeats
from benchmarks.lockstep import Absent, Contestant, peers_python, serve
from benchmarks.peers_rounds import PEERS, arguments
from benchmarks.round_jobs import BATCH, L2_CLIP_NORM, LEARNING_RATE, NOISE_MULTIPLIER, ROUND_JOBS, RoundJob
from benchmarks.targets import TORCH_ROUNDS, YARDSTICK
from sordino.kernels.native import SWITCH

OURS = "sordino"
NEVER_IDLE = ("flower", "flower, kept lean")
BLOCKS = 2
ABSENT = "absent: "


def measure() -> list[dict[str, object]]:
    """One row per model and engine: median milliseconds per round, and the multiple of ours."""
    return [row for job in ROUND_JOBS.values() for row in _rows(job)]


def _rows(job: RoundJob) -> list[dict[str, object]]:
    """Ours, with kernels and with torch alone, and pfl-research take turns.

    Flower has blocks of its own, because Ray keeps the cores busy even when idle.
    """
    dense = len(job.input_shape) == 1
    names = (OURS, TORCH_ROUNDS, *PEERS, *([YARDSTICK] if dense else []))
    seconds: dict[str, list[float]] = {name: [] for name in names}
    notes: dict[str, str] = {}
    alone = [[name] for name in seconds if name in NEVER_IDLE]
    together = [name for name in seconds if name not in NEVER_IDLE]
    for _ in range(BLOCKS):
        for names in (together, *alone):
            _block(job, [name for name in names if not notes.get(name, "").startswith(ABSENT)], seconds, notes)
    ours = statistics.median(seconds[OURS]) if seconds[OURS] else None
    return [_row(job, name, seconds[name], ours, notes[name]) for name in seconds]


def _block(job: RoundJob, names: list[str], seconds: dict[str, list[float]], notes: dict[str, str]) -> None:
    contestants: dict[str, Contestant] = {}

    def turn(name: str) -> float | None:
        try:
            if name not in contestants:
                contestants[name] = _enter(name, job)
            report = contestants[name].turn()
        except Absent as reason:
            if name in contestants:
                contestants.pop(name).leave()
            seconds[name], notes[name] = [], f"{ABSENT}{reason}"
            return None
        notes[name] = report["note"]
        return float(report["seconds"])

    try:
        for name in names:
            # One at a time, and each with its first round behind it: starting up would disturb the others' trials.
            turn(name)
        for _ in range(repeats(5, when_quick=2)):
            for name in list(contestants):
                taken = turn(name)
                seconds[name] += [] if taken is None else [taken]
    finally:
        for contestant in contestants.values():
            contestant.leave()


def _enter(name: str, job: RoundJob) -> Contestant:
    if name in (OURS, TORCH_ROUNDS):
        variables = {SWITCH: "off"} if name == TORCH_ROUNDS else None
        return Contestant(["-m", "benchmarks.rounds", job.name], variables=variables)
    if name == YARDSTICK:
        return Contestant(["-m", "benchmarks.arithmetic_yardstick", job.name])
    return Contestant(arguments(name, job.name), python=peers_python())


def _row(job: RoundJob, engine: str, seconds: list[float], ours: float | None, note: str) -> dict[str, object]:
    row: dict[str, object] = {
        "benchmark": "rounds",
        "model": job.name,
        "clients": job.clients,
        "steps": job.steps,
        "engine": engine,
    }
    if seconds:
        row["ms"] = 1e3 * statistics.median(seconds)
        row["ratio"] = statistics.median(seconds) / ours if ours else None
    return {**row, "note": note}


def serve_our_rounds(job: RoundJob) -> None:
    from benchmarks.our_federation import federate
    from sordino.data.examples import IDENTITY, Examples, Normalisation
    from sordino.methods.dp_fedavg import DpFedAvg

    def data(client: int) -> Examples:
        images = len(job.input_shape) == 3
        inputs, labels = job.pixels(client) if images else job.features(client)
        return Examples(inputs=inputs, labels=labels, normalisation=Normalisation() if images else IDENTITY)

    running = federate(
        job.model(),
        data,
        clients=job.clients,
        method=DpFedAvg(batch_size=BATCH, learning_rate=LEARNING_RATE),
        l2_clip_norm=L2_CLIP_NORM,
        noise_multiplier=NOISE_MULTIPLIER,
    )
    serve(running.do_round, note=f"schedule: {running.schedule}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve_our_rounds(ROUND_JOBS[sys.argv[1]])
    else:
        json.dump(measure(), sys.stdout, indent=2)
