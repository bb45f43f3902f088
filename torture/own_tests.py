"""This project's own tests and snippets in a process of their own, with another environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST_SECONDS = 1800


def run_python(command: list[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """`python command...` in the project's root, with these variables besides those of this process."""
    return subprocess.run(
        [sys.executable, *command],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        cwd=ROOT,
        timeout=LONGEST_SECONDS,
    )
