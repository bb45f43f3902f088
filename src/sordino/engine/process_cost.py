"""What clients in processes of their own cost before they do anything, for the plan."""

from __future__ import annotations

from sordino.experiment import Experiment

SECONDS, MEGABYTES = 3, 270
"""CPU time to start a client process, and its resident memory with a small model; most of both is torch's."""


def process_facts(experiment: Experiment, *, clients: int) -> dict[str, str]:
    """Nothing where all clients are in one process."""
    if experiment.engine.name != "process":
        return {}
    return {"client processes": f"{clients}, about {SECONDS} s of CPU and {MEGABYTES} MB each"}
