"""Where a client's work happens: which client, which round, and a stream of randomness of its own."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

from sordino.models import FlatSpace, Net
from sordino.privacy.streams import stream_id


@dataclass(frozen=True, kw_only=True)
class PublicContext:
    """What is public of a client's turn."""

    space: FlatSpace
    """The trained coordinates of the model, and how they lie in one flat tensor."""
    client: int
    round: int
    size: int
    """How many rows the client holds, declared public."""
    seed: int
    device: torch.device

    def generator(self, purpose: str) -> torch.Generator:
        """Randomness that is the same whenever this client does the same thing in the same round."""
        generator = torch.Generator()
        generator.manual_seed(stream_id(self.seed, purpose, self.round, self.client))
        return generator


@dataclass(frozen=True, kw_only=True)
class ClientContext(PublicContext):
    """The same for work that sees the client's rows, with a model to work in."""

    net: Net

    def public(self) -> PublicContext:
        """Without the model, which rows have passed through."""
        return PublicContext(**{field.name: getattr(self, field.name) for field in dataclasses.fields(PublicContext)})
