"""Parts replaced for a while by broken ones, and put back whatever happens."""

from __future__ import annotations

from types import TracebackType
from typing import Any


class Patches:
    """Use as `with Patches() as patch: patch.setattr(owner, "name", broken)`."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> Patches:
        return self

    def setattr(self, owner: Any, name: str, value: Any) -> None:
        self._before.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for owner, name, value in reversed(self._before):
            setattr(owner, name, value)
