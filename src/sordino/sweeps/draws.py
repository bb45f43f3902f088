"""Which configurations a priced choice tries: their number and each of them is drawn, independently of the data, before any runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sordino.core import SordinoError
from sordino.engine.damaged import Needed, read_json_object
from sordino.files import make_folder, to_json, write_whole
from sordino.privacy.selection import Stopping, stopping
from sordino.privacy.streams import stream_id
from sordino.sweeps.checks import Ready
from sordino.sweeps.results import FILE as RESULTS

FILE = "draws.json"
KEYS: Needed = {"about": dict, "draws": list}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How the number of runs is drawn: a distribution by its name."""

    name: str
    stopping: Stopping


def read_rule(name: str, expected_runs: float) -> Rule:
    """What `--choose` and `--expected-runs` say."""
    return Rule(name=name, stopping=stopping(name, expected_runs))


def settle_draws(candidates: Sequence[Ready], rule: Rule, out: Path) -> list[int]:
    """The candidates to run, by number, drawn once: a choice that goes on finds them in its folder.

    Simulations draw from a stream of their seed; secure runs from the system's own source. The draws stay with the server.
    """
    path = out / FILE
    about = {
        "rule": rule.name,
        "expected_runs": rule.stopping.mean,
        "configurations": [one.experiment.fingerprint() for one in candidates],
    }
    if path.exists():
        found = read_json_object(path, KEYS, advice="choose another --out folder")
        if found["about"] != about:
            raise SordinoError(
                f"{path} belongs to another choice; choose another --out folder, or ask for the same again."
            )
        return [int(number) for number in found["draws"]]
    if (out / RESULTS).exists():
        raise SordinoError(
            f"{out} holds a sweep whose results are known already, so a choice there would cover nothing; choose another --out folder."
        )
    draws = _draw(candidates, rule)
    make_folder(out)
    write_whole(path, to_json({"about": about, "draws": draws}, indent=2).encode())
    return draws


def _draw(candidates: Sequence[Ready], rule: Rule) -> list[int]:
    first = candidates[0].experiment
    secure = first.privacy.noise_source == "secure"
    source = random.SystemRandom() if secure else random.Random(stream_id("choice", first.seed))
    return [source.randrange(len(candidates)) for _ in range(rule.stopping.draw(source.random()))]
