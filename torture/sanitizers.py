"""The compiled kernels under the address and undefined-behaviour sanitizers: the tests of tests/kernels on a build that watches itself."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tomllib
from pathlib import Path

from sordino.kernels.native import SWITCH
from torture.ground import Ground
from torture.own_tests import ROOT, run_python
from torture.report import Outcome
from torture.tree import Unable

WATCH = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g")
FORM = "portable"
"""Sources are the same in every form, and this one runs on every processor."""

READS_TOO_FAR = """
import torch
from sordino.kernels.bounded_sums import library
row, sums = torch.ones(1000), torch.empty(1, dtype=torch.float64)
table = torch.tensor([row.data_ptr()])
library().sums_of_squares(table.data_ptr(), sums.data_ptr(), 1, 1200, 1)
"""
"""A call that reads past the end of its row: if this is not reported, nothing is watching."""


def sanitizers(ground: Ground, outcome: Outcome) -> None:
    """One case for each file of kernel tests, and one that the sanitizers must catch."""
    files = sorted((ROOT / "tests" / "kernels").glob("test_*.py"))
    outcome.planned = len(files) + 1
    source = _watched_copy(ground.tree.folder("sanitizers"))
    for file in files:
        command = ["-m", "pytest", "-x", "-p", "no:cacheprovider", "--color=no", str(file)]
        _judge(outcome, f"tests/kernels/{file.name}", _failure(_run(command, source)))
    awake = _run(["-c", READS_TOO_FAR], source)
    caught = awake.returncode != 0 and "heap-buffer-overflow" in awake.stderr
    _judge(outcome, "a kernel that reads past its row", None if caught else "the address sanitizer did not report it")


def _judge(outcome: Outcome, case: str, why: str | None) -> None:
    outcome.judge(why, case=case, reproduction="python -m torture sanitizers")


def _watched_copy(folder: Path) -> Path:
    """The package with kernels that are built to be watched, in a folder that can be imported from."""
    source = folder / "src"
    shutil.copytree(ROOT / "src" / "sordino", source / "sordino", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    extensions = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    (extension,) = (one for one in extensions if one["name"].endswith(f"._{FORM}"))
    built = source / "sordino" / "kernels" / f"_{FORM}{sysconfig.get_config_var('EXT_SUFFIX')}"
    files = [str(ROOT / file) for file in extension["sources"]]
    command = ["gcc", *extension["extra-compile-args"], *WATCH, "-shared", "-fPIC", "-o", str(built), *files]
    done = subprocess.run([*command, "-lm"], check=False, capture_output=True, text=True)
    if done.returncode:
        raise Unable(f"the kernels cannot be built with sanitizers: {done.stderr.strip().splitlines()[-1]}")
    return source


def _run(command: list[str], source: Path) -> subprocess.CompletedProcess[str]:
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    env = {
        "PYTHONPATH": str(source),
        "LD_PRELOAD": runtime.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        SWITCH: FORM,
    }
    return run_python(command, env)


def _failure(done: subprocess.CompletedProcess[str]) -> str | None:
    """What went wrong, in a line; tests that were skipped because no kernels were found count as failed."""
    lines = [line for line in [*done.stdout.splitlines(), *done.stderr.splitlines()] if line.strip()]
    for sign in ("ERROR: AddressSanitizer", "runtime error", "FAILED"):
        if found := next((line for line in lines if sign in line), None):
            return found
    if done.returncode:
        return lines[-1] if lines else f"exit code {done.returncode}"
    return "no kernels were found" if "passed" not in done.stdout else None
