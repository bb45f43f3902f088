"""All tests of the kernels in every form that this processor can run, on new examples: `make test` has the best form and the same ones."""

from __future__ import annotations

from sordino.kernels.native import FORMS, SWITCH
from torture.ground import Ground
from torture.own_tests import run_python
from torture.report import Outcome


def kernel_forms(ground: Ground, outcome: Outcome) -> None:
    """One case for each form; those that cannot run here are named."""
    for form in FORMS:
        env = {SWITCH: form, "SORDINO_EXPLORE": "1"}
        if run_python(["-c", "from sordino.kernels.native import library; library()"], env).returncode:
            outcome.note(f"{form} kernels cannot run on this processor and were not tried")
            continue
        done = run_python(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", "tests/kernels"], env)
        why = None if done.returncode == 0 else done.stdout.strip().splitlines()[-1]
        reproduction = f"SORDINO_EXPLORE=1 {SWITCH}={form} python -m pytest tests/kernels"
        outcome.judge(why, case=f"{form} kernels", reproduction=reproduction)
