"""A subspace of parameters spanned by public gradients, found by the power method, group of layers by group of layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Group = tuple[int, int]
"""Where a group of layers begins and ends in the flat buffer."""


@dataclass(frozen=True)
class Subspace:
    """Orthonormal columns for each group; an embedding holds the groups' coordinates one after the other."""

    groups: Sequence[Group]
    bases: Sequence[Tensor]

    def embed(self, rows: Tensor) -> Tensor:
        return torch.cat(
            [rows[:, start:stop] @ basis for (start, stop), basis in zip(self.groups, self.bases, strict=True)], dim=1
        )

    def lift(self, embedding: Tensor) -> Tensor:
        """Back among the parameters: the nearest point of the subspace, for what `embed` gave."""
        widths = [basis.shape[1] for basis in self.bases]
        parts = [part @ basis.T for part, basis in zip(embedding.split(widths, dim=-1), self.bases, strict=True)]
        return torch.cat(parts, dim=-1)

    def zeros(self) -> tuple[Tensor, Tensor]:
        """An empty embedding and an empty residual."""
        first = self.bases[0]
        return first.new_zeros(sum(basis.shape[1] for basis in self.bases)), first.new_zeros(self.groups[-1][1])


def layer_groups(sizes: Sequence[int], count: int) -> list[Group]:
    """Consecutive parameters in at most `count` groups of about the same size; no parameter is cut."""
    groups: list[Group] = []
    total, start, stop = sum(sizes), 0, 0
    for size in sizes:
        stop += size
        if stop >= total * (len(groups) + 1) / count:
            groups.append((start, stop))
            start = stop
    return groups


def power_method(
    gradients: Tensor, groups: Sequence[Group], *, bases: Sequence[int], iterations: int, generator: torch.Generator
) -> Subspace:
    """The leading directions of these gradients, one orthonormal basis for each group."""
    found_bases = []
    for (start, stop), basis in zip(groups, bases, strict=True):
        rows = gradients[:, start:stop]
        width = min(basis, stop - start, len(rows))
        found = torch.randn(stop - start, width, generator=generator).to(rows)
        for _ in range(iterations):
            found = torch.linalg.qr(rows.T @ (rows @ found)).Q
        found_bases.append(found)
    return Subspace(groups, found_bases)
