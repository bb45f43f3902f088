"""Embeddings: positions of one example that share a token add up before they are normed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sordino.gradients.layers.booking import (
    Booking,
    Capture,
    Recontracted,
    Request,
    examples_per_block,
    row_norms,
    slices,
    units_short,
)


class EmbeddingWeight(Recontracted):
    """Tokens as (examples, T), and as (examples, T, width) what each of them adds: its total where it is first met, zero elsewhere.

    An example's gradient of a token is one of these totals, so what is normed is what is added, however the total was rounded.
    """

    def __init__(self, tokens: Tensor, totals: Tensor, norms: Tensor, vocabulary: int) -> None:
        super().__init__(tokens, totals, norms)
        self.units = units_short(totals[0].numel())
        self._vocabulary = vocabulary

    def add_weighted(self, factors: Tensor, into: Tensor) -> None:
        into.index_add_(0, self.inputs.flatten(), self.scaled_grads(factors).flatten(0, 1))

    def rows(self) -> Tensor:
        batch, _, width = self.grads.shape
        rows = self.grads.new_zeros(batch * self._vocabulary, width)
        own = torch.arange(batch, device=rows.device)[:, None] * self._vocabulary
        rows.index_add_(0, (self.inputs + own).flatten(), self.grads.flatten(0, 1))
        return rows.view(batch, -1)


def book_embedding(capture: Capture, grads: Tensor, request: Request) -> dict[str, Booking]:
    layer = capture.layer
    assert isinstance(layer, nn.Embedding)
    tokens = capture.inputs.reshape(len(capture.inputs), -1).long()
    grads = grads.reshape(*tokens.shape, layer.embedding_dim)
    if layer.padding_idx is not None:
        grads = grads.masked_fill((tokens == layer.padding_idx)[..., None], 0)
    totals = _totals(tokens, grads)
    return {
        "weight": EmbeddingWeight(tokens, totals, row_norms(totals.flatten(1), request.order), layer.num_embeddings)
    }


def _totals(tokens: Tensor, grads: Tensor) -> Tensor:
    """Each token's total at its first position, and zeros at its others."""
    totals = torch.empty_like(grads)
    length = tokens.shape[1]
    for examples in slices(len(tokens), examples_per_block(length * (length + grads.shape[2]) * grads.element_size())):
        same = tokens[examples, :, None] == tokens[examples, None, :]
        repeated = same.tril(-1).any(2)
        torch.bmm(same.to(grads.dtype), grads[examples], out=totals[examples])
        totals[examples].masked_fill_(repeated[..., None], 0)
    return totals
