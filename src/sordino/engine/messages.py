"""What passes between the server's side and a client: a request with its grants, and one answer.

Both are plain data. `wire` writes them as bytes; in one process they are handed over as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from sordino.core import Bounded, Released
from sordino.methods.jobs import Job
from sordino.privacy.clipping import Clip
from sordino.privacy.grant import Grant
from sordino.tuning.survey import Survey

Kind = Literal["update", "support", "steps", "survey", "score"]
"""What is asked for: a clipped update; one noised on the client's own support; a model trained by noisy steps; numbers about the
rows; right answers on held-out rows."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What one client is asked to do, and what it may release for it."""

    kind: Kind
    client: int
    round: int
    repeat: int = 0
    """How often something was asked in this round before: coins are flipped under other names then."""
    model: Tensor
    """What the client is sent: released values, as one flat tensor."""
    upload_shape: tuple[int, ...]
    """The shape of the update that is expected back."""
    job: Job | Survey | None = None
    clip: Clip
    grants: Mapping[str, Grant]
    """What was charged, by what it is for: one grant `update`, or one for each number of a survey."""
    server_noises: bool = False
    """Whether the server adds the noise, so that the client hands out its bounded value."""

    @property
    def nonce(self) -> str:
        """A name for the request: that of its first grant."""
        return next(iter(self.grants.values())).nonce

    @property
    def grant(self) -> Grant:
        """The grant of a request that has one."""
        (only,) = self.grants.values()
        return only


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one client hands out: released values, or bounded ones where the server adds the noise."""

    client: int
    released: Mapping[str, Released[Tensor]] = field(default_factory=dict)
    bounded: Mapping[str, Bounded] = field(default_factory=dict)
    clip_bound: float | None = None
    """Where the clip moves inside the client, the bound of the next step; it is made of released counts."""


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A client that did not answer, or not as it was asked: its seat stays empty."""

    client: int
    because: str
