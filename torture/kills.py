"""Kills: SIGKILL at random moments of every method, and what the runs come to in the end.

Half of the kills come by the clock, anywhere between the start of the process and its end; half come at a chosen call
(before it, in the midst of a write, or after it), among them the first and the last of a run. Some processes are started as a
user starts them, so that their imports can be killed as well.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from torture.checks import price_holds, same_bits, success
from torture.experiments import SOURCES, Source
from torture.faults import Fault
from torture.ground import Ground, Unbroken, tolerating_unable
from torture.processes import TimedOut
from torture.report import Outcome
from torture.tree import Unable

KILLS = 200
ROUNDS = (20, 40)
EDGE_SHARE, PLAIN_SHARE = 0.2, 0.05
MOST_ATTEMPTS = 12
"""For each kill that is asked for; attempts that end by themselves do not count as kills."""


@dataclass(frozen=True)
class Victim:
    method: str
    source: Source
    kills: int

    def __str__(self) -> str:
        return f"{self.method}, {self.source} noise"


def kills(ground: Ground, outcome: Outcome) -> None:
    """Every method is killed, at the smallest scale with one source of noise alone."""
    methods = ground.tree.methods
    outcome.planned = max(ground.scaled(KILLS), len(methods))
    pairs = [(method, SOURCES[(place + turn) % 2]) for turn in range(2) for place, method in enumerate(methods)]
    share, more = divmod(outcome.planned, len(pairs))
    victims = [Victim(method, source, share + (place < more)) for place, (method, source) in enumerate(pairs)]
    victims = [victim for victim in victims if victim.kills]
    ground.each(tolerating_unable(lambda victim: _Executioner(ground, outcome, victim).work(), outcome), victims)


class _Executioner:
    """Kills the runs of one method with one source of noise, again and again, until enough kills were done."""

    def __init__(self, ground: Ground, outcome: Outcome, victim: Victim) -> None:
        self._ground, self._outcome, self._victim = ground, outcome, victim
        self._chance = ground.chance("kills", victim)
        rounds = self._chance.randint(*ROUNDS)
        table = ground.tree.experiment(victim.method, rounds=rounds, source=victim.source)
        self._unbroken = ground.unbroken(table)
        self._history: list[str] = []

    def work(self) -> None:
        done, attempts = 0, 0
        while done < self._victim.kills:
            folder = self._ground.tree.folder("killed")
            self._ground.tree.write(self._unbroken.table, folder)
            self._history = []
            suffered, why = 0, None
            while done + suffered < self._victim.kills and why is None and not _complete(folder):
                attempts += 1
                if attempts > MOST_ATTEMPTS * self._victim.kills:
                    raise Unable(f"{self._victim}: of {attempts} attempts, {done + suffered} were killed in time")
                killed, why = self._attempt(folder)
                suffered += killed
            self._judge(folder, suffered, why)
            done += max(suffered, why is not None)

    def _attempt(self, folder: Path) -> tuple[bool, str | None]:
        """One process, killed or at its end."""
        chance, file, out = self._chance, folder / "experiment.toml", folder / "run"
        resume = (out / "experiment.json").exists()
        if chance.random() < PLAIN_SHARE:
            return self._kill_a_plain_process(file, out, resume), None
        fault, after = self._moment(folder)
        self._history.append(f"{'resumed' if resume else 'begun'}, {fault or f'SIGKILL after {after:.3f} s'}")
        child = self._ground.tree.start(file, out, resume=resume, fault=fault)
        try:
            ended = child.wait() if fault else child.wait_or_kill(after)
        except TimedOut as late:
            return False, str(late)
        return ended.killed, None if ended.killed else success(ended)

    def _moment(self, folder: Path) -> tuple[Fault | None, float]:
        chance, calls = self._chance, len(self._unbroken.calls)
        if not calls or chance.random() < 0.5:
            return None, chance.uniform(0.0, 1.1 * self._unbroken.seconds)
        edge = chance.choice([1, 2, 3, 4, 5, calls - 4, calls - 3, calls - 2, calls - 1, calls])
        at = edge if chance.random() < EDGE_SHARE else chance.randint(1, calls)
        half = chance.random() < 0.5
        way = "kill" if half or chance.random() < 0.5 else "kill-after"
        return Fault(root=folder, at=max(1, at), way=way, half=half), 0.0  # type: ignore[arg-type]

    def _kill_a_plain_process(self, file: Path, out: Path, resume: bool) -> bool:
        """A new interpreter, killed while it imports or soon after."""
        again = ("--resume",) if resume else ()
        process = self._ground.tree.launcher.start_plainly("run", str(file), "--out", str(out), *again, cwd=file.parent)
        after = self._chance.uniform(0.0, 3.0)
        self._history.append(f"a new interpreter, SIGKILL after {after:.3f} s")
        return _killed(process, after)

    def _judge(self, folder: Path, suffered: int, why: str | None) -> None:
        """Let the run come to its end and look at it. Every kill it suffered is a case; a failure is one of them."""
        out = folder / "run"
        if why is None and not _complete(folder):
            self._history.append("resumed, to its end")
            try:
                why = success(self._ground.tree.finish(folder / "experiment.toml", out))
            except TimedOut as late:
                why = str(late)
        why = why or _verdict(self._unbroken, out, self._victim.source)
        for _ in range(suffered - 1 if why else suffered):
            self._outcome.passed()
        if why:
            toml = (folder / "experiment.toml").read_text(encoding="utf-8")
            self._outcome.judge(why, str(self._victim), "\n".join([*self._history, "", toml]), out)


def _verdict(unbroken: Unbroken, out: Path, source: Source) -> str | None:
    return same_bits(out, unbroken.out) if source == "seeded" else price_holds(out, unbroken.table)


def _complete(folder: Path) -> bool:
    return (folder / "run" / "summary.json").exists()


def _killed(process: subprocess.Popen[bytes], after: float) -> bool:
    until = time.monotonic() + after
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    return process.wait() == -signal.SIGKILL
