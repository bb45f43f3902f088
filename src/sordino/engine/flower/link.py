"""The way from a run to its nodes: which clients are which nodes, and parcels to all of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sordino.core import SordinoError
from sordino.engine.flower.control import Control
from sordino.engine.flower.mailbox import Mailbox, Outgoing
from sordino.engine.wire.message import Message
from sordino.nodes.authority import CA_CERTIFICATE
from sordino.nodes.provision import Provision

ROOM = 1 << 16
"""Bytes of what a node says besides numbers."""
_PER_PIECE = 1 << 12
"""Bytes that Flower adds to a parcel of ours, for each letter."""


@dataclass(frozen=True, kw_only=True)
class Letters:
    """What one client is told, and how many bytes it may say to it."""

    client: int
    messages: Sequence[Message]
    largest: int = ROOM


@dataclass(frozen=True, kw_only=True)
class Link:
    """Clients by number are the nodes of the roster, in the order in which they joined."""

    mailbox: Mailbox
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    """Flower's number for each."""

    @staticmethod
    def open(federation: Path) -> Link:
        """To the nodes of a provisioned federation, whose SuperLink must be running."""
        made = Provision(federation)
        facts, members = made.facts, made.roster.active
        if not members:
            raise SordinoError(
                f"The federation in {federation} has no node yet; add some with `sordino provision {federation} --node NAME`."
            )
        host = facts.addresses[0]
        address = f"[{host}]:{facts.port}" if ":" in host else f"{host}:{facts.port}"
        control = Control(address=address, authority=made.server / CA_CERTIFICATE)
        control.agree_with({member.name: member.public for member in members})
        registered = {node.public: node.number for node in control.nodes()}
        names = tuple(member.name for member in members)
        return Link(
            mailbox=Mailbox.open(address, made.server),
            names=names,
            numbers=tuple(registered[b" ".join(member.public.split()[:2])] for member in members),
        )

    def tell(self, letters: Sequence[Letters], *, seconds: float) -> dict[int, list[Message] | str]:
        """By client, what it says to each message; or why nothing is heard of it."""
        parcels = [
            Outgoing(
                node=self.numbers[one.client],
                name=self.names[one.client],
                letters=[message.to_bytes() for message in one.messages],
                largest=one.largest + _PER_PIECE * (2 + len(one.messages)),
            )
            for one in letters
        ]
        said = self.mailbox.exchange(parcels, seconds=seconds)
        return {one.client: _read(said[self.numbers[one.client]], len(one.messages)) for one in letters}

    def close(self) -> None:
        self.mailbox.close()


def _read(said: list[bytes] | str, expected: int) -> list[Message] | str:
    """The messages in what a node said: one for each that it was told."""
    if isinstance(said, str):
        return said
    if len(said) != expected:
        return f"it said {len(said)} things to {expected} messages"
    try:
        return [Message.from_bytes(letter) for letter in said]
    except SordinoError as error:
        return str(error)


def refusal(said: Sequence[Message]) -> str | None:
    """The sentence of the first message that refuses, if one does."""
    contents: list[Mapping[str, object]] = [message.content for message in said]
    return next((str(content.get("because")) for content in contents if content.get("what") == "refused"), None)
