"""Running the server of a federation: the SuperLink, the roster that it keeps to, and who is there."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sordino import __version__
from sordino.core import SordinoError
from sordino.engine.flower.control import ONLINE, Control
from sordino.engine.flower.superlink import SuperLink
from sordino.files import locked, make_folder
from sordino.nodes.authority import CA_CERTIFICATE
from sordino.nodes.log import JsonLog
from sordino.nodes.provision import SERVER_LOG, Provision
from sordino.operating.health import HealthPoint

LOOK_SECONDS = 2.0
EVERYWHERE = "0.0.0.0"

Say = Callable[[str], None]


@dataclass(kw_only=True)
class ServerRun:
    """The server of one federation while it runs. Runs are started beside it, with `sordino run`.

    Args:
        folder: what `sordino provision` made.
        host: the address that it listens at; by default the first of its addresses that is an IP address, else all.
        say: tells the operator a sentence.
    """

    folder: Path
    say: Say
    host: str | None = None
    _link: SuperLink | None = field(default=None, init=False)
    _status: dict[str, str] = field(default_factory=dict, init=False)
    _trouble: str = field(default="", init=False)

    def run(self, *, health_port: int = 0, stop: Callable[[], bool] = lambda: False) -> None:
        """Until `stop` says so, or Ctrl-C."""
        made = Provision(self.folder)
        state = made.server / "state"
        make_folder(state)
        busy = f"Another process serves the federation in {self.folder}; stop that one first."
        with locked(state / ".lock", busy=busy), HealthPoint(health_port, self.facts) as point:
            try:
                self._start(made, state)
                self.say(
                    f"Serving {made.facts.name} for {len(made.roster.active)} nodes at {made.facts.addresses[0]}:{made.facts.port}; health "
                    f"http://127.0.0.1:{point.port}/health."
                )
                while not stop():
                    self._look(state)
                    time.sleep(LOOK_SECONDS)
            finally:
                if self._link is not None:
                    self._link.leashed.stop()

    def facts(self) -> dict[str, Any]:
        """For the health end point."""
        running = self._link is not None and self._link.leashed.running
        return {
            "healthy": running and not self._trouble,
            "because": self._trouble,
            "version": __version__,
            "nodes": dict(self._status),
        }

    def _start(self, made: Provision, state: Path) -> None:
        host = self.host or _listening_at(made.facts.addresses)
        self._link = SuperLink.start(made.server, state=state, host=host, port=made.facts.port)
        self._link.wait_until_ready()

    def _look(self, state: Path) -> None:
        """Keep the SuperLink running and its list of nodes the roster's, and say who came and went."""
        assert self._link is not None
        made = Provision(self.folder)
        if not self._link.leashed.running:
            self.say(f"The SuperLink ended ({self._link.leashed.last_words}); starting it again.")
            with suppress(SordinoError):
                self._start(made, state)
            return
        try:
            control = Control(address=self._link.address, authority=made.server / CA_CERTIFICATE)
            control.agree_with({member.name: member.public for member in made.roster.active})
            found = {node.name: node.status for node in control.nodes()}
            self._trouble = ""
        except SordinoError as error:
            self._trouble = str(error)
            return
        self._tell(found, JsonLog(self.folder / SERVER_LOG))

    def _tell(self, found: dict[str, str], log: JsonLog) -> None:
        for name in {**self._status, **found}:
            now = found.get(name, "struck off")
            if self._status.get(name) != now:
                log.write("seen", node=name, status=now)
                here = sum(status == ONLINE for status in found.values())
                self.say(f"Node {name} is {now}; {here} of {len(found)} are here.")
        self._status = found


def _listening_at(addresses: tuple[str, ...]) -> str:
    for address in addresses:
        with suppress(ValueError):
            return str(ipaddress.ip_address(address))
    return EVERYWHERE
