"""A start kit: the folder that the operator of a node is handed.

| file | what |
|---|---|
| `node.toml` | the node's name, where the server is, and which port it uses on this machine |
| `node.key`, `node.pub` | the node's own key, mode 0600, and its public half |
| `ca.crt` | the authority that must have signed the server's certificate |
| `limits.toml` | what the operator allows, whoever asks |
| `README.md` | one page for the operator |

What the node remembers (its ledger, spent grants, personal heads) is not here, so a kit can be installed again: see `state`.
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from sordino.core import SordinoError
from sordino.files import make_folder, write_whole
from sordino.nodes.authority import CA_CERTIFICATE, check_address
from sordino.nodes.keys import NodeKey
from sordino.nodes.pages import kit_readme, node_toml
from sordino.nodes.roster import check_name
from sordino.sentences import first_line
from sordino.settings import not_toml, validated

NODE, KEY, PUBLIC, LIMITS, README = "node.toml", "node.key", "node.pub", "limits.toml", "README.md"
Port = Annotated[int, Field(ge=1, le=65535)]
SERVER_PORT, NODE_PORT = 9092, 9094


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """The settings of `node.toml`."""

    name: str
    server: str
    """Host name or IP address of the server, as it stands in its certificate."""
    port: Port = SERVER_PORT
    """Of the server: the one port that a node must reach."""
    local_port: Port = NODE_PORT
    """On the node's own loopback, between its two processes; each node on one machine needs its own."""

    def __post_init__(self) -> None:
        check_name(self.name)
        check_address(self.server)

    @property
    def address(self) -> str:
        host = f"[{self.server}]" if ":" in self.server else self.server
        return f"{host}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class Kit:
    """A kit on disk."""

    folder: Path
    facts: NodeFacts

    @staticmethod
    def read(folder: Path) -> Kit:
        """The kit in this folder, with all its files; the first thing that is missing or wrong is an error."""
        for name in (NODE, KEY, CA_CERTIFICATE, LIMITS):
            if not (folder / name).is_file():
                raise SordinoError(
                    f"A kit of `sordino provision` was expected in {folder}, but {name} is missing; copy the whole folder again."
                )
        kit = Kit(folder=folder, facts=validated(NodeFacts, read_toml(folder / NODE), where=NODE))
        kit.node_key()
        return kit

    @staticmethod
    def write(folder: Path, facts: NodeFacts, *, key: NodeKey | None, public: bytes, ca: bytes, limits: str) -> Kit:
        """A new kit; without a `key` where the node has made its own. Limits that are there already are the operator's."""
        make_folder(folder)
        if key is not None:
            key.write(folder / KEY, folder / PUBLIC)
        else:
            write_whole(folder / PUBLIC, public)
        write_whole(folder / CA_CERTIFICATE, ca)
        write_whole(folder / NODE, node_toml(dataclasses.asdict(facts)).encode())
        write_whole(folder / README, kit_readme(facts.name, facts.address, own_key=key is None).encode())
        if not (folder / LIMITS).exists():
            write_whole(folder / LIMITS, limits.encode())
        return Kit(folder=folder, facts=facts)

    @property
    def private_key(self) -> Path:
        return self.folder / KEY

    @property
    def public_key(self) -> Path:
        return self.folder / PUBLIC

    @property
    def ca_certificate(self) -> Path:
        return self.folder / CA_CERTIFICATE

    @property
    def limits(self) -> Path:
        return self.folder / LIMITS

    def node_key(self) -> NodeKey:
        return NodeKey.read(self.private_key)


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a table, with a sentence for what is wrong."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SordinoError(f"{path} cannot be read ({first_line(error)}); check the path.") from error
    except (ValueError, RecursionError) as error:
        raise SordinoError(not_toml(path, error)) from error
