"""An onlooker who undoes the correlation of noise over rounds: what is left has fresh noise in every round.

With N = C⁻¹·Z, the rows of C·Y have independent noise Z. A contribution to round s shows in the rows s to s + bands − 1, along
column s of C, whose norm is 1: its whole trace, along that column, is one release with the multiplier that was charged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from sordino.privacy.banded_matrix import BandedMatrix

Traces = list[tuple[int, Tensor]]


@dataclass
class Decorrelated:
    """Is shown the sums of rounds in a row."""

    matrix: BandedMatrix
    _recent: dict[int, Tensor] = field(default_factory=dict)
    _traces: dict[int, Tensor] = field(default_factory=dict)

    def add(self, round_number: int, value: Tensor) -> tuple[Tensor, Traces]:
        """The round's row of C·Y, and of every round whose trace ends here the trace."""
        done: Traces = []
        if any(recent.shape != value.shape for recent in self._recent.values()):  # a new phase begins a new block
            done += self._traces.items()
            self._recent.clear()
            self._traces.clear()
        self._recent[round_number] = value
        self._traces[round_number] = torch.zeros_like(value)
        row = sum((self._entry(round_number, begun) * shown for begun, shown in self._recent.items()), torch.zeros(()))
        for begun, trace in self._traces.items():
            trace.add_(row, alpha=self._entry(round_number, begun))
        last = round_number + 1 == self.matrix.rounds
        for begun in [one for one in self._recent if last or round_number - one == self.matrix.bands - 1]:
            del self._recent[begun]
            done.append((begun, self._traces.pop(begun)))
        return row, done

    def _entry(self, row: int, column: int) -> float:
        """C[row, column]."""
        return self.matrix.diagonal(column) * float(self.matrix.ratios[row - column])
