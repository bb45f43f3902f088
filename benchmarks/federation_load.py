"""Many real nodes on one machine: time of a round beside plain Flower's with the same nodes, memory of a node, and bytes."""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.effort import quick

NODES, ROUNDS, QUICK_NODES, QUICK_ROUNDS = 16, 10, 2, 2
ROWS_PER_NODE = 60
PLAIN_LIMIT_SECONDS = 240.0


def measure() -> list[dict[str, object]]:
    """One row: seconds of a round at the median, ours and plain Flower's, and what a node costs."""
    nodes, rounds = (QUICK_NODES, QUICK_ROUNDS) if quick() else (NODES, ROUNDS)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="sordino-bench-") as place:
        ours = _ours(Path(place), nodes, rounds)
        from benchmarks.plain_flower import plain_round_seconds

        plain = plain_round_seconds(
            ours.pop("local"), Path(place) / "plain", rounds=rounds, size=ours["numbers"], limit=PLAIN_LIMIT_SECONDS
        )
    seconds, theirs = statistics.median(ours.pop("seconds")), statistics.median(plain) if plain else float("nan")
    return [
        {
            "benchmark": "federation_load",
            "nodes": nodes,
            "rounds": rounds,
            "plain rounds": len(plain),
            "s per round": seconds,
            "plain Flower": theirs,
            "ratio to plain Flower": seconds / theirs,
            **ours,
        }
    ]


def _ours(place: Path, nodes: int, rounds: int) -> dict[str, Any]:
    from sordino.engine.flower.dealt_files import deal_out
    from sordino.engine.flower.local import LocalFederation
    from sordino.engine.flower.mailbox import Mailbox
    from sordino.engine.moment import Moment
    from sordino.engine.run import run_experiment
    from sordino.experiment import experiment

    table = {
        "rounds": rounds,
        "data": {"source": "digits", "clients": nodes, "options": {"limit": nodes * ROWS_PER_NODE, "test_limit": 40}},
        "model": {"name": "mlp", "hidden": [16]},
        "method": {"name": "dp-fedavg", "epochs": 1},
        "privacy": {
            "noise_multiplier": 1.0,
            "delta": 1e-3,
            "noise": "local",
            "sampler": "everyone",
            "noise_source": "secure",
        },
        "engine": {"evaluate_every": rounds},
    }
    dealt = deal_out(experiment(table), nodes=None, federation=place / "federation", folder=place / "data")
    ends, counts, close = [], {}, Mailbox.close

    def counted(box: Mailbox) -> None:
        """Bytes of the whole run, hand-shake included."""
        counts.update(sent=box.sent_bytes, received=box.received_bytes)
        close(box)

    Mailbox.close = counted  # type: ignore[method-assign]

    def watch(moment: Moment) -> None:
        if moment.stage == "training":
            ends.append(time.monotonic())

    with LocalFederation.new(place / "federation", dealt.files) as local:
        waiting = [_resident_megabytes(node.process.pid) for node in local.nodes.values()]
        run_experiment(dealt.experiment, place / "run", watch=watch)
        working = [_resident_megabytes(pid) for node in local.nodes.values() for pid in _children(node.process.pid)]
        link = _resident_megabytes(local.link.leashed.process.pid)
    from safetensors import safe_open

    with safe_open(place / "run" / "release" / "model.safetensors", framework="np") as file:
        numbers = sum(file.get_tensor(name).size for name in file.keys())  # noqa: SIM118
    return {
        "local": local,
        "seconds": [later - sooner for sooner, later in itertools.pairwise(ends)],
        "numbers": numbers,
        "MB waiting node": statistics.median(waiting),
        "MB worker": statistics.median(working),
        "MB SuperLink": link,
        "kB to a node": counts["sent"] / nodes / 1e3,
        "kB from a node": counts["received"] / nodes / 1e3,
    }


def _resident_megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _children(pid: int) -> list[int]:
    """Of all threads of a process: a node starts its worker from one of them."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(found) for task in tasks for found in (task / "children").read_text().split()]
