"""Mutated experiment files: `plan` and `run` accept them or refuse them with one sentence, and `plan` refuses what `run` would.

A refused run leaves nothing behind. Runs that take too long are ended and counted apart: a file may well ask for a year's work.
"""

from __future__ import annotations

import itertools
import math
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from torture.bases import bases
from torture.checks import leftovers, not_a_sentence
from torture.ground import Ground
from torture.mutators import Mutant, Mutators
from torture.processes import OUT_OF_TIME, Ended, TimedOut
from torture.report import Outcome, kind_of
from torture.shrink import smallest
from torture.toml import Table, to_toml

PLANS, RUNS = 5000, 500
PLAN_SECONDS, RUN_SECONDS = 10, 8
"""Of computing, not by the clock, so that a busy machine changes no verdict."""
MEMORY = 4 << 30
"""Bytes on top of what the imports take."""
REFUSED_BY_PLAN = 0.95
SHRUNK_KINDS, SHRINKING_STEPS = 25, 60


@dataclass
class Answers:
    """What became of the mutants that were run."""

    refused_by_run: int = 0
    refused_by_both: int = 0
    refused_by_plan_alone: int = 0
    too_long: int = 0
    accepted: int = 0


def mutations(ground: Ground, outcome: Outcome) -> None:
    data = ground.tree.folder("data")
    _Mutations(ground, outcome, bases(data, ground.tree.examples), data).work()


class _Mutations:
    def __init__(self, ground: Ground, outcome: Outcome, tables: list[Table], data: Path) -> None:
        self._ground, self._outcome = ground, outcome
        self._tables = tables
        self._mutators = Mutators(tables, ground.tree.axes, data)
        self._answers = Answers()
        self._unforeseen: list[str] = []
        self._shrunk: set[str] = set()

    def work(self) -> None:
        plans, runs = self._ground.scaled(PLANS), self._ground.scaled(RUNS)
        self._outcome.planned = plans + runs + 1
        self._check_bases()
        self._ground.each(self._run, range(runs))
        self._ground.each(self._plan, range(runs, plans))
        self._compare()

    def _check_bases(self) -> None:
        """What is mutated must be sound itself, or its mutants show nothing."""
        self._ground.each(self._check_base, self._tables)

    def _check_base(self, table: Table) -> None:
        folder = self._ground.tree.folder("base")
        file = self._ground.tree.write(table, folder)
        for ended in (self._ground.tree.plan(file), self._ground.tree.run(file, folder / "run")):
            if ended.code:
                self._outcome.note(f"an unchanged example is refused: {ended.err.strip()[-300:]}")
                break
        shutil.rmtree(folder)

    def _mutant(self, number: int) -> Mutant:
        return self._mutators.mutant(number, self._ground.chance("mutations", number))

    def _plan(self, number: int) -> None:
        mutant = self._mutant(number)
        why, _ = self._plan_it(mutant.content)
        self._judge(why, mutant, "plan")

    def _run(self, number: int) -> None:
        """Through `plan` and `run`, to compare their answers."""
        mutant = self._mutant(number)
        why, planned = self._plan_it(mutant.content)
        self._judge(why, mutant, "plan")
        why, ran = self._run_it(mutant.content)
        self._judge(why, mutant, "run")
        self._count(planned, ran, mutant)

    def _plan_it(self, content: bytes) -> tuple[str | None, Ended | None]:
        folder = self._ground.tree.folder("mutant")
        file = folder / "experiment.toml"
        file.write_bytes(content)
        try:
            ended = _in_time(self._ground.tree.plan(file, cpu=PLAN_SECONDS, memory=MEMORY))
            why = _answer(ended) or _traces(folder, "a plan")
        except TimedOut:
            ended, why = None, f"plan did not end within {PLAN_SECONDS} s of computing"
        shutil.rmtree(folder)
        return why, ended

    def _run_it(self, content: bytes) -> tuple[str | None, Ended | None]:
        """Stores are new for each run: a pre-trained start of another mutant would hide this one's mistakes."""
        folder = self._ground.tree.folder("mutant")
        file, stores = folder / "experiment.toml", self._ground.tree.folder("stores")
        file.write_bytes(content)
        env = {"SORDINO_PRETRAINED": str(stores / "pretrained"), "SORDINO_FEATURES": str(stores / "features")}
        try:
            child = self._ground.tree.start(file, folder / "run", env=env, memory=MEMORY, cpu=RUN_SECONDS)
            ended = _in_time(child.wait())
            why = _answer(ended)
            if why is None and ended.code:
                why = _traces(folder, "a refused run") or leftovers(stores)
        except TimedOut:
            ended, why = None, None
        shutil.rmtree(folder)
        shutil.rmtree(stores)
        return why, ended

    def _count(self, planned: Ended | None, ran: Ended | None, mutant: Mutant) -> None:
        answers = self._answers
        if ran is None:
            answers.too_long += 1
        elif ran.code == 0:
            answers.accepted += 1
            answers.refused_by_plan_alone += planned is not None and planned.code != 0
        else:
            answers.refused_by_run += 1
            if planned is not None and planned.code != 0:
                answers.refused_by_both += 1
            else:
                self._unforeseen.append(f"{'; '.join(mutant.how)}\n  {ran.err.strip()[-300:]}")

    def _compare(self) -> None:
        answers = self._answers
        share = answers.refused_by_both / max(1, answers.refused_by_run)
        allowed = math.ceil((1 - REFUSED_BY_PLAN) * answers.refused_by_run)
        self._outcome.note(
            f"of {answers.refused_by_run} mutants that run refused, plan refused {answers.refused_by_both} ({share:.1%}); run accepted "
            f"{answers.accepted}, {answers.refused_by_plan_alone} of which plan refused, and {answers.too_long} took too long"
        )
        foreseen = len(self._unforeseen) <= allowed
        why = None if foreseen else f"plan refuses only {share:.1%} of what run refuses"
        self._outcome.judge(why, "plan beside run", "\n".join(sorted(self._unforeseen)))

    def _judge(self, why: str | None, mutant: Mutant, command: str) -> None:
        if why is None:
            self._outcome.passed()
            return
        text = self._smallest(mutant, command, why) if mutant.table is not None else _shown(mutant.content)
        case = f"mutant {mutant.number} through {command}: {'; '.join(mutant.how)}"
        self._outcome.judge(why, case, text)

    def _smallest(self, mutant: Mutant, command: str, why: str) -> str:
        """The mutant without whatever is not needed for its failure; done once for each kind of failure."""
        assert mutant.table is not None
        kind = f"{command} {kind_of(why)}"
        if kind in self._shrunk or len(self._shrunk) >= SHRUNK_KINDS or "did not end" in why:
            return _shown(mutant.content)
        self._shrunk.add(kind)
        examine = self._plan_it if command == "plan" else self._run_it
        steps = itertools.count()

        def fails(table: Table) -> bool:
            found, _ = examine(to_toml(table).encode("utf-8", "surrogatepass"))
            return found is not None and kind_of(found) == kind_of(why) and next(steps) < SHRINKING_STEPS

        return _shown(to_toml(smallest(mutant.table, fails)).encode("utf-8", "surrogatepass"))


def _in_time(ended: Ended) -> Ended:
    if ended.code in OUT_OF_TIME:
        raise TimedOut
    return ended


def _answer(ended: Ended) -> str | None:
    if ended.code == 0:
        return f"a traceback came with exit code 0: {ended.err[-200:]}" if "Traceback" in ended.err else None
    if ended.code != 2:
        return f"exit code {ended.code}: {_last_words(ended.err)}"
    return not_a_sentence(ended)


def _last_words(err: str) -> str:
    """The last line of a traceback and the place in our own code it came from."""
    places = re.findall(r'File "[^"]*?(sordino/[^"]+)", line (\d+)', err)
    last = (err.strip().splitlines() or ["nothing on stderr"])[-1][:300]
    return f"{last} ({places[-1][0]}:{places[-1][1]})" if places else last


def _traces(folder: Path, who: str) -> str | None:
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != "experiment.toml")
    return f"{who} left {', '.join(found)}" if found else None


def _shown(content: bytes) -> str:
    text = content.decode("utf-8", "backslashreplace")
    return "\n".join(
        line if len(line) < 400 else f"{line[:200]}… ({len(line)} characters)" for line in text.splitlines()
    )
