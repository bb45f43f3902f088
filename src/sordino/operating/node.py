"""Running a node: its state locked, its process supervised, its health told, until somebody stops it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sordino import __version__
from sordino.core import SordinoError
from sordino.engine.client.lifetime import LifetimeLedger
from sordino.engine.client.limits import read_limits
from sordino.engine.flower.leash import Leashed
from sordino.engine.flower.supernode import start_node
from sordino.nodes.kit import Kit
from sordino.nodes.log import JsonLog, read_log
from sordino.nodes.state import LEDGER, LOG, held
from sordino.operating.health import HealthPoint

LOOK_SECONDS = 0.5
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
"""Flower's log is coloured."""
AGAIN_SECONDS = 5.0
"""Between two starts of a process that ended by itself."""

Say = Callable[[str], None]


@dataclass(kw_only=True)
class NodeRun:
    """One node while it runs.

    Args:
        kit: what `sordino provision` made.
        data: the node's own rows.
        state: its state folder, which no other process may use meanwhile.
        say: tells the operator a sentence.
        rehearsal: also take part in runs whose noise is seeded, which hides nothing.
    """

    kit: Kit
    data: Path
    state: Path
    say: Say
    rehearsal: bool = False
    _process: Leashed | None = field(default=None, init=False)
    _starts: int = field(default=0, init=False)
    _heard: str = field(default="", init=False)
    _read: int = field(default=0, init=False)
    """Bytes of the node's log that its operator has been told of."""

    def run(self, *, health_port: int = 0, stop: Callable[[], bool] = lambda: False) -> None:
        """Until `stop` says so, or Ctrl-C."""
        self._check()
        with held(self.state), HealthPoint(health_port, self.facts) as point:
            log = JsonLog(self.state / LOG)
            self._read = log.path.stat().st_size if log.path is not None and log.path.exists() else 0
            name, address = self.kit.facts.name, self.kit.facts.address
            log.write("started", node=name, address=address, version=__version__, pid=os.getpid())
            self.say(
                f"Node {name} for {address}; ledger {self.state / LEDGER}, health http://127.0.0.1:{point.port}/health."
            )
            because = "its operator stopped it"
            try:
                while not stop():
                    self._look()
                    time.sleep(LOOK_SECONDS)
            except Exception as error:
                because = type(error).__name__
                raise
            finally:
                if self._process is not None:
                    self._process.stop()
                log.write("stopped", because=because)

    def facts(self) -> dict[str, Any]:
        """For the health end point."""
        running = self._process is not None and self._process.running
        return {
            "healthy": running,
            "node": self.kit.facts.name,
            "server": self.kit.facts.address,
            "version": __version__,
            "starts": self._starts,
            "last_words": self._process.last_words if self._process is not None else "",
            "ledger_head": LifetimeLedger(self.state / LEDGER, readonly=True).head,
        }

    def _check(self) -> None:
        """What would make every run fail is told before the node starts."""
        read_limits(self.kit.limits)
        LifetimeLedger(self.state / LEDGER, readonly=True)
        if not self.data.exists():
            raise SordinoError(f"The node's rows were expected at {self.data}, but there is nothing; check --data.")

    def _look(self) -> None:
        """Start the process if it is not there, and pass on what is new in what it says."""
        if self._process is None or not self._process.running:
            if self._process is not None:
                self.say(f"The node's process ended ({self._process.last_words}); starting it again.")
                time.sleep(AGAIN_SECONDS)
            self._process = start_node(self.kit.folder, data=self.data, state=self.state, rehearsal=self.rehearsal)
            self._starts += 1
        words = ESCAPES.sub("", self._process.last_words)
        if words not in (self._heard, "nothing") and not words.startswith(("INFO", "WARNING")):
            self._heard = words
            self.say(words)
        self._tell_decisions()

    def _tell_decisions(self) -> None:
        """What the node has agreed to and refused since it was last looked at."""
        path = self.state / LOG
        size = path.stat().st_size if path.exists() else 0
        if size == self._read:
            return
        for row in read_log(path, after=self._read if size > self._read else 0):
            if row["event"] == "agreed":
                self.say(
                    f"Agreed to {row['name']} ({row['run'][:8]}…) of {row['server']}; its whole price is in the ledger."
                )
            elif row["event"] == "refused":
                self.say(f"Refused: {row['because']}")
        self._read = size
