"""A stand-in for the private set: public rows dealt out to as many clients, and other public rows to start from.

The private set is never opened, not even for its shape: everything here is the experiment file and data that somebody
declared public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sordino.core import SordinoError
from sordino.data.beside import relative_to
from sordino.data.public import public_settings
from sordino.data.raw import Array, Raw
from sordino.data.reading import find
from sordino.experiment import Table
from sordino.files import make_folder
from sordino.sentences import shown

START_SHARE, TEST_SHARE = 0.2, 0.2
"""Of the public rows: what starts are trained on, and what is tested on where the set has no test rows of its own."""
LEAST_ROWS = 2
"""Of a client of the stand-in, on average."""
FILES = ("stand-in.npz", "start.npz")


@dataclass(frozen=True, kw_only=True)
class StandIn:
    """A table with the stand-in in the place of the private set, and public starts: for the search, and for the file."""

    table: Table
    search_start: Table
    real_start: Table
    notes: tuple[str, ...]


def make_stand_in(table: Table, proxy: str | None, out: Path, *, folder: Path) -> StandIn:
    """Part a public set into rows for starts, for clients and for tests, below `out`; relative paths begin in `folder`."""
    if table["data"].get("options", {}).get("target") is not None:
        raise SordinoError(
            "recommend tries settings on classes alone, but [data.options] target says that a number is learnt; try settings with a sweep "
            "on public data instead."
        )
    public = _public_set(table, proxy)
    settings = public_settings(public, shape=(), where="start.data")
    with relative_to(folder):
        raw, name = find(settings)
        start, train, test = _parted(raw, seed=int(table.get("seed", 0)))
    clients = int(table["data"].get("clients", 1))
    if len(train[1]) < LEAST_ROWS * clients:
        raise SordinoError(
            f"The public set {name!r} leaves {len(train[1])} rows for a stand-in of {clients} clients, but each needs {LEAST_ROWS} or "
            "more; name a larger one with --proxy."
        )
    make_folder(out)
    stand_in, starts = (out.resolve() / file for file in FILES)
    _save(stand_in, train, test, raw)
    _save(starts, start, test, raw)
    data, notes = _data(table["data"], stand_in)
    kept = {key: value for key, value in table.get("start", {}).items() if key != "data"} if _has_start(table) else {}
    how = {"name": "standard", "decay": "cosine", **kept}
    return StandIn(
        table={**table, "data": data},
        search_start={**how, "data": {"source": str(starts), "visibility": "public"}},
        real_start={**how, "data": public},
        notes=(
            f"public rows of {name}: {len(train[1])} as the clients', {len(start[1])} to start from, {len(test[1])} to test on",
            *notes,
        ),
    )


def _has_start(table: Table) -> bool:
    return isinstance(table.get("start"), dict) and "data" in table["start"]


def _public_set(table: Table, proxy: str | None) -> Table:
    """What --proxy names, in the form of the private set; or else what the file's start is trained on."""
    if proxy is not None:
        if proxy == table["data"].get("source"):
            raise SordinoError(
                f"--proxy takes a public set, but got {shown(proxy)}, which is the private one; name another that looks like it."
            )
        options = {
            key: value
            for key, value in table["data"].get("options", {}).items()
            if key not in ("limit", "client_column")
        }
        return {**options, "source": proxy, "visibility": "public"}
    if _has_start(table):
        return {**table["start"]["data"]}
    raise SordinoError(
        "recommend tries settings on public data alone, but the file has no public [start] data; name a public set that looks like the "
        "private one with --proxy, such as --proxy digits."
    )


Rows = tuple[Array, Array]


def _parted(raw: Raw, *, seed: int) -> tuple[Rows, Rows, Rows]:
    """Inputs and labels for starts, for clients and for tests."""
    inputs, labels = raw.train.inputs(), raw.train.labels()
    order = np.random.default_rng([seed, 0x5EC0]).permutation(len(labels))
    held = 0 if raw.test is not None else round(TEST_SHARE * len(order))
    first = held + round(START_SHARE * (len(order) - held))
    parts = [(inputs[rows], labels[rows]) for rows in (order[held:first], order[first:], order[:held])]
    test = parts[2] if raw.test is None else (raw.test.inputs(), raw.test.labels())
    return parts[0], parts[1], test


def _save(path: Path, train: Rows, test: Rows, raw: Raw) -> None:
    names: Mapping[str, Any] = {"class_names": np.array(raw.class_names)} if raw.class_names else {}
    with open(path, "wb") as file:
        np.savez(file, x_train=train[0], y_train=train[1], x_test=test[0], y_test=test[1], **names)


def _data(data: Table, stand_in: Path) -> tuple[Table, list[str]]:
    """The data section of the stand-in: as many clients, dealt out as the file says where that needs no column."""
    partition = data.get("partition", "iid")
    name = partition.get("name") if isinstance(partition, dict) else partition
    notes = [] if name != "column" else ["clients of equal mix, because the stand-in has no client column"]
    dealt = "iid" if name == "column" else partition
    return {
        "source": str(stand_in),
        "visibility": "public",
        "clients": data.get("clients", 1),
        "partition": dealt,
    }, notes
