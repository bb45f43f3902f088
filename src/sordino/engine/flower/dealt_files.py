"""Rehearsals on one machine: a data set dealt out into one file a node, and the experiment that goes with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sordino.data.evaluation_rows import Charged
from sordino.data.examples import Examples
from sordino.engine.dealing import Federated, federate
from sordino.engine.resolved import resolve
from sordino.experiment import Experiment, experiment
from sordino.files import make_folder

_OF_THE_WHOLE = ("limit", "test_limit", "test_fraction", "resize", "channels", "client_column", "class_names")
"""Options of a source that are done with when its rows have been dealt out."""


@dataclass(frozen=True, kw_only=True)
class Dealt:
    """An experiment for real nodes, and the data file of each."""

    experiment: Experiment
    files: dict[str, Path]
    """By the name of the node."""


def deal_out(given: Experiment, *, nodes: int | None, federation: Path, folder: Path) -> Dealt:
    """Deal the rows of an experiment out into files, as the simulator would give them to clients.

    Args:
        given: an experiment whose data set is here.
        nodes: how many; None means as many as it has clients.
        federation: what the experiment for real nodes says in [engine] federation.
        folder: takes the files.
    """
    table: dict[str, Any] = given.model_dump(mode="json")
    if nodes is not None:
        table["data"] = {**table["data"], "clients": nodes, "late_clients": 0}
    resolved = resolve(experiment(table))
    dealt = federate(resolved)
    make_folder(folder)
    names = dealt.names or tuple(f"node-{client + 1}" for client in range(dealt.partition.clients))
    files = {name: folder / f"{name}.npz" for name in names}
    for client, file in enumerate(files.values()):
        _write(file, dealt.source.train.take(torch.from_numpy(_all_rows(dealt, client))))
    if dealt.source.test is not None:
        _write(folder / "test.npz", dealt.source.test)
    charged = isinstance(resolved.test_rows, Charged)
    test = table["data"]["test"] if charged else {"source": str(folder / "test.npz")}
    return Dealt(experiment=experiment(_for_nodes(table, dealt, test, federation)), files=files)


def _all_rows(dealt: Federated, client: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A client's rows, also those that it will hold out by itself."""
    own = dealt.partition.of(client)
    return own if dealt.held_out is None else np.sort(np.concatenate([own, dealt.held_out.of(client)]))


def _for_nodes(table: dict[str, Any], dealt: Federated, test: Any, federation: Path) -> Mapping[str, Any]:
    options = {name: value for name, value in table["data"]["options"].items() if name not in _OF_THE_WHOLE}
    options["classes"] = list(dealt.source.class_names)
    data = {**table["data"], "clients": dealt.partition.clients, "partition": {"name": "iid"}, "options": options}
    engine = {**table["engine"], "name": "flower", "federation": str(federation)}
    return {**table, "data": {**data, "test": test, "client_test_rows": None}, "engine": engine}


def _write(path: Path, rows: Examples) -> None:
    np.savez(path, x_train=rows.inputs.numpy(), y_train=rows.labels.numpy())
