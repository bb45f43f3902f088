"""All tests of the kernels in every form that this processor can run, on new examples: `make test` has the best form and the same ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from torture.ground import Ground
from torture.report import Outcome

FORMS = ("avx512", "avx2", "portable")
LONGEST_SECONDS = 900
ROOT = Path(__file__).parents[1]


def kernel_forms(ground: Ground, outcome: Outcome) -> None:
    """One case for each form; those that cannot run here are named."""
    for form in FORMS:
        env = {**os.environ, "SORDINO_KERNELS": form, "SORDINO_EXPLORE": "1"}
        if _python(["-c", "from sordino.kernels.native import library; library()"], env).returncode:
            outcome.note(f"{form} kernels cannot run on this processor and were not tried")
            continue
        done = _python(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", "tests/kernels"], env)
        why = None if done.returncode == 0 else done.stdout.strip().splitlines()[-1]
        reproduction = f"SORDINO_EXPLORE=1 SORDINO_KERNELS={form} python -m pytest tests/kernels"
        outcome.judge(why, case=f"{form} kernels", reproduction=reproduction)


def _python(command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        check=False,
        capture_output=True,
        text=True,
        env=env,
        cwd=ROOT,
        timeout=LONGEST_SECONDS,
    )
