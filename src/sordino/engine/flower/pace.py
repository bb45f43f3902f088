"""The pace of a node: Flower's SuperNode has its waiting times as numbers in its code, for work that takes minutes.

| what | Flower | here |
|---|---|---|
| a node asks for work | every 3 s | every 0.3 s after work, then less and less often, at last every second |
| SuperNode and attendant look for each other's messages | every 0.5 s and 1 s | told at once, as threads of one process |
| a piece of a message that is not there yet | again after 1 s, 2 s, ..., for two hours | after 0.1 s, ..., for 30 s |
| a SuperLink that is away is tried again | after 1 s, 2 s, ..., 20 s | after at most 3 s |
| a node that was killed counts as gone, and may come back | after 60 s | after 20 s |

Half a message is what a server leaves behind that was killed while it sent: nobody should wait for the rest of it for long.
"""

from __future__ import annotations

import functools
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from flwr.supercore import heartbeat
from flwr.supercore.inflatable.inflatable_utils import pull_objects
from flwr.supercore.retry import http_retry
from flwr.supernode import fleet_http_connection, start_client_internal

FIRST_SECONDS, LAST_SECONDS, SLOWER = 0.3, 1.0, 1.05
"""Between two questions for work: at first, at most, and how much longer each time. A question costs the SuperLink 20 ms of a core."""
FLOWER_ASKS_SECONDS = 3
"""By this number in Flower's code a wait for work is told from a wait for an answer."""
PIECES_SECONDS = 30.0
HEARTBEAT_SECONDS = 10
"""The least that a SuperLink takes; after twice as long without one a node counts as gone."""
AWAY_SECONDS = 3


@dataclass
class Bell:
    """Tells the SuperNode's thread and the attendant's of each other, so that neither has to ask often."""

    work: threading.Event = field(default_factory=threading.Event)
    """A message has arrived whole."""
    answer: threading.Event = field(default_factory=threading.Event)
    """An answer to it is ready to be sent."""
    _asked: int = 0
    """How often there was no work since there was some."""

    def sleep(self, seconds: float) -> None:
        """In place of `time.sleep` in the SuperNode's loop."""
        if seconds >= FLOWER_ASKS_SECONDS:
            time.sleep(min(FIRST_SECONDS * SLOWER**self._asked, LAST_SECONDS))
            self._asked = min(self._asked + 1, 100)
            return
        self._asked = 0
        self.work.set()
        self.answer.wait(seconds)
        self.answer.clear()


def set_pace(bell: Bell) -> None:
    """Have the SuperNode of this process keep to our times; a Flower without these names is not the one that we know."""
    pull = functools.partial(pull_objects, max_time=PIECES_SECONDS, initial_backoff=0.1, backoff_cap=2.0)
    _replace(start_client_internal, "time", bell)
    _replace(start_client_internal, "pull_objects", pull)
    _replace(http_retry, "MAX_RETRY_DELAY", AWAY_SECONDS)
    for module in (heartbeat, fleet_http_connection):
        _replace(module, "HEARTBEAT_DEFAULT_INTERVAL", HEARTBEAT_SECONDS)


def _replace(module: Any, name: str, value: object) -> None:
    if not hasattr(module, name):
        raise AttributeError(f"{module.__name__} of this Flower has no {name}; see what changed, and mend pace.py.")
    setattr(module, name, value)
