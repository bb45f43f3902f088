"""A real federation on one machine: SuperLink and nodes on loopback, with TLS, keys, and a data file of its own for each node."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from sordino.engine.flower.control import Control
from sordino.engine.flower.leash import Leashed, stop_all
from sordino.engine.flower.superlink import SuperLink
from sordino.engine.flower.supernode import start_node
from sordino.nodes.authority import CA_CERTIFICATE
from sordino.nodes.kit import Kit
from sordino.nodes.provision import FederationFacts, Provision

HOST = "127.0.0.1"
CONNECT_SECONDS = 120.0


@dataclass(kw_only=True)
class LocalFederation:
    """Everything that it starts is stopped when its `with` block ends, and by the kernel where the process is killed.

    Example:
        >>> with LocalFederation.new(Path("here"), {"north": Path("north.npz")}) as local:
        ...     run_experiment(with_engine_flower, Path("runs/rehearsal"))
    """

    folder: Path
    files: Mapping[str, Path]
    rehearsal: bool = False
    """Whether nodes also answer runs with seeded noise."""
    idle_seconds: float | None = None
    link: SuperLink = field(init=False)
    nodes: dict[str, Leashed] = field(default_factory=dict, init=False)
    _stack: ExitStack = field(default_factory=ExitStack, init=False)

    @staticmethod
    def new(folder: Path, files: Mapping[str, Path], *, rehearsal: bool = False) -> LocalFederation:
        """Keys, certificates and kits in `folder`, for nodes with these data files."""
        server, *own = _free_ports(1 + len(files))
        made = Provision.new(folder, FederationFacts(name=folder.name, addresses=(HOST,), port=server))
        for name, port in zip(files, own, strict=True):
            made.add(name, local_port=port)
        return LocalFederation(folder=folder, files=files, rehearsal=rehearsal)

    @property
    def provision(self) -> Provision:
        return Provision(self.folder)

    @property
    def control(self) -> Control:
        return Control(address=self.link.address, authority=self.provision.server / CA_CERTIFICATE)

    def state(self, name: str) -> Path:
        """What the node of this name remembers."""
        return self.folder / "nodes" / name

    def __enter__(self) -> LocalFederation:
        self._stack.callback(self.stop)
        try:
            self.start_link()
            made = self.provision
            self.control.agree_with({member.name: member.public for member in made.roster.active})
            for name in self.files:
                self.start_node(name)
            self.wait()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start_link(self) -> None:
        made = self.provision
        state = self.folder / "server" / "state"
        self.link = SuperLink.start(made.server, state=state, host=HOST, port=made.facts.port)
        self.link.wait_until_ready()

    def start_node(self, name: str) -> None:
        kit = Kit.read(self.provision.kit(name))
        self.nodes[name] = start_node(
            kit.folder,
            data=self.files[name],
            state=self.state(name),
            rehearsal=self.rehearsal,
            idle_seconds=self.idle_seconds,
        )

    def wait(self, seconds: float = CONNECT_SECONDS) -> None:
        """Until all nodes are connected."""
        self.control.wait_for({name: node.began for name, node in self.nodes.items()}, seconds)

    def stop(self) -> None:
        """Nodes first, so that they take their leave."""
        stop_all(self.nodes.values())
        if hasattr(self, "link"):
            self.link.leashed.stop()


def _free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody has now. Somebody may take one before it is used; then the process there says so."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in sockets]
