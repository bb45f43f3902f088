"""A real federation to break: SuperLink and three nodes on loopback, small runs on it, and what must hold after each."""

from __future__ import annotations

import dataclasses
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.engine.flower.dealt_files import deal_out
from sordino.engine.flower.local import LocalFederation
from sordino.engine.moment import Watcher
from sordino.engine.reconcile import reconcile
from sordino.engine.run import run_experiment
from sordino.experiment import Experiment, experiment
from sordino.nodes.kit import Kit, NodeFacts
from sordino.nodes.pages import node_toml

NODES = 3
BASE: dict[str, Any] = {
    "name": "broken",
    "seed": 3,
    "rounds": 3,
    "data": {"source": "digits", "clients": NODES, "options": {"limit": 120, "test_limit": 40}},
    "model": {"name": "mlp", "hidden": [8]},
    "method": {"name": "dp-fedavg", "epochs": 1, "batch_size": 16},
    "privacy": {"noise_multiplier": 1.0, "delta": 1e-3, "noise": "local", "sampler": "everyone"},
    "engine": {"schedule": "workers", "workers": 1, "client_seconds": 30},
}


def table(**changes: Any) -> dict[str, Any]:
    """The base with whole sections changed, or single settings of data, privacy and engine."""
    inner = {"data", "privacy", "engine"}
    return {
        **BASE,
        **{key: {**BASE[key], **own} if key in inner else own for key, own in changes.items()},
    }


@dataclass(kw_only=True)
class Scene:
    """A running federation, and a folder for each case."""

    folder: Path
    local: LocalFederation

    @staticmethod
    @contextmanager
    def made(folder: Path) -> Iterator[Scene]:
        """Nodes that allow everything, also methods without noise; a case sets limits of its own."""
        dealt = deal_out(experiment(BASE), nodes=None, federation=folder / "federation", folder=folder / "data")
        whole = LocalFederation.new(folder / "federation", dealt.files, rehearsal=True)
        for name in whole.files:
            (whole.provision.kit(name) / "limits.toml").write_text("")
        with whole as local:
            yield Scene(folder=folder, local=local)

    @property
    def names(self) -> list[str]:
        return list(self.local.files)

    def experiment(self, **changes: Any) -> Experiment:
        again = self.folder / "again"
        return deal_out(experiment(table(**changes)), nodes=None, federation=self.local.folder, folder=again).experiment

    def run(self, case: str, watch: Watcher = lambda moment: None, **changes: Any) -> tuple[Path, dict[str, Any]]:
        """A run of its own: another name makes another ledger."""
        out = self.folder / "runs" / case
        made = self.experiment(seed=sum(map(ord, case)), **changes)
        return out, run_experiment(dataclasses_name(made, case), out, watch=watch)

    def complaint(self, out: Path, summary: dict[str, Any], *, rounds: int = 3) -> str | None:
        """What does not hold of a run that went on: every round charged as planned, and both ledgers alike."""
        if summary["rounds"] != rounds:
            return f"{summary['rounds']} of {rounds} rounds were done"
        for name in self.names:
            found = reconcile(out / "ledger.jsonl", self.local.state(name) / "ledger.jsonl")
            if found["releases"] + found["empty_turns"] < rounds:
                return f"{name} released {found['releases']} times and missed {found['empty_turns']}, of {rounds}"
        return None


def dataclasses_name(made: Experiment, name: str) -> Experiment:
    return made.model_copy(update={"name": name})


class Proxy:
    """Carries bytes between nodes and the SuperLink, until it is told to drop them: a network that is partitioned."""

    def __init__(self, to: int) -> None:
        self._to, self.dropping = to, threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                node, _ = self._listening.accept()
                link = socket.create_connection(("127.0.0.1", self._to))
                for one, other in ((node, link), (link, node)):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                if not self.dropping.is_set():
                    other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_WR)


@contextmanager
def changed_kit(scene: Scene, name: str, change: Callable[[NodeFacts], NodeFacts]) -> Iterator[None]:
    """The node of this name with another `node.toml` for a while."""
    kit = Kit.read(scene.local.provision.kit(name))
    page = kit.folder / "node.toml"
    before = page.read_bytes()
    page.write_text(node_toml(dataclasses.asdict(change(kit.facts))))
    try:
        yield
    finally:
        page.write_bytes(before)
