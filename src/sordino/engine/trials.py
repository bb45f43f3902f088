"""Which of our kernels and torch is the faster: tried once on each kind of processor, and kept on disk under its name."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

import torch

from sordino.core import SordinoError
from sordino.data.locate import data_folder
from sordino.files import locked, make_folder, remove_unfinished, to_json, write_whole
from sordino.kernels.native import form, library
from sordino.processor import processor

FOLDER_VARIABLE = "SORDINO_TRIALS"
FEWEST, LAPS, CLEAR, SECONDS = 3, 9, 1.5, 0.25
"""Times that each is tried; the best counts, because a busy moment can only slow it down. After a few, a clear
lead or so much time is enough."""

Trial = Callable[[], float]
"""How many times as long as our kernel torch takes."""


def trials_folder() -> Path:
    """$SORDINO_TRIALS, or a hidden folder beside the data sets."""
    return Path(os.environ.get(FOLDER_VARIABLE) or data_folder() / ".trials")


def gain(ours: Callable[[], object], torchs: Callable[[], object], *, seconds: float = SECONDS) -> float:
    """How many times as long as our way torch's takes, by turns; at least three of each after one to warm up, for about `seconds`.

    What counts is this thread's own time on its core, so that others who take the core away in between do not decide it.
    """
    ours(), torchs()
    best, first = [math.inf, math.inf], time.thread_time()
    for lap in range(LAPS):
        for place, work in enumerate((ours, torchs)):
            begin = time.thread_time()
            work()
            best[place] = min(best[place], time.thread_time() - begin)
        if lap + 1 >= FEWEST and (max(best) > CLEAR * min(best) or time.thread_time() - first > seconds):
            break
    return round(best[1] / best[0], 3)


def settled(trials: Mapping[str, Trial]) -> dict[str, bool]:
    """Whether our kernel is the faster, by the trial's name: read where it was tried before, else tried now and kept.

    One process at a time tries; another that has to know waits, and then reads what the first one found. Where the folder cannot be
    written, trials are good for this run only.
    """
    path = _file()
    known = _read(path)
    if trials.keys() <= known.keys():
        return _verdicts(known, trials)
    with ExitStack() as turn:
        try:
            make_folder(path.parent)
            turn.enter_context(locked(path.with_suffix(".lock")))
        except SordinoError as error:
            _warn(f"What is faster here, kernels or torch, is tried for this run and cannot be kept: {error}")
            return _verdicts(known | {name: trial() for name, trial in trials.items() if name not in known}, trials)
        remove_unfinished(path.parent)
        known = _read(path)
        known |= {name: trial() for name, trial in trials.items() if name not in known}
        try:
            write_whole(path, to_json({"processor": processor(), "kernels": form(), "gains": known}, indent=2).encode())
        except SordinoError as error:
            _warn(f"What is faster here, kernels or torch, was tried for this run and cannot be kept: {error}")
    return _verdicts(known, trials)


def _verdicts(gains: Mapping[str, float], asked: Iterable[str]) -> dict[str, bool]:
    return {name: gains[name] >= 1 for name in asked}


def _file() -> Path:
    """One for each processor, form of the kernels as built, and version of torch: another of them may be another matter."""
    built = library()
    assert built is not None
    about = f"{processor()} {hashlib.sha256(Path(built._name).read_bytes()).hexdigest()} {torch.__version__}"
    name = re.sub(r"[^a-z0-9]+", "-", f"{processor()} {form()}".lower()).strip("-")
    return trials_folder() / f"{name}-{hashlib.sha256(about.encode()).hexdigest()[:12]}.json"


def _read(path: Path) -> dict[str, float]:
    try:
        gains = json.loads(path.read_text(encoding="utf-8"))["gains"]
        return {str(name): float(value) for name, value in gains.items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    _warn(f"{path} is damaged or cannot be read, so what is faster here, kernels or torch, is tried again.")
    return {}


def _warn(sentence: str) -> None:
    warnings.warn(sentence, stacklevel=3)
