"""Provisioning: from nothing to an authority, a server certificate, a roster and one kit for each node, in one folder.

| in the folder | what |
|---|---|
| `federation.toml` | name, addresses and port of the server |
| `authority/` | `ca.key`, which signs, and `ca.crt`: keep it off the server if you can |
| `server/` | `server.key`, `server.crt`, `ca.crt`, and the secret of the server's own processes |
| `roster.jsonl` | who belongs to the federation, since when, with which key, and who was there before |
| `kits/NAME/` | one kit for each node, to be handed to its operator over a safe way, and then deleted here |
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sordino.core import SordinoError
from sordino.files import SECRET_FILE, locked, make_folder, write_whole
from sordino.nodes.authority import CA_CERTIFICATE, SERVER_DAYS, Authority, check_address
from sordino.nodes.keys import NodeKey, checked_public
from sordino.nodes.kit import NODE, NODE_PORT, SERVER_PORT, Kit, NodeFacts, Port, read_toml
from sordino.nodes.pages import LIMITS_PAGE
from sordino.nodes.roster import RosterFile, check_name
from sordino.settings import validated

SERVER_LOG = "server/log.jsonl"
FEDERATION, ROSTER, SECRET = "federation.toml", "roster.jsonl", "processes.secret"


@dataclass(frozen=True, kw_only=True)
class FederationFacts:
    """The settings of `federation.toml`."""

    name: str = "federation"
    addresses: tuple[str, ...] = field()
    """Host names and IP addresses of the server; nodes are told the first."""
    port: Port = SERVER_PORT

    def __post_init__(self) -> None:
        if not self.addresses:
            raise SordinoError("A federation needs an address of its server; write --server fed.example.org.")
        for address in self.addresses:
            check_address(address)


class Provision:
    """The folder of one federation, at its server's operator.

    Example:
        >>> made = Provision.new(Path("stroke"), FederationFacts(addresses=("fed.example.org",)))
        >>> kit = made.add("north")
        >>> kit.facts.address
        'fed.example.org:9092'
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / FEDERATION).is_file():
            raise SordinoError(
                f"A federation was expected in {folder}, but {FEDERATION} is missing; begin one with `sordino provision {folder} "
                "--server HOST`."
            )
        self.folder = folder
        self.facts = validated(FederationFacts, read_toml(folder / FEDERATION), where=FEDERATION)
        self.roster = RosterFile(folder / ROSTER)

    @staticmethod
    def new(folder: Path, facts: FederationFacts, *, server_days: float = SERVER_DAYS) -> Provision:
        """Begin a federation: authority, server certificate, an empty roster."""
        if (folder / FEDERATION).exists():
            raise SordinoError(
                f"{folder} holds a federation already; add to it without --server, or choose another folder."
            )
        make_folder(folder)
        folder.chmod(0o700)
        with locked(folder / ".lock", busy=f"Another process provisions {folder}; wait for it."):
            authority = Authority.new(facts.name)
            authority.write(folder / "authority")
            authority.write_server(facts.addresses, folder / "server", days=server_days)
            write_whole(folder / "server" / SECRET, secrets.token_hex(32).encode() + b"\n", mode=SECRET_FILE)
            write_whole(folder / FEDERATION, _federation_toml(facts).encode())
        return Provision(folder)

    @property
    def server(self) -> Path:
        """The folder that the server needs: its key and certificate, the authority's certificate, the secret."""
        return self.folder / "server"

    def kit(self, name: str) -> Path:
        return self.folder / "kits" / name

    def add(
        self, name: str, *, limits: str = LIMITS_PAGE, local_port: int | None = None, public: Path | None = None
    ) -> Kit:
        """A new node and its kit; with `public`, the public key that its operator made, the kit has no private one."""
        check_name(name)
        key = None if public is not None else NodeKey.new()
        line = key.public if key is not None else _read_public(public)
        self.roster.add(name, line)
        return self._write(self._facts(name, local_port or self._unused_port()), key, line, limits)

    def rotate(self, name: str, *, public: Path | None = None) -> Kit:
        """Another key for a node; the old one no longer counts. Its limits and its state stay."""
        key = None if public is not None else NodeKey.new()
        line = key.public if key is not None else _read_public(public)
        page = self.kit(name) / NODE
        before = validated(NodeFacts, read_toml(page), where=NODE).local_port if page.is_file() else None
        self.roster.rotate(name, line)
        return self._write(self._facts(name, before or self._unused_port()), key, line, LIMITS_PAGE)

    def remove(self, name: str) -> None:
        """Strike a node off the roster. Its kit, if it is still here, is left alone and is worth nothing."""
        self.roster.remove(name)

    def renew_server(self, addresses: Sequence[str] = (), *, days: float = SERVER_DAYS) -> None:
        """A new certificate for the server, signed by the same authority, so no kit changes."""
        Authority.read(self.folder / "authority").write_server(
            addresses or self.facts.addresses, self.server, days=days
        )

    def _unused_port(self) -> int:
        """One that no kit before had, so that all nodes can be tried on one machine: the roster grows with every kit."""
        return NODE_PORT + len(self.roster.everybody) - 1

    def _facts(self, name: str, local_port: int) -> NodeFacts:
        return NodeFacts(name=name, server=self.facts.addresses[0], port=self.facts.port, local_port=local_port)

    def _write(self, facts: NodeFacts, key: NodeKey | None, public: bytes, limits: str) -> Kit:
        ca = (self.server / CA_CERTIFICATE).read_bytes()
        return Kit.write(self.kit(facts.name), facts, key=key, public=public, ca=ca, limits=limits)


def _read_public(path: Path | None) -> bytes:
    assert path is not None
    try:
        return checked_public(path.read_bytes(), where=path)
    except OSError as error:
        raise SordinoError(f"A public key was expected at {path}, but it cannot be read ({error.strerror}).") from error


def _federation_toml(facts: FederationFacts) -> str:
    return (
        f"name = {json.dumps(facts.name)}\n"
        f"addresses = {json.dumps(list(facts.addresses))}  # of the server; its certificate is made for these\n"
        f"port = {facts.port}  # the one that nodes must reach\n"
    )
