"""LSTMs against torch's own gradient, one example at a time, in float64."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from gradient_reference import assert_close, clip_and_sum
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from sordino.gradients import ClippedGradients, SlowGradientsWarning
from sordino.gradients.layers import contraction

BATCH, STEPS, WORDS, WIDTH, CLASSES = 5, 7, 11, 6, 3


class Reading(nn.Module):
    """Embeds, reads, and classifies by what `use` makes of the LSTM's outputs."""

    def __init__(self, use: str = "mean", **settings: Any) -> None:
        super().__init__()
        self.use = use
        self.embedding = nn.Embedding(WORDS, 4)
        self.lstm = nn.LSTM(4, WIDTH, **{"batch_first": True, **settings})
        self.head = nn.Linear(WIDTH * (2 if self.lstm.bidirectional else 1), CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        embedded = self.embedding(tokens)
        if self.use == "own start":
            start = embedded.new_ones(self.lstm.num_layers, len(tokens), WIDTH)
            said, (state, cell) = self.lstm(embedded, (start, start))
        else:
            said, (state, cell) = self.lstm(embedded)
        if self.use == "weight beside":
            said = said * self.lstm.weight_hh_l0.sum()
        if self.use == "both":
            said = said + state[-1].unsqueeze(1)
        wanted = {"state": state[-1], "cell": cell[-1]}.get(self.use, said.mean(1))
        return self.head(wanted)  # type: ignore[no-any-return]


def made(use: str = "mean", **settings: Any) -> tuple[Reading, Tensor, Tensor]:
    torch.manual_seed(0)
    model = Reading(use, **settings).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model, torch.randint(WORDS, (BATCH, STEPS)), torch.randint(CLASSES, (BATCH,))


def rows_one_by_one(model: nn.Module, names: list[str], tokens: Tensor, labels: Tensor) -> Tensor:
    parameters = [model.get_parameter(name) for name in names]
    rows = []
    for token, label in zip(tokens, labels, strict=True):
        loss = cross_entropy(model(token[None]), label[None])
        rows.append(torch.cat([one.flatten() for one in torch.autograd.grad(loss, parameters)]))
    return torch.stack(rows)


def check(model: nn.Module, tokens: Tensor, labels: Tensor, *, names: list[str] | None = None) -> None:
    for norm, order in (("l2", 2), ("l1", 1)):
        engine = ClippedGradients(model, norm=norm, trainable=names)  # type: ignore[arg-type]
        rows = rows_one_by_one(model, list(engine.trainable), tokens, labels)
        norms = torch.linalg.vector_norm(rows, order, dim=1)
        clip = float(norms.median())
        result = engine.sum(tokens, labels, clip_norm=clip)
        assert_close(result.norms, norms)
        assert_close(result.total, clip_and_sum(rows, clip, order))
        assert_close(engine.per_example(tokens, labels), rows)


@pytest.mark.parametrize("ghost", [True, False])
@pytest.mark.parametrize("use", ["mean", "state", "both"])
@pytest.mark.parametrize("settings", [{}, {"bias": False}], ids=str)
def test_one_layer(use: str, settings: dict[str, Any], ghost: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction.Contraction, "ghost_is_cheaper", lambda _: ghost)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(*made(use, **settings))


@pytest.mark.parametrize("settings", [{}, {"bias": False}, {"num_layers": 3}], ids=str)
def test_layers_above_each_other(settings: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(*made(**{"num_layers": 2, **settings}))


@pytest.mark.parametrize("names", [["lstm.weight_hh_l0"], ["lstm.bias_ih_l0", "head.weight"], ["lstm.weight_ih_l1"]])
def test_a_part_of_it(names: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(*made(num_layers=2), names=names)


@pytest.mark.parametrize(
    ("use", "settings"),
    [
        ("cell", {}),
        ("state", {"num_layers": 2}),
        ("own start", {}),
        ("weight beside", {}),
        ("mean", {"bidirectional": True}),
        ("mean", {"num_layers": 2, "dropout": 0.3}),
        ("mean", {"batch_first": False}),
    ],
    ids=str,
)
@pytest.mark.parametrize("names", [None, ["lstm.weight_hh_l0", "head.weight"]], ids=["all", "some"])
def test_what_the_rule_does_not_cover_is_right_and_said(
    use: str, settings: dict[str, Any], names: list[str] | None
) -> None:
    model, tokens, labels = made(use, **settings)
    if settings.get("batch_first") is False:  # texts lie where steps should
        with pytest.warns(SlowGradientsWarning):
            ClippedGradients(model, trainable=names).sum(tokens, labels, clip_norm=1.0)
        return
    if model.lstm.dropout:
        with pytest.warns(SlowGradientsWarning, match="no rule of its own"):
            ClippedGradients(model, trainable=names).sum(tokens, labels, clip_norm=1.0)
        return
    with pytest.warns(SlowGradientsWarning):
        check(model, tokens, labels, names=names)


def test_a_text_that_is_no_number_adds_nothing() -> None:
    model, tokens, labels = made()
    tokens[:] = tokens % (WORDS - 1)
    tokens[1, 2] = WORDS - 1
    with torch.no_grad():
        model.embedding.weight[WORDS - 1] = torch.nan
    engine = ClippedGradients(model)
    result = engine.sum(tokens, labels, clip_norm=0.5)
    others = torch.tensor([0, 2, 3, 4])
    assert result.nonfinite == 1
    assert_close(result.total, engine.sum(tokens[others], labels[others], clip_norm=0.5).total)
