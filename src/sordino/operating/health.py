"""A health end point on loopback: `GET /health` says in JSON how a node or a server does, for the operator's own monitoring."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from sordino.core import SordinoError
from sordino.files import to_json

HOST = "127.0.0.1"
WELL, UNWELL, NOWHERE = 200, 503, 404


class HealthPoint:
    """Answers until its `with` block ends: 200 where `facts()["healthy"]` is true, else 503, with all facts.

    Example:
        >>> with HealthPoint(0, lambda: {"healthy": True}) as point:
        ...     urllib.request.urlopen(f"http://127.0.0.1:{point.port}/health").status
        200
    """

    def __init__(self, port: int, facts: Callable[[], dict[str, Any]]) -> None:
        try:
            self._server = ThreadingHTTPServer((HOST, port), _handler(facts))
        except OSError as error:
            raise SordinoError(
                f"The health end point cannot have port {port} of loopback ({error.strerror}); choose another with --health."
            ) from error
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> HealthPoint:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(facts: Callable[[], dict[str, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = facts() if self.path == "/health" else {"healthy": False, "because": "ask for /health"}
            body = to_json(found).encode()
            status = NOWHERE if self.path != "/health" else WELL if found["healthy"] else UNWELL
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Nothing: monitoring asks often."""

    return Handler
