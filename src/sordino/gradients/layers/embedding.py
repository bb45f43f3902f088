"""Embeddings: positions of one example that share a token add up before they are normed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sordino.gradients.layers.booking import Booking, Capture, Recontracted, Request, examples_per_block, slices


class EmbeddingWeight(Recontracted):
    """Tokens as (examples, T), gradients as (examples, T, width)."""

    def __init__(self, tokens: Tensor, grads: Tensor, norms: Tensor, vocabulary: int) -> None:
        super().__init__(tokens, grads, norms)
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
    return {"weight": EmbeddingWeight(tokens, grads, _norms(tokens, grads, request.order), layer.num_embeddings)}


def _norms(tokens: Tensor, grads: Tensor, order: int) -> Tensor:
    """Each position gets the total of its token; a token seen n times is then counted n times, so divided by n."""
    norms = grads.new_empty(len(tokens))
    length = tokens.shape[1]
    for examples in slices(len(tokens), examples_per_block(length * (length + grads.shape[2]) * grads.element_size())):
        same = (tokens[examples, :, None] == tokens[examples, None, :]).to(grads.dtype)
        totals = torch.bmm(same, grads[examples])
        powers = totals.abs().pow(order).sum(2)
        norms[examples] = (powers / same.sum(2)).sum(1).pow(1 / order)
    return norms
