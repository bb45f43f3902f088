"""A sign of life for a task of Flower, every few seconds, from a thread of its own."""

from __future__ import annotations

import contextlib
import threading

import httpx
from flwr.proto.runtime_pb2 import SendTaskHeartbeatRequest
from flwr.supercore.runtime import RuntimeHttpClient

_EVERY_SECONDS = 10.0


class Heartbeat:
    """Beats until it is stopped; `refused` says that the task no longer counts. It never raises a signal, as Flower's own does."""

    def __init__(self, client: RuntimeHttpClient) -> None:
        self._client = client
        self._stopped = threading.Event()
        self.refused = False
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _beat(self) -> None:
        while not self._stopped.is_set() and not self.refused:
            with contextlib.suppress(httpx.TransportError):
                self.refused = not self._alive()
            self._stopped.wait(_EVERY_SECONDS)

    def _alive(self) -> bool:
        try:
            return bool(self._client.SendTaskHeartbeat(SendTaskHeartbeatRequest()).success)
        except httpx.HTTPStatusError as error:
            return error.response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR
