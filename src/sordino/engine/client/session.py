"""A client's part in one run, in whatever process it lives: it agrees or refuses, enters phases, and answers requests.

Where rows come from differs between engines, and is handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from sordino.core import Private, SordinoError
from sordino.data.examples import Examples
from sordino.engine.client.guard import OwnGuard
from sordino.engine.client.lifetime import LifetimeLedger
from sordino.engine.client.limits import Limits
from sordino.engine.client.personal_store import PersonalStore
from sordino.engine.client.runtime import ClientRuntime
from sordino.engine.hello import Beginning, examples_of, parameter_shapes
from sordino.engine.messages import Request
from sordino.engine.resolved import resolve
from sordino.engine.run_facts import run_facts
from sordino.engine.setup import make_parts
from sordino.engine.tariff import Multipliers
from sordino.engine.wire.codec import decode_request, encode_answer
from sordino.engine.wire.message import Message
from sordino.experiment import experiment as checked
from sordino.kernels import fastest
from sordino.kernels.choice import leave_to_torch
from sordino.methods.context import ClientContext
from sordino.models import FlatSpace, Net
from sordino.models.state import Unmoved
from sordino.privacy.door import ClientDoor
from sordino.privacy.noise import SecureNoise, SeededNoise
from sordino.settings import validated
from sordino.tuning import Task


@dataclass(frozen=True, kw_only=True)
class Own:
    """What is the client's own, whoever asks."""

    folder: Path
    """For what it keeps."""
    ledger: Path
    """Its lifetime ledger."""
    limits: Limits
    noise_seed: int | None = None
    """Of this client's noise alone, in a simulation; None where noise is secure."""
    server: str = ""
    """Whom the client works for, as it knows the server."""

    @staticmethod
    def told(content: Mapping[str, Any]) -> Own:
        """In a simulation the engine says it, beside the plan."""
        folder = Path(content["folder"])
        return Own(
            folder=folder,
            ledger=folder / "ledger.jsonl",
            limits=validated(Limits, content["limits"], where="limits"),
            noise_seed=content["noise_seed"],
        )


@dataclass(frozen=True, kw_only=True)
class Entered:
    """What a client trains in one phase: a model at the weights it was sent, and rows as that model takes them."""

    net: Net
    rows: Examples
    held_out: Examples | None


class RowSource(Protocol):
    """Where a client's rows come from."""

    def entered(self, message: Message, whole: Net) -> Entered:
        """Load the weights of an `enter` message into the whole model, or its head, and find the rows that go with it."""
        ...


@dataclass
class _Phase:
    """What a client works with in one phase of a run."""

    net: Net
    space: FlatSpace
    runtime: ClientRuntime
    unmoved: Unmoved


class Session:
    """One client of one run."""

    def __init__(self, begin: Beginning, own: Own, rows: RowSource) -> None:
        self._begin, self._own, self._rows = begin, own, rows
        own.limits.check_parts(begin.experiment)
        parts = make_parts(
            resolve(checked(begin.experiment)),
            task=Task(shape=begin.shape, classes=begin.classes),
            vocabulary=begin.vocabulary,
            sizes=begin.sizes,
            settled=Multipliers.from_json(begin.multipliers),
        )
        self._resolved, self._whole, self._tariff = parts.resolved, parts.model.net, parts.tariff
        _compare_shapes(begin.parameters, parameter_shapes(self._whole))
        leave_to_torch(self._whole, begin.left_to_torch)
        seed = own.noise_seed
        self._door = ClientDoor(SecureNoise() if seed is None else SeededNoise(seed))
        self._guard = OwnGuard(
            client=begin.client,
            limits=own.limits,
            ledger=LifetimeLedger(own.ledger),
            run=begin.run,
            server=own.server,
            repeatable=seed is not None,
            experiment=self._resolved.experiment,
            tariff=self._tariff,
        )
        self._guard.agree()
        self._phase: _Phase | None = None

    def handle(self, message: Message) -> Message:
        """One message from the server, and what is said to it."""
        what = message.content["what"]
        if what == "ask":
            return self._answer(message)
        if what == "enter":
            self._enter(message)
        elif what == "keep" and self.personal is not None:
            self.keep(self.personal, _plain_name(message))
        elif what == "recall" and self.personal is not None:
            self.recall(self.personal, _plain_name(message))
        return Message(content={"what": "done"})

    def keep(self, personal: PersonalStore, name: str) -> None:
        """Write down what the client keeps, under a name of the server's."""
        personal.save(self._own.folder / name)

    def recall(self, personal: PersonalStore, name: str) -> None:
        personal.load(self._own.folder / name)

    @property
    def personal(self) -> PersonalStore | None:
        """What the client keeps, where the method lets it keep something."""
        return None if self._phase is None else self._phase.runtime.personal

    def _enter(self, message: Message) -> None:
        begin, method = self._begin, self._resolved.method
        entered = self._rows.entered(message, self._whole)
        net, rows, held_out = entered.net, entered.rows, entered.held_out
        net.train()
        personal = None
        if method.keeps_state:
            personal = PersonalStore(clients=len(begin.sizes), first=method.first_personal(net))
        runtime = ClientRuntime(
            client=begin.client,
            rows=lambda: Private(rows),
            held_out=None if held_out is None else lambda: Private(_some(held_out)),
            tariff=self._tariff,
            door=self._door,
            personal=personal,
            anchors=examples_of(message, "anchors"),
            guard=self._guard,
        )
        unmoved, space = Unmoved(net), FlatSpace(net, message.content["names"])
        self._phase = _Phase(net=fastest(net), space=space, runtime=runtime, unmoved=unmoved)

    def _answer(self, message: Message) -> Message:
        phase = self._phase
        if phase is None:
            raise SordinoError("A request came before its phase began; nothing is released for it.")
        survey = self._resolved.tuning.survey
        request = decode_request(
            message,
            self._resolved.method,
            lambda: survey(self._whole, run_facts(self._resolved, self._begin.sizes)),
        )
        answer = phase.runtime.answer(request, self._context(request, phase))
        phase.unmoved.check(phase.net)
        return encode_answer(answer, request.nonce)

    def _context(self, request: Request, phase: _Phase) -> ClientContext:
        begin = self._begin
        sizes = begin.held_out if request.kind == "score" else begin.sizes
        return ClientContext(
            net=phase.net,
            space=phase.space,
            client=begin.client,
            round=request.round,
            size=sizes[begin.client],
            seed=self._resolved.experiment.seed,
            device=torch.device("cpu"),
        )


def _compare_shapes(theirs: Mapping[str, list[int]], ours: Mapping[str, list[int]]) -> None:
    """Refuse a model that is another here than at the server, with the first parameter that differs."""
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        if theirs.get(name) != ours.get(name):
            raise SordinoError(
                f"The model's parameter {name!r} has shape {ours.get(name)} here, but {theirs.get(name)} at the server; install the same "
                "version of sordino, and of parts of your own, on both sides."
            )


def _plain_name(message: Message) -> str:
    """The name of a file inside the client's own folder, and nowhere else."""
    return Path(str(message.content["file"])).name


def _some(examples: Examples | None) -> Examples:
    assert examples is not None
    return examples
