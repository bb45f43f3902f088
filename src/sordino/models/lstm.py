"""A recurrent network for text."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from sordino.models.inputs import Inputs
from sordino.models.parts import Net
from sordino.models.registry import MODELS, require_at_least

PADDING = 0


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
    """The mean LSTM output over real tokens. Padding comes last, so it reaches no real token and changes nothing."""

    def __init__(self, vocabulary: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=PADDING)
        self.lstm = nn.LSTM(embedding, hidden, num_layers=layers, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        outputs: Tensor = self.lstm(self.embedding(tokens))[0]
        real = (tokens != PADDING).unsqueeze(-1).to(outputs)
        return (outputs * real).sum(1) / real.sum(1).clamp(min=1)
