"""Races: two to six processes on one run folder, and on stores that runs share.

On a run folder exactly one process works; every other gets one sentence. On a store all succeed, and each ends in the bits
that it would have reached alone.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torture.checks import leftovers, price_holds, refusal, same_bits, success
from torture.experiments import Source, small
from torture.ground import Ground, Unbroken
from torture.processes import Child, Ended, TimedOut
from torture.report import Outcome
from torture.toml import Table
from torture.tree import Unable

FOLDER_RACES, STORE_RACES = 60, 16
ROUNDS = 20
HEAD_START = 0.5
"""Seconds in which all racers get ready to begin at the same moment."""
METHOD = {"name": "dp-fedavg", "epochs": 1, "batch_size": 16, "learning_rate": 0.1}


@dataclass(frozen=True, kw_only=True)
class Race:
    """How many run on one folder, with which noise, how far apart, and from where."""

    racers: int
    source: Source
    half_done: bool
    """Whether the folder holds the first part of a run already."""
    kill: bool
    """Whether one of them is killed on the way."""
    spread: float
    """Seconds over which they begin."""

    def __str__(self) -> str:
        begun = "a half-finished" if self.half_done else "a new"
        killed = ", one of them killed" if self.kill else ""
        return f"{self.racers} processes within {self.spread:.3f} s on {begun} folder, {self.source} noise{killed}"


def races(ground: Ground, outcome: Outcome) -> None:
    folder_races, store_races = ground.scaled(FOLDER_RACES), ground.scaled(STORE_RACES)
    outcome.planned = folder_races + 2 * store_races
    _on_one_folder(ground, outcome, folder_races)
    for kind, table, variable in (
        ("pre-trained starts", _with_start(), "SORDINO_PRETRAINED"),
        ("features", _with_features(), "SORDINO_FEATURES"),
    ):
        _on_one_store(ground, outcome, kind, table, variable, store_races)


def _on_one_folder(ground: Ground, outcome: Outcome, count: int) -> None:
    sources: tuple[Source, Source] = ("seeded", "secure")
    measures = {
        source: ground.unbroken(ground.tree.experiment("dp-fedavg", rounds=ROUNDS, source=source)) for source in sources
    }
    for number in range(count):
        chance = ground.chance("races", number)
        race = Race(
            racers=chance.randint(2, 6),
            source=sources[number % 2],
            half_done=chance.random() < 0.4,
            kill=chance.random() < 0.25,
            spread=chance.choice([0.0, 0.0, 0.02, 0.3]),
        )
        unbroken = measures[race.source]
        folder = ground.tree.folder("race")
        file = ground.tree.write(unbroken.table, folder)
        try:
            why = _race(ground, race, unbroken, file)
        except TimedOut as late:
            why = str(late)
        outcome.judge(why, str(race), file.read_text(encoding="utf-8"), folder / "run")
        shutil.rmtree(folder)


def _race(ground: Ground, race: Race, unbroken: Unbroken, file: Path) -> str | None:
    out = file.parent / "run"
    if race.half_done:
        ground.tree.start(file, out).wait_or_kill(0.6 * unbroken.seconds)
    if (out / "summary.json").exists():
        return _verdict(race, unbroken, out)
    chance = ground.chance("races", race)
    resume = race.half_done and (out / "experiment.json").exists()
    ended = _all_at_once(
        race.racers,
        lambda at: ground.tree.start(file, out, resume=resume, begin_at=at),
        spread=race.spread,
        kill_after=chance.uniform(0.1, 1.0) * unbroken.seconds if race.kill else None,
    )
    winners = [one for one in ended if one.code == 0]
    losers = [one for one in ended if one.code != 0 and not one.killed]
    if complaint := next(filter(None, map(refusal, losers)), None):
        return f"one that came too late was not told so: {complaint}"
    if len(winners) > 1 or (not winners and not race.kill):
        return f"{len(winners)} of {race.racers} processes say that they did the run"
    if not winners and (why := success(ground.tree.finish(file, out))) is not None:
        return f"after the race, {why}"
    return _verdict(race, unbroken, out)


def _verdict(race: Race, unbroken: Unbroken, out: Path) -> str | None:
    if race.source == "seeded":
        return same_bits(out, unbroken.out) or leftovers(out)
    return price_holds(out, unbroken.table) or (None if race.kill or race.half_done else _double_charge(out))


def _double_charge(out: Path) -> str | None:
    """A secure run that nothing interrupted charges every round once."""
    rows = [json.loads(row) for row in (out / "ledger.jsonl").read_text(encoding="utf-8").splitlines()]
    charged = [row["round"] for row in rows if "charges" in row]
    return None if len(charged) == len(set(charged)) else "the ledger charges a round twice that was done once"


def _all_at_once(
    racers: int, start: Callable[[float], Child], *, spread: float, kill_after: float | None
) -> list[Ended]:
    """Start them for one moment, or for moments spread evenly; the first of them is killed where that is asked for."""
    at = time.time() + HEAD_START
    children = [start(at + spread * place / racers) for place in range(racers)]
    if kill_after is not None:
        time.sleep(max(0.0, at + kill_after - time.time()))
        children[0].kill()
    return [child.wait() for child in children]


def _with_start() -> Table:
    """A public start of some epochs, each with a checkpoint in the store."""
    table = small(rounds=2, method=METHOD, source="seeded")
    table["data"] |= {"source": "mnist5k", "options": {"resize": 8, "limit": 600, "test_limit": 100}}
    table["start"] = {"name": "standard", "epochs": 4, "data": {"source": "digits", "visibility": "public"}}
    return table


def _with_features() -> Table:
    """A frozen body, whose outputs are kept in several parts."""
    table = small(rounds=2, method=METHOD, source="seeded")
    table["tuning"] = {"name": "head"}
    table["engine"]["keep_features"] = True
    return table


def _on_one_store(ground: Ground, outcome: Outcome, kind: str, table: Table, variable: str, count: int) -> None:
    try:
        measure = _alone(ground, table, variable)
    except Unable as unable:
        outcome.judge(str(unable), kind, "sordino run FILE")
        return
    for number in range(count):
        chance = ground.chance("races", kind, number)
        racers, kill = chance.randint(2, 6), number % 4 == 3
        folder = ground.tree.folder("store")
        file = ground.tree.write(table, folder)
        try:
            why = _share(ground, file, {variable: str(folder / "store")}, racers, measure, kill=kill)
        except TimedOut as late:
            why = str(late)
        killed = ", one of them killed" if kill else ""
        outcome.judge(why, f"{racers} runs that share {kind}{killed}", file.read_text(encoding="utf-8"), folder)
        shutil.rmtree(folder)


def _alone(ground: Ground, table: Table, variable: str) -> Unbroken:
    """The same run with a store of its own."""
    folder = ground.tree.folder("alone")
    file = ground.tree.write(table, folder)
    ended = ground.tree.run(file, folder / "run", env={variable: str(folder / "store")})
    if (why := success(ended)) is not None:
        raise Unable(f"the run that is to be shared does not finish: {why}")
    return Unbroken(table=table, folder=folder, seconds=ended.seconds, calls=())


def _share(
    ground: Ground, file: Path, env: Mapping[str, str], racers: int, measure: Unbroken, *, kill: bool
) -> str | None:
    outs = iter([file.parent / f"run-{number}" for number in range(racers)])
    ended = _all_at_once(
        racers,
        lambda at: ground.tree.start(file, next(outs), env=env, begin_at=at),
        spread=0.0,
        kill_after=0.5 * measure.seconds if kill else None,
    )
    for number, one in enumerate(ended):
        if not one.killed:
            out = file.parent / f"run-{number}"
            if (why := success(one) or same_bits(out, measure.out)) is not None:
                return f"run {number} of {racers}: {why}"
    return None if kill else leftovers(file.parent)
