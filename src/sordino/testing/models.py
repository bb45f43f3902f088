"""The contract of a model: parts, a flat space, and no memory of what passed through."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sordino.models import FlatSpace, Net, build, validate
from sordino.models.inputs import RefusedInputs
from sordino.testing.broken import demand
from sordino.testing.tables import Table

CLASSES = 5
VOCABULARY = 50
INPUTS: tuple[dict[str, Any], ...] = (
    {"shape": (3, 32, 32)},
    {"shape": (1, 28, 28)},
    {"shape": (20,)},
    {"shape": (16,), "vocabulary": VOCABULARY},
)
"""Colour images, grey images, numbers and text: a model is checked on the first that it takes."""


def check_the_model_parts(table: Table) -> None:
    """Every parameter is in one part, there is a head, and nothing in it mixes examples."""
    net, inputs = _made(table)
    everything = [name for name, _ in net.named_parameters()]
    validate(net, everything)
    in_parts = sorted(name for part in net.parts().values() for name in part)
    demand(in_parts == sorted(everything), f"The parts hold {in_parts}, and the model {sorted(everything)}.")
    demand(bool(net.parts()["head"]), "The model has no head that could be trained by itself.")
    got = tuple(net(inputs).shape)
    demand(got == (len(inputs), CLASSES), f"Logits should have shape {(len(inputs), CLASSES)}, but got {got}.")


def check_the_flat_space(table: Table) -> None:
    """What is written into the model's flat space is read from it again."""
    net, _ = _made(table)
    space = FlatSpace(net)
    flat = space.read(net).add_(1)
    space.write(net, flat)
    read = space.read(net)
    demand(
        torch.equal(read, flat) or torch.allclose(read, flat),
        "The model gives back other parameters than were written into it.",
    )


def check_the_memory(table: Table) -> None:
    """Training stores nothing in the model besides what its parameters learn."""
    net, inputs = _made(table)
    before = {key: value.clone() for key, value in net.train().state_dict().items()}
    net(inputs).sum().backward()
    after = net.state_dict()
    changed = sorted(key for key in {*before, *after} if not torch.equal(before[key], after[key]))
    demand(not changed, f"{changed} changed while examples passed through, and would carry one client into another.")


MODEL_CHECKS = (check_the_model_parts, check_the_flat_space, check_the_memory)


def _made(table: Table) -> tuple[Net, Tensor]:
    """The model, and two examples that it takes; any other fault than that it cannot take them is told at once."""
    name, settings = table["name"], {key: value for key, value in table.items() if key != "name"}
    refusals: list[RefusedInputs] = []
    for given in INPUTS:
        try:
            net = build(name, classes=CLASSES, seed=1, **given, **settings)
        except RefusedInputs as refusal:
            refusals.append(refusal)
            continue
        text = "vocabulary" in given
        return net, torch.randint(VOCABULARY, (2, *given["shape"])) if text else torch.randn(2, *given["shape"])
    raise refusals[0]
