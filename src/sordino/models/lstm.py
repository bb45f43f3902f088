"""A recurrent network for text."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sordino.models.inputs import Inputs
from sordino.models.parts import Net
from sordino.models.registry import MODELS, require_at_least

PADDING = 0

STEPS = 8
"""Texts are read in so many steps at a time, so that batches have few lengths: torch prepares itself for each that is new."""


@MODELS.register("lstm")
@dataclass(frozen=True, kw_only=True)
class Lstm:
    """Token embedding and LSTM, whose outputs are averaged over the text."""

    embedding: int = 64
    hidden: int = 128
    layers: int = 1

    def __post_init__(self) -> None:
        require_at_least(1, embedding=self.embedding, hidden=self.hidden, layers=self.layers)

    def build(self, inputs: Inputs, classes: int) -> Net:
        body = Reader(inputs.tokens("lstm"), self.embedding, self.hidden, self.layers)
        return Net(body=body, head=nn.Linear(self.hidden, classes))


class Reader(nn.Module):
    """The mean LSTM output over real tokens. Padding comes last, so it reaches no real token and changes nothing.

    It costs as much as words, though, so a batch is read to the end of its longest text.
    """

    def __init__(self, vocabulary: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=PADDING)
        self.lstm = nn.LSTM(embedding, hidden, num_layers=layers, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens if _stand_for_others(tokens) else tokens[:, : _steps_to_read(tokens)]
        outputs: Tensor = self.lstm(self.embedding(tokens))[0]
        real = (tokens != PADDING).unsqueeze(-1).to(outputs)
        return (outputs * real).sum(1) / real.sum(1).clamp(min=1)


def _stand_for_others(tokens: Tensor) -> bool:
    """Whether these tokens are made up, so that others can be read in the same way: their lengths say nothing."""
    return (
        tokens.is_meta
        or torch._C._get_tracing_state() is not None
        or torch.compiler.is_compiling()
        or torch._C._functorch.is_functorch_wrapped_tensor(tokens)
    )


def _steps_to_read(tokens: Tensor) -> int:
    """As many as the longest text has, in whole `STEPS`."""
    places = (tokens != PADDING).any(0).nonzero()
    longest = int(places[-1]) + 1 if len(places) else 1
    return -(-longest // STEPS) * STEPS
