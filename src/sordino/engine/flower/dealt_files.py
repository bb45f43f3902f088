"""Rehearsals on one machine: a data set dealt out into one file a node, and the experiment that goes with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sordino.data.evaluation_rows import Charged, SeparateSource
from sordino.data.examples import Examples
from sordino.data.locate import locate
from sordino.data.partition import Rows
from sordino.data.source import Source, training_rows
from sordino.data.table import read_table
from sordino.engine.dealing import Federated, federate
from sordino.engine.resolved import Resolved, resolve
from sordino.experiment import Experiment, experiment
from sordino.files import make_folder

_OF_THE_WHOLE = (
    "limit",
    "public_share",
    "rows",
    "test_limit",
    "test_fraction",
    "resize",
    "channels",
    "client_column",
    "class_names",
)
"""Options of a source that are done with when its rows have been dealt out."""


Writer = Callable[[Path, Rows], Path]
"""Writes so many rows of the data set to a file, given without its ending, and says which."""


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
    names = _node_names(dealt)
    write = _table_writer(resolved, dealt) or _array_writer(dealt)
    files = {name: write(folder / name, _all_rows(dealt, client)) for client, name in enumerate(names)}
    test = _public_test(resolved, dealt, table["data"]["test"], folder)
    return Dealt(experiment=experiment(_for_nodes(table, dealt, test, federation)), files=files)


def _node_names(dealt: Federated) -> list[str]:
    """What the clients are called, with signs that a node's name may have; else by number."""
    plain = [re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_") for name in dealt.names]
    if not all(plain) or len(set(plain)) != dealt.partition.clients:
        return [f"node-{client + 1}" for client in range(dealt.partition.clients)]
    return plain


def _public_test(resolved: Resolved, dealt: Federated, said: Any, folder: Path) -> Any:
    """What [data] test says at the server: as before, or a file with the rows that the simulator would test on."""
    rows = resolved.test_rows
    if isinstance(rows, Charged):
        return said
    if isinstance(rows, SeparateSource) and dealt.source.layout:
        return {**said, "source": str(locate(rows.source).path)}
    assert dealt.source.test is not None
    return {"source": str(_write_arrays(folder / "test", dealt.source.test, dealt.source))}


def _table_writer(resolved: Resolved, dealt: Federated) -> Writer | None:
    """Rows of a table stay rows of a table, as they stand in the file."""
    path = locate(resolved.source.source).path
    if not dealt.source.layout or path is None:
        return None
    settings = resolved.source
    table = read_table(path, settings.dialect, settings.separator)
    in_file = training_rows(settings, seed=resolved.experiment.seed, test=resolved.test_rows)

    def write(place: Path, rows: Rows) -> Path:
        file = place.with_suffix(".csv")
        table.frame.iloc[in_file[rows]].to_csv(file, index=False, sep=settings.separator or ",")
        return file

    return write


def _array_writer(dealt: Federated) -> Writer:
    return lambda place, rows: _write_arrays(place, dealt.source.train.take(torch.from_numpy(rows)), dealt.source)


def _all_rows(dealt: Federated, client: int) -> Rows:
    """A client's rows, also those that it will hold out by itself."""
    own = dealt.partition.of(client)
    return own if dealt.held_out is None else np.sort(np.concatenate([own, dealt.held_out.of(client)]))


def _for_nodes(table: dict[str, Any], dealt: Federated, test: Any, federation: Path) -> Mapping[str, Any]:
    options = {name: value for name, value in table["data"]["options"].items() if name not in _OF_THE_WHOLE}
    if dealt.source.target is None:
        options["classes"] = list(dealt.source.class_names)
    data = {**table["data"], "clients": dealt.partition.clients, "partition": {"name": "iid"}, "options": options}
    engine = {**table["engine"], "name": "flower", "federation": str(federation)}
    return {**table, "data": {**data, "test": test, "client_test_rows": None}, "engine": engine}


def _write_arrays(place: Path, rows: Examples, source: Source) -> Path:
    file = place.with_suffix(".npz")
    labels = rows.labels.numpy() if source.target is None else source.target.in_unit(rows.labels.double().numpy())
    np.savez(file, x_train=rows.inputs.numpy(), y_train=labels)
    return file
