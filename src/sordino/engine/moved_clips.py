"""Clip bounds that moved: made of released counts alone, and kept with the checkpoint, so that a run resumes with them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

PREFIX = "clip of "


class MovedClips:
    """The bound in force, by client; client 0 stands for all where updates of whole clients are clipped."""

    def __init__(self, bounds: Mapping[int, float] | None = None) -> None:
        self._bounds = dict(bounds or {})

    def of(self, client: int, first: float) -> float:
        return self._bounds.get(client, first)

    def move(self, client: int, bound: float) -> None:
        self._bounds[client] = bound

    def to_state(self) -> dict[str, Tensor]:
        """As entries of a checkpoint."""
        return {
            f"{PREFIX}{client}": torch.tensor([bound], dtype=torch.float64) for client, bound in self._bounds.items()
        }

    @staticmethod
    def taken_from(state: dict[str, Tensor]) -> MovedClips:
        """Take the entries out of a checkpoint's state, in place."""
        found = [key for key in state if key.startswith(PREFIX)]
        return MovedClips({int(key.removeprefix(PREFIX)): float(state.pop(key)) for key in found})
