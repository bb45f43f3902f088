"""All clients of a run at real nodes, with the simulator's interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sordino.core import SordinoError
from sordino.engine.flower.link import refusal
from sordino.engine.flower.meeting import FarFederated
from sordino.engine.flower.transport import NodeTransport
from sordino.engine.hello import Beginning, enter_message
from sordino.engine.setup import Setup
from sordino.engine.wire.message import Message
from sordino.methods.method import State


class Nodes:
    """One node a client: its rows, its noise, its limits and its ledger are its operator's."""

    def __init__(self, setup: Setup, *, run: str) -> None:
        assert isinstance(setup.loaded, FarFederated)
        self._setup, self._run = setup, run
        self._entered = self._enter_message()
        self._link, self._absent = setup.loaded.link, setup.loaded.absent
        self.transport = NodeTransport(
            link=self._link,
            method=setup.method,
            run=run,
            seconds=setup.experiment.engine.client_seconds,
            introduction=self._introduction,
        )
        self._introduce()

    def enter(self, setup: Setup) -> None:
        """Begin a phase: clients are told with their next request."""
        self._setup = setup
        self._entered = self._enter_message()
        self.transport.begin_again()

    @property
    def zeroed(self) -> int:
        return self.transport.zeroed

    def figures(self, number: int, state: State) -> dict[str, Any]:
        """None: nobody but a client sees its own figures."""
        return {}

    def keep(self, path: Path) -> None:
        """Nodes write down what they keep before they answer; here they only learn what is no longer needed."""
        self.transport.kept = int(path.name.split("-")[1])

    def recall(self, path: Path) -> None:
        """Clients go back to the round of the checkpoint with their next request."""
        self.keep(path)
        self.transport.begin_again()

    def close(self) -> None:
        """The way to the nodes is closed by whoever opened it."""

    def _introduce(self) -> None:
        """Every node agrees to the plan before anything is charged; one that refuses stops the run with its reason."""
        for client, said in self.transport.introduce().items():
            name = self._link.names[client]
            if isinstance(said, str):
                if client in self._absent:
                    continue
                raise SordinoError(f"Node {name} is not ready: {said}")
            because = refusal(said)
            if because is not None:
                raise SordinoError(f"Node {name} refuses this run: {because}")

    def _introduction(self, client: int) -> list[Message]:
        return [Beginning.of(self._setup, client, run=self._run).to_message(), self._entered]

    def _enter_message(self) -> Message:
        """What the phase begins with, as it is now: the model goes on to change."""
        found = enter_message(self._setup, self._setup.whole, {})
        tensors = {name: value.clone() for name, value in found.tensors.items()}
        return Message(content={**found.content, "run": self._run}, tensors=tensors)
