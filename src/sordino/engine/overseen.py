"""What is to be seen of a run from outside while it goes on: read from its folder, without a lock and without disturbing it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sordino.core import VIEWS, SordinoError, View
from sordino.engine.logged import LOG
from sordino.engine.record import RunRecord
from sordino.nodes.log import read_log
from sordino.nodes.provision import SERVER_LOG
from sordino.privacy.ledger import Ledger
from sordino.privacy.ledger_file import read_book

HERE = "federation"
"""The folder of a federation where nobody says otherwise."""


@dataclass
class NodeSeen:
    """One node, as the server's log tells of it."""

    name: str
    state: str = "not asked yet"
    last: str = ""
    """When something was last heard of it, in UTC."""
    answered: int = 0
    missed: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float | None = None
    """How long its last answer took, together with the others of the cohort."""

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass
class Overseer:
    """Looks at one run again and again; the ledger is priced anew only where it has grown."""

    folder: Path
    _head: str = field(default="", init=False)
    _epsilon: dict[View, float] = field(default_factory=dict, init=False)

    @property
    def begun(self) -> bool:
        """Whether there is anything to look at."""
        return RunRecord(self.folder).experiment.exists()

    def look(self) -> dict[str, Any]:
        """Rounds, ε of each view so far, and each node's state, bytes and last sign of life."""
        record = RunRecord(self.folder)
        if not self.begun:
            raise SordinoError(f"A run was expected in {self.folder}, but it holds none; check the path.")
        found = record.read_experiment()
        experiment = found["experiment"]
        rows = read_log(self.folder / LOG)
        begun = _last(rows, "begun")
        done = _last(rows, "round").get("done", begun.get("done", 0))
        ended = _last(rows, "ended") if not rows or rows[-1]["event"] == "ended" else {}
        metrics = record.read_metrics()[-1:]
        self._price(record.ledger)
        return {
            "folder": str(self.folder),
            "name": experiment["name"],
            "finished": record.summary.exists(),
            "ended": ended.get("because", ""),
            "rounds": experiment["rounds"],
            "rounds_done": experiment["rounds"] if record.summary.exists() and not rows else done,
            "accuracy": metrics[0].get("accuracy") if metrics else None,
            "view": experiment["privacy"]["view"],
            "budget": experiment["privacy"]["epsilon"],
            "epsilon": dict(self._epsilon),
            "nodes": [node.to_json() for node in nodes_seen([*rows, *_seen_by_server(found, rows)]).values()],
            "logged": bool(rows),
        }

    def _price(self, ledger: Path) -> None:
        book = read_book(ledger)
        if book.head != self._head:
            priced = Ledger.of_book(book)
            self._epsilon = {view: priced.worst(view).epsilon for view in VIEWS}
            self._head = book.head


def nodes_seen(rows: list[dict[str, Any]]) -> dict[str, NodeSeen]:
    """Every node that a log speaks of, in the order of first mention."""
    nodes: dict[str, NodeSeen] = {}
    for row in rows:
        if "node" not in row:
            continue
        node = nodes.setdefault(row["node"], NodeSeen(row["node"]))
        if row["event"] == "answered":
            node.answered += 1
            node.bytes_up += row["bytes_up"]
            node.bytes_down += row["bytes_down"]
            node.seconds, node.last = row["seconds"], row["time"]
            node.state = f"answered round {row['round'] + 1}"
        elif row["event"] == "missing":
            node.missed += 1
            node.state = f"missed round {row['round'] + 1}: {row['because']}"
        elif row["event"] == "seen":
            node.state = row["status"]
            node.last = row["time"] if row["status"] == "online" else node.last
    return dict(sorted(nodes.items()))


def _seen_by_server(found: dict[str, Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the server of a federation has seen of nodes since the last thing that the run's own log tells."""
    engine = found["experiment"]["engine"]
    if engine["name"] != "flower":
        return []
    federation = Path(found["facts"]["folder"]) / (engine["federation"] or HERE)
    since = rows[-1]["time"] if rows else ""
    return [row for row in read_log(federation / SERVER_LOG) if row["time"] > since]


def seconds_ago(time: str) -> float:
    """How long ago a time of a log was."""
    return max(0.0, (dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(time)).total_seconds())


def _last(rows: list[dict[str, Any]], event: str) -> dict[str, Any]:
    return next((row for row in reversed(rows) if row["event"] == event), {})
