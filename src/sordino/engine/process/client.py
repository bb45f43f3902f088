"""A client process: gets its rows and the plan, agrees or refuses, and answers requests until the socket closes.

`python -m sordino.engine.process.client FD` speaks over the socket with this descriptor.
"""

from __future__ import annotations

import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from sordino.core import Private, SordinoError
from sordino.data.examples import Examples
from sordino.engine.client.guard import OwnGuard
from sordino.engine.client.lifetime import LifetimeLedger
from sordino.engine.client.limits import Limits
from sordino.engine.client.personal_store import PersonalStore
from sordino.engine.client.runtime import ClientRuntime
from sordino.engine.messages import Request
from sordino.engine.process.hello import Beginning, examples_of, model_weights
from sordino.engine.resolved import resolve
from sordino.engine.run_facts import run_facts
from sordino.engine.setup import make_parts
from sordino.engine.tariff import Multipliers
from sordino.engine.wire.codec import decode_request, encode_answer
from sordino.engine.wire.frames import receive, send
from sordino.engine.wire.message import Garbled, Message
from sordino.experiment import experiment as checked
from sordino.kernels import fastest
from sordino.methods.context import ClientContext
from sordino.models import FlatSpace, Net
from sordino.models.state import Unmoved
from sordino.outside import look_beside
from sordino.privacy.door import ClientDoor
from sordino.privacy.noise import SecureNoise, SeededNoise
from sordino.settings import validated
from sordino.tuning import Task

LARGEST = 1 << 36
"""Bytes of a message from the server, which is trusted with memory."""


@dataclass
class _Phase:
    """What a client works with in one phase of a run."""

    net: Net
    space: FlatSpace
    runtime: ClientRuntime
    unmoved: Unmoved


class Client:
    """One client of one run."""

    def __init__(self, begin: Beginning) -> None:
        self._begin = begin
        limits = validated(Limits, begin.limits, where="limits")
        limits.check_parts(begin.experiment)
        self._resolved = resolve(checked(begin.experiment))
        parts = make_parts(
            self._resolved,
            task=Task(shape=begin.shape, classes=begin.classes),
            vocabulary=begin.vocabulary,
            sizes=begin.sizes,
            settled=Multipliers.from_json(begin.multipliers),
        )
        self._whole, self._tariff = parts.model.net, parts.tariff
        self._folder = Path(begin.folder)
        seed = begin.noise_seed
        self._door = ClientDoor(SecureNoise() if seed is None else SeededNoise(seed))
        self._guard = OwnGuard(
            client=begin.client,
            limits=limits,
            ledger=LifetimeLedger(self._folder / "ledger.jsonl"),
            run=begin.run,
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
        elif what == "keep" and (kept := self._personal) is not None:
            kept.save(self._folder / message.content["file"])
        elif what == "recall" and (kept := self._personal) is not None:
            kept.load(self._folder / message.content["file"])
        return Message(content={"what": "done"})

    def _enter(self, message: Message) -> None:
        begin, method = self._begin, self._resolved.method
        net = Net(body=nn.Identity(), head=self._whole.head) if message.content["on_features"] else self._whole
        net.load_state_dict(model_weights(message))
        net.train()
        rows, held_out = (examples_of(message, name) for name in ("rows", "held_out"))
        assert rows is not None
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
        assert phase is not None
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

    @property
    def _personal(self) -> PersonalStore | None:
        return None if self._phase is None else self._phase.runtime.personal


def _some(examples: Examples | None) -> Examples:
    assert examples is not None
    return examples


def serve(connection: socket.socket) -> None:
    """Answer until the other side closes; what goes wrong is told as a sentence."""
    client: Client | None = None
    while True:
        try:
            message = receive(connection, largest=LARGEST)
        except (EOFError, ConnectionError, Garbled):
            return
        try:
            if message.content["what"] == "begin":
                client, said = Client(Beginning.from_message(message)), Message(content={"what": "done"})
            else:
                assert client is not None
                said = client.handle(message)
        except SordinoError as error:
            said = Message(content={"what": "refused", "because": str(error)})
        send(connection, said)


def main() -> None:
    torch.set_num_threads(1)
    look_beside(Path(sys.argv[2]))
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        serve(connection)


if __name__ == "__main__":
    main()
