"""A run whose rows lie with nodes: everybody declares how many there are, and the server's side works with that alone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sordino.core import SordinoError
from sordino.data.columns import columns_of
from sordino.data.evaluation_rows import Charged, SeparateSource
from sordino.data.examples import Examples
from sordino.data.partition import Partition
from sordino.data.preparation import Preparation
from sordino.data.raw import Raw, Split
from sordino.data.reading import to_tensor
from sordino.data.separate_test import fit_separate
from sordino.data.source import Origin, Source
from sordino.engine.client_test_rows import Matched
from sordino.engine.dealing import Federated
from sordino.engine.flower.declaration import Declaration, meet_message, same_preparation
from sordino.engine.flower.link import Letters, Link, refusal
from sordino.engine.resolved import Resolved
from sordino.outside import experiment_folder

MEET_SECONDS = 240.0
"""How long a node may take to declare its rows at least: one that heard half a message of a server that was killed waits until Flower
has given that run up."""
NODES = "nodes"
HERE = "federation"
"""The folder of a federation where nobody says otherwise."""


@dataclass(frozen=True, kw_only=True)
class FarFederated(Federated):
    """Clients whose rows are at nodes: sizes are as declared, and there is no row here."""

    link: Link
    declared: tuple[Declaration, ...]
    absent: frozenset[int] = frozenset()
    """Clients that said nothing when a run was taken up again; what they declared when it began still counts."""

    def facts(self) -> dict[str, Any]:
        return {NODES: [dataclasses.asdict(one) for one in self.declared]}

    def digest(self) -> str:
        """Of what was declared, which is public."""
        said = [[one.name, one.rows, one.held_out, one.preparation] for one in self.declared]
        return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()

    def match_test_rows(self, resolved: Resolved) -> Matched | None:
        """None: nobody here knows a client's mix of labels."""
        return None

    def close(self) -> None:
        self.link.close()


def meet_nodes(resolved: Resolved, settled: Mapping[str, Any]) -> FarFederated:
    """Connect, and have every node of the roster declare its rows; one that cannot or will not take part stops the run with its reason.

    A run that goes on does so without nodes that are away, by what they declared when it began.
    """
    experiment = resolved.experiment
    _refuse_what_needs_rows(resolved)
    folder = experiment_folder() / (experiment.engine.federation or HERE)
    link = Link.open(folder)
    try:
        _check_count(resolved, link.names, folder)
        known = {one["name"]: Declaration(**one) for one in settled.get(NODES, ())}
        return _far(resolved, link, _declarations(resolved, link, known))
    except BaseException:
        link.close()
        raise


def _refuse_what_needs_rows(resolved: Resolved) -> None:
    experiment = resolved.experiment
    if resolved.method.pooled:
        raise SordinoError(
            f"[method] {experiment.method['name']} has all rows in one place, but real nodes keep theirs; choose another method, or "
            "[engine] name = 'simulate'."
        )
    if experiment.data.late_clients:
        raise SordinoError("[data] late_clients is for simulations; on real nodes leave it out.")
    if not isinstance(resolved.test_rows, SeparateSource | Charged):
        raise SordinoError(
            "On real nodes no row of theirs can be set aside here: in [data], name a public test file at the server (test = { source = "
            '"..." }), or let evaluation be charged at the nodes (test = { name = "charged", epsilon = 0.5 }).'
        )


def _check_count(resolved: Resolved, names: Sequence[str], folder: Path) -> None:
    data = resolved.experiment.data
    if data.partition.get("name") != "column" and data.clients != len(names):
        raise SordinoError(
            f"[data] clients = {data.clients}, but the federation in {folder} has {len(names)} nodes ({', '.join(names)}); make them agree."
        )


def _declarations(resolved: Resolved, link: Link, known: Mapping[str, Declaration]) -> list[Declaration | _Away]:
    experiment = resolved.experiment
    message = meet_message(experiment.model_dump(mode="json"), experiment.fingerprint())
    letters = [Letters(client=client, messages=[message], largest=1 << 24) for client in range(len(link.names))]
    said = link.tell(letters, seconds=max(experiment.engine.client_seconds, MEET_SECONDS))
    found: list[Declaration | _Away] = []
    for client, name in enumerate(link.names):
        answer = said[client]
        because = answer if isinstance(answer, str) else refusal(answer)
        if isinstance(answer, str) and name in known:
            found.append(_Away(known[name]))
        elif because is not None or isinstance(answer, str):
            raise SordinoError(f"Node {name} does not take part: {because}")
        else:
            found.append(Declaration.from_message(answer[0].content))
    return found


@dataclass(frozen=True)
class _Away:
    """A node that says nothing now, and what it declared before."""

    declared: Declaration


def _far(resolved: Resolved, link: Link, found: Sequence[Declaration | _Away]) -> FarFederated:
    declared = tuple(one.declared if isinstance(one, _Away) else one for one in found)
    held_out = [one.held_out for one in declared]
    return FarFederated(
        source=_empty_source(resolved, same_preparation(declared)),
        partition=_counted([one.rows for one in declared]),
        held_out=_counted(held_out) if isinstance(resolved.test_rows, Charged) else None,
        names=link.names,
        link=link,
        declared=declared,
        absent=frozenset(client for client, one in enumerate(found) if isinstance(one, _Away)),
    )


def _counted(sizes: Sequence[int]) -> Partition:
    """Who holds how many rows, none of which is here."""
    return Partition(np.arange(0), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


def _empty_source(resolved: Resolved, preparation: Preparation) -> Source:
    """A data set with everything but rows; public test rows are read here."""
    settings, rows = resolved.source, resolved.test_rows
    kind, shape = preparation.kind, preparation.shape
    nothing = np.zeros((0, *shape))
    train = Examples(
        inputs=to_tensor(nothing, kind),
        labels=torch.zeros(0, dtype=torch.int64 if preparation.number is None else torch.float32),
        normalisation=preparation.normalisation,
    )
    test = None
    if isinstance(rows, SeparateSource):
        none = Split(count=0, shape=shape, labels=lambda: np.zeros(0, np.int64), inputs=lambda: nothing)
        raw = Raw(
            kind=kind,
            train=none,
            class_names=preparation.classes,
            vocabulary=preparation.vocabulary,
            layout=columns_of(preparation.columns),
        )
        test = fit_separate(rows, settings, raw).load(preparation.classes, resolved.experiment.seed)
    seed = resolved.experiment.seed
    return Source(
        name=f"{resolved.experiment.data.source} at nodes",
        train=train,
        test=test,
        classes=len(preparation.classes),
        shape=shape,
        kind=kind,
        visibility=settings.visibility,
        class_names=preparation.classes,
        vocabulary=preparation.vocabulary,
        target=preparation.number,
        tokenizer=preparation.tokenizer,
        layout=columns_of(preparation.columns),
        elsewhere=True,
        origin=None if kind == "image" else Origin(settings=settings, seed=seed, test=rows),
    )
