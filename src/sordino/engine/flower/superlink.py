"""Starting a SuperLink: the server that nodes connect to, which carries messages and sees no row."""

from __future__ import annotations

import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from sordino.core import SordinoError
from sordino.engine.flower.leash import Leashed
from sordino.nodes.authority import CA_CERTIFICATE, SERVER_CERTIFICATE, SERVER_KEY
from sordino.nodes.provision import SECRET

READY_SECONDS = 60.0
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class SuperLink:
    """A running SuperLink: TLS, node keys, a database, and no code of runs in its process.

    Example:
        >>> with_kits = Provision(Path("stroke"))
        >>> link = SuperLink.start(with_kits.server, state=Path("stroke/server/state"), host="127.0.0.1", port=9092)
        >>> link.wait_until_ready()
        >>> link.leashed.stop()
    """

    address: str
    server: Path
    """The folder with the server's key and certificate, the authority's, and the secret of the server's own processes."""
    leashed: Leashed

    @staticmethod
    def start(server: Path, *, state: Path, host: str, port: int) -> SuperLink:
        """Start one that listens at `host`; what it knows is in `state`, so that it can be started again after a crash."""
        arguments = [
            *("--host", host),
            *("--port", str(port)),
            *("--ssl-certfile", str(server / SERVER_CERTIFICATE)),
            *("--ssl-keyfile", str(server / SERVER_KEY)),
            *("--ssl-ca-certfile", str(server / CA_CERTIFICATE)),
            *("--database", str(state / "superlink.db")),
            *("--isolation", "process"),
            *("--superexec-auth-secret-file", str(server / SECRET)),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
        ]
        module = "sordino.engine.flower.superlink_process"
        leashed = Leashed.start(module, arguments, log=state / "superlink.log", home=state / "flower")
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return SuperLink(address=shown, server=server, leashed=leashed)

    def wait_until_ready(self, seconds: float = READY_SECONDS) -> None:
        end = time.monotonic() + seconds
        while not is_healthy(self.address, self.server / CA_CERTIFICATE):
            if not self.leashed.running:
                raise SordinoError(
                    f"The SuperLink at {self.address} ended at once ({self.leashed.last_words}); see {self.leashed.log}."
                )
            if time.monotonic() > end:
                raise SordinoError(
                    f"The SuperLink at {self.address} did not answer within {seconds:g} s; see {self.leashed.log}."
                )
            time.sleep(_LOOK_SECONDS)


def is_healthy(address: str, authority: Path) -> bool:
    """Whether a SuperLink answers there, with a certificate of this authority."""
    trusted = ssl.create_default_context(cafile=str(authority))
    try:
        with urllib.request.urlopen(f"https://{address}/health", context=trusted, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
