"""Noise that is correlated over rounds: the recursion N = C⁻¹·Z, and the memory that it carries from round to round.

The memory tells earlier rounds' noise, and with it their raw sums. It is as secret as the data: it belongs into the
server's own part of a run record and never into anything that is published.

**Formal guarantee.** Let rows be released in any order, each charged as one Gaussian release to a pool of clients of its
round. A row continues the matrix where it is the round after the row before, no row can have been lost in between, and it
has the same scale, size and matrix. Any other row begins a new block: earlier noise is forgotten, the matrix of all rows is
block-diagonal, and old columns end there, shorter than 1. So whatever is repeated, skipped or lost:

- every column has norm at most 1, as long as no round lies beyond the planned ones (those are refused);
- in one block rounds follow each other, so a pool whose turn comes every `period` ≥ b rounds has columns that share no
  row; and columns of different blocks share none in any case.

A unit is thus moved in orthogonal directions, by at most its bound in each row it was charged for: each row costs what
independent noise of the same multiplier costs. Had a round that was repeated with other noise continued the old block,
earlier columns would have been used twice, and would be longer than was paid for. Where a repeated round draws the same Z
from the same memory (seeded runs), it is the same row, and no second release.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import torch
from torch import Tensor

from sordino.core import SordinoError
from sordino.privacy.banded_matrix import BandedMatrix

RECENT, LAST = "noise of recent rounds", "last row of noise"
Memory = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Row:
    """Which release is noised."""

    round: int
    line: int
    """The number of its line in the ledger."""
    attempt: int
    """Which time the run was taken up; what was drawn after the checkpoint of an earlier attempt is lost."""
    scale: float
    """The standard deviation of its fresh noise."""

    def follows(self, last: Row) -> bool:
        """Whether this row comes right after another, with no unknown one between."""
        nothing_lost = self.attempt == last.attempt or self.line == last.line + 1
        return nothing_lost and self.round == last.round + 1 and self.scale == last.scale


@dataclass(frozen=True, kw_only=True)
class _Last:
    """The row drawn last, the round at which its block began, and the matrix that it belongs to."""

    row: Row
    begun: int
    matrix: BandedMatrix

    def to_tensor(self) -> Tensor:
        numbers = [*astuple(self.row), self.begun, self.matrix.rounds, *self.matrix.coefficients]
        return torch.tensor(numbers, dtype=torch.float64)

    @staticmethod
    def of(numbers: Tensor) -> _Last:
        number, line, attempt, scale, begun, rounds, *coefficients = numbers.tolist()
        row = Row(round=int(number), line=int(line), attempt=int(attempt), scale=scale)
        matrix = BandedMatrix(coefficients=tuple(coefficients), rounds=int(rounds))
        return _Last(row=row, begun=int(begun), matrix=matrix)


def correlate(fresh: Tensor, row: Row, matrix: BandedMatrix, memory: Memory) -> Tensor:
    """The noise of a row, made of independent noise of `row.scale` and of the memory, which is brought up to date.

    Example: `correlate(z * clip * torch.randn(size), Row(round=0, line=0, attempt=0, scale=z * clip), matrix, memory)`
    with an empty dictionary as memory in the first round, and the same one in all others.
    """
    if row.round >= matrix.rounds:
        raise SordinoError(
            f"Correlated noise was planned for {matrix.rounds} rounds, but got one more, number {row.round}, which the last "
            "columns leave no room for; plan all rounds at once."
        )
    begun = _begun(fresh, row, matrix, memory)
    noise = fresh.clone()
    for lag in range(1, min(matrix.bands, row.round - begun + 1)):
        noise.sub_(memory[RECENT][(row.round - lag) % (matrix.bands - 1)], alpha=float(matrix.ratios[lag]))
    _remember(noise, _Last(row=row, begun=begun, matrix=matrix), memory)
    return noise / matrix.diagonal(row.round)


def _begun(fresh: Tensor, row: Row, matrix: BandedMatrix, memory: Memory) -> int:
    """The round at which the row's block begins: an earlier one where the row continues it, else its own."""
    if LAST not in memory or memory[RECENT].shape[1:] != fresh.shape:
        return row.round
    memory[RECENT] = memory[RECENT].to(fresh.device)
    last = _Last.of(memory[LAST])
    return last.begun if row.follows(last.row) and matrix == last.matrix else row.round


def _remember(noise: Tensor, last: _Last, memory: Memory) -> None:
    """Keep what later rounds will take back; after the last round, nothing."""
    row, matrix = last.row, last.matrix
    if matrix.bands == 1 or row.round + 1 == matrix.rounds:
        memory.pop(RECENT, None)
        memory.pop(LAST, None)
        return
    if last.begun == row.round:
        memory[RECENT] = noise.new_zeros(matrix.bands - 1, *noise.shape)
    memory[RECENT][row.round % (matrix.bands - 1)] = noise
    memory[LAST] = last.to_tensor()
