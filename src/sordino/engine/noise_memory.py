"""What mechanisms keep from round to round, as entries of the checkpoint: as secret as the data, and never published."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

PREFIX = "noise memory: "


def memory_entries(memory: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """As entries of a checkpoint."""
    return {f"{PREFIX}{name}": value for name, value in memory.items()}


def take_memory(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Take the entries out of a checkpoint's state, in place."""
    found = [key for key in state if key.startswith(PREFIX)]
    return {key.removeprefix(PREFIX): state.pop(key) for key in found}
