"""Methods whose clients end up with a model of their own: what such a method tells the engine, and how heads are tuned.

Formal guarantee: joint ("billboard") DP. What is shared has the ledger's ε; each client's own model is made from what is
shared and the client's own rows, so it hides every *other* client equally well and its owner not at all. Personal models
and their metrics are therefore outside the ledger's ε. Amplification by Poisson sampling survives personal state: a round's
coin is fresh whatever the state has become, so given all else the round is a mixture of sampled Gaussians of shift ≤ C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sordino.core import SordinoError
from sordino.data.examples import Examples
from sordino.methods.local_sgd import LocalSgd
from sordino.methods.method import ClientContext, Method, State
from sordino.models import FlatSpace, Net, draw_dropout_from
from sordino.settings import AtLeastOne, Positive

OUTSIDE = (
    "Personal models and their metrics are outside ε (joint, billboard DP): each client's own model hides the other clients, "
    "not its owner."
)
CHUNK = 512


@dataclass(frozen=True, kw_only=True)
class Personalised(Method):
    """A method whose clients end up with models of their own, and the settings of the head's tuning on a client's rows."""

    head_epochs: AtLeastOne = 15
    head_batch_size: AtLeastOne = 32
    head_learning_rate: Positive = 0.01

    personalised: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True

    def check(self, net: Net, shared: FlatSpace) -> None:
        """Refuse a model that this method cannot split, before anything is trained."""
        if not net.parts()["head"]:
            raise SordinoError("A personalised method needs a model with a head to tune, but this one has none.")
        if not shared.size:
            raise SordinoError(
                "The head stays with its client and is all that would be trained, so nothing would be shared; "
                "choose a model with a body such as 'mlp' or 'cnn', and tuning = 'full'."
            )

    def welcome(self, state: State, first: Tensor, examples: Examples, context: ClientContext) -> None:
        """Make `context.net` the model of a client that joins when training is over: it tunes a head, and nothing else."""
        context.space.write(context.net, state["model"])
        self.tune_head(examples, context)

    def tune_head(self, examples: Examples, context: ClientContext) -> None:
        """Train the head of `context.net` on the cached outputs of its body."""
        net = context.net
        sgd = LocalSgd(epochs=self.head_epochs, batch_size=self.head_batch_size, learning_rate=self.head_learning_rate)
        features, labels = body_outputs(net, examples, context.device), examples.labels.to(context.device)
        draw_dropout_from(net, context.generator("head dropout"))
        parameters: list[Tensor] = list(net.head.parameters())
        batches = context.generator("head batches")
        sgd.descend(parameters, sgd.gradients_of(net.head, parameters, features, labels, batches))


def head_space(net: Net) -> FlatSpace:
    return FlatSpace(net, net.parts()["head"])


def body_outputs(net: Net, examples: Examples, device: torch.device) -> Tensor:
    """The body's outputs, each computed once, without dropout."""
    net.eval()
    with torch.no_grad():
        chunks = [net.body(part) for part in examples.features(device).split(CHUNK)]
    net.train()
    return torch.cat(chunks)
