"""What the process beside a node's rows says to each letter.

| letter | what it says |
|---|---|
| `meet` | how many rows are here and how they are prepared, or why it does not take part |
| `begin`, `enter` | `done` once it has agreed to the plan and taken up the model, or `refused` |
| `ask` | `answer`, or `refused`; `unknown` where it has not heard of the run, so that the server begins again |
| `recall` | `done`: it is where it was after so many rounds |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sordino import __version__
from sordino.core import SordinoError
from sordino.engine.client.limits import read_limits
from sordino.engine.client.session import Own, Session
from sordino.engine.flower.kept import Kept
from sordino.engine.flower.own_rows import OwnRows, check_declared
from sordino.engine.hello import Beginning
from sordino.engine.noise_sources import client_noise_seed
from sordino.engine.resolved import Resolved, resolve
from sordino.engine.wire.message import Message
from sordino.experiment import experiment as checked
from sordino.nodes.log import JsonLog
from sordino.nodes.state import LOG

UNFIT = (
    "The rows of node {} do not fit this plan; its operator sees why with `sordino preflight KIT --data FILE --experiment FILE`, and only "
    "there, because the reason may name a row."
)


@dataclass(kw_only=True)
class NodeWorker:
    """A node's part in whatever run it is asked about."""

    name: str
    data: Path
    state: Path
    limits: Path
    rehearsal: bool
    server: str
    _session: Session | None = field(default=None, init=False)
    _run: str = field(default="", init=False)
    _kept: Kept | None = field(default=None, init=False)
    _rows: dict[str, OwnRows] = field(default_factory=dict, init=False)

    def say(self, letter: bytes) -> Message:
        """To one letter; what goes wrong is told as a sentence, to the server and in the node's own log."""
        content: Mapping[str, Any] = {}
        try:
            message = Message.from_bytes(letter)
            content = message.content
            said = self._said_to(message)
        except SordinoError as error:
            self._log("refused", because=str(error), run=content.get("run"), round=content.get("round"))
            return Message(content={"what": "refused", "because": str(error)})
        if said.content["what"] == "answer":
            lines = [grant["line"] for grant in content["grants"].values()]
            self._log("released", run=self._run, round=content["round"], kind=content["kind"], line=lines[0])
        return said

    def _log(self, event: str, **facts: Any) -> None:
        JsonLog(self.state / LOG).write(event, **facts)

    def _said_to(self, message: Message) -> Message:
        what, content = message.content["what"], message.content
        if what == "meet":
            return self._meet(message)
        if what == "begin":
            return self._begin(message)
        if self._session is None or content.get("run") != self._run:
            return Message(content={"what": "unknown"})
        if what == "enter":
            self._kept = Kept(self.state / "runs" / self._run / _phase_name(content["names"]))
        if what == "recall":
            self._recall(int(content["rounds"]))
            return Message(content={"what": "done"})
        said = self._session.handle(message)
        if what == "ask" and self._session.personal is not None and self._kept is not None:
            self._kept.save(self._session.personal, int(content["round"]) + 1)
            self._kept.forget_before(int(content["kept"]))
        return said

    def _meet(self, message: Message) -> Message:
        theirs = message.content["version"]
        if theirs != __version__:
            raise SordinoError(
                f"The server has sordino {theirs}, but this node has {__version__}; install the same version on both sides."
            )
        read_limits(self.limits).check_parts(message.content["experiment"])
        resolved = resolve(checked(message.content["experiment"]))
        ours = resolved.experiment.fingerprint()
        if ours != message.content["fingerprint"]:
            raise SordinoError(
                f"The plan has fingerprint {message.content['fingerprint']} at the server, but {ours} here; install the same version of "
                "sordino on both sides."
            )
        self._refuse_seeded(resolved)
        return self._own_rows(resolved).declared(self.name).to_message()

    def _begin(self, message: Message) -> Message:
        begin = Beginning.from_message(message)
        limits = read_limits(self.limits)
        limits.check_parts(begin.experiment)
        resolved = resolve(checked(begin.experiment))
        self._refuse_seeded(resolved)
        rows = self._own_rows(resolved)
        _compare_sizes(begin, rows)
        seed = client_noise_seed(resolved.experiment.seed, begin.client) if resolved.simulated else None
        own = Own(
            folder=self.state / "runs" / begin.run,
            ledger=self.state / "ledger.jsonl",
            limits=limits,
            noise_seed=seed,
            server=self.server,
        )
        self._session, self._run = Session(begin, own, rows), begin.run
        name, plan = resolved.experiment.name, resolved.experiment.fingerprint()
        self._log("agreed", run=begin.run, name=name, server=self.server, plan=plan)
        return Message(content={"what": "done"})

    def _recall(self, rounds: int) -> None:
        if self._session is not None and self._session.personal is not None and self._kept is not None:
            self._kept.recall(self._session.personal, rounds)

    def _own_rows(self, resolved: Resolved) -> OwnRows:
        """Read once for each way in which experiments use them. What is wrong with rows may name one, so it is not told."""
        check_declared(resolved)
        data = resolved.experiment.data
        key = repr((resolved.source, data.test, resolved.experiment.seed))
        if key not in self._rows:
            try:
                self._rows = {key: OwnRows.read(self.data, resolved)}
            except SordinoError as error:
                raise SordinoError(UNFIT.format(self.name)) from error
        return self._rows[key]

    def _refuse_seeded(self, resolved: Resolved) -> None:
        if resolved.simulated and not self.rehearsal:
            raise SordinoError(
                f"Node {self.name} draws its noise in secret, but the plan has [privacy] noise_source = 'seeded', which anybody could "
                "subtract; set noise_source = 'secure'."
            )


def _phase_name(names: Sequence[str]) -> str:
    """A folder for what is kept while these parameters are trained."""
    return f"phase-{blake2b(json.dumps(list(names)).encode(), digest_size=8).hexdigest()}"


def _compare_sizes(begin: Beginning, rows: OwnRows) -> None:
    """Refuse a plan that was made for other rows than are here."""
    held_out = 0 if rows.held_out is None else len(rows.held_out)
    planned = (begin.sizes[begin.client], begin.held_out[begin.client] if begin.held_out else 0)
    if planned != (len(rows.train), held_out):
        raise SordinoError(
            f"The plan counts on {planned[0]} rows to train on and {planned[1]} held out, but here are {len(rows.train)} and {held_out}: "
            "the data file has changed since this node declared it; begin a new run."
        )
