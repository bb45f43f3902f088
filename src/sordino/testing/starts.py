"""The contract of a start: it gives weights to a model, the same from the same seed, and takes no private data."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from sordino.core import SordinoError
from sordino.engine.resolved import resolve
from sordino.engine.setup import prepare
from sordino.experiment import experiment
from sordino.pretrain import STARTS
from sordino.settings import field_names
from sordino.testing.broken import Broken, demand
from sordino.testing.tables import Table, contract_table


def check_the_weights(table: Table) -> None:
    """The model begins with finite weights, the same every time."""
    first, again = _begun(table), _begun(table)
    demand(bool(first.isfinite().all()), "The model begins with a NaN or an infinity.")
    demand(torch.equal(first, again), "The same seed begins with other weights the second time.")


def check_public_data(table: Table) -> None:
    """A start that learns from data refuses those that are marked private."""
    if "data" not in field_names(STARTS[table["name"]]):
        return
    try:
        _begun({**table, "data": {"source": "digits", "visibility": "private"}})
    except SordinoError:
        return
    raise Broken("The start learnt from data that are marked private.")


START_CHECKS = (check_the_weights, check_public_data)


def _begun(table: Table) -> Tensor:
    whole = experiment(contract_table("dp-fedavg", start=table))
    setup = prepare(resolve(whole), folder=Path.cwd(), progress=lambda done, total: None)
    return setup.space.read(setup.net)
