"""How many cores this process may use, and threads that leave them to others while they wait."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_SPINS = "GOMP_SPINCOUNT"
_FEW_SPINS = "2000"
"""As fast as spinning for long on an idle machine; beside other work, only other counts were measured (docs/performance.md)."""
_POLICY = "OMP_WAIT_POLICY"
_THREADS = "OMP_NUM_THREADS"


def free_cores(cgroups: Path = _CGROUPS) -> int:
    """Cores that this process may use: those it may run on, or fewer where a container's quota is less; at least one.

    Args:
        cgroups: where the system mounts its control groups.

    Example:
        In a container started with `docker run --cpus 1.5` on eight cores, 2.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(allowed, _quota(cgroups))))


def be_a_good_neighbour(environment: MutableMapping[str, str] = os.environ) -> None:
    """Before torch is imported: threads that wait soon give up their core, and there are no more of them than cores.

    A thread that spins while it waits for one that is not scheduled makes a run several times slower beside other work. What
    the user has set stays as it is. Once torch has been imported it is too late, and nothing is changed.
    """
    if "torch" in sys.modules:
        return
    if _POLICY not in environment and _SPINS not in environment:
        environment[_SPINS] = _FEW_SPINS
    environment.setdefault(_THREADS, str(free_cores()))


def _quota(cgroups: Path) -> float:
    """Cores' worth of time that the container may use; infinite where there is no limit or none can be read."""
    try:
        if (cgroups / "cpu.max").exists():
            quota, period = (cgroups / "cpu.max").read_text().split()
        else:
            quota, period = (
                (cgroups / "cpu" / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period")
            )
        return float(quota) / float(period) if float(quota) > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf  # "max", or no such files
