"""A node's own rows: read from its own file, prepared as the experiment says, and never sent anywhere."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from sordino.core import SordinoError
from sordino.data.evaluation_rows import Charged, Elsewhere
from sordino.data.examples import Examples
from sordino.data.holding_out import hold_out
from sordino.data.partition import Partition
from sordino.data.preparation import Preparation
from sordino.data.source import Source, load
from sordino.engine.client.session import Entered
from sordino.engine.features import cached_outputs
from sordino.engine.flower.declaration import Declaration
from sordino.engine.guessed_words import refuse_guessed_words
from sordino.engine.hello import model_weights
from sordino.engine.resolved import Resolved
from sordino.engine.wire.message import Message
from sordino.models import Net

_HOLD_OUT_STREAM = 4


@dataclass(frozen=True, kw_only=True)
class OwnRows:
    """The rows of one node as one experiment uses them."""

    source: Source
    train: Examples
    held_out: Examples | None

    @staticmethod
    def read(file: Path, resolved: Resolved) -> OwnRows:
        """Read a node's file; what only its rows could tell, such as undeclared classes, is refused."""
        check_declared(resolved)
        settings = dataclasses.replace(resolved.source, source=str(file), limit=None, client_column=None)
        source = load(settings, seed=resolved.experiment.seed, test=Elsewhere())
        refuse_guessed_words(resolved, source)
        rows = resolved.test_rows
        if not isinstance(rows, Charged):
            return OwnRows(source=source, train=source.train, held_out=None)
        everything = Partition(np.arange(len(source.train)), np.array([0, len(source.train)]))
        rng = np.random.default_rng([resolved.experiment.seed, _HOLD_OUT_STREAM])
        train, held = hold_out(everything, rows.fraction, rng)
        taken = [source.train.take(torch.from_numpy(part.indices)) for part in (train, held)]
        return OwnRows(source=source, train=taken[0], held_out=taken[1])

    def declared(self, name: str) -> Declaration:
        """What the server may know."""
        return Declaration(
            name=name,
            rows=len(self.train),
            held_out=0 if self.held_out is None else len(self.held_out),
            preparation=Preparation.of(self.source).to_json(),
        )

    def entered(self, message: Message, whole: Net) -> Entered:
        """A phase begins: the whole model at the server's weights, or its head on what its body makes of the rows here."""
        whole.load_state_dict(model_weights(message))
        if not message.content["on_features"]:
            return Entered(net=whole, rows=self.train, held_out=self.held_out)
        here = torch.device("cpu")
        rows = cached_outputs(whole, self.train, here)
        held_out = None if self.held_out is None else cached_outputs(whole, self.held_out, here)
        return Entered(net=Net(body=nn.Identity(), head=whole.head), rows=rows, held_out=held_out)


def check_declared(resolved: Resolved) -> None:
    """Refuse a plan for which a node's rows would have to tell the classes."""
    if resolved.source.class_count is None and resolved.source.number is None:
        raise SordinoError(
            "On real nodes the classes are part of the plan, because a node's rows must not tell them; write [data.options] classes = "
            "[...] or their number."
        )
