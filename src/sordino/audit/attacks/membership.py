"""Membership inference on a finished run's model: was this row, or this client, trained on?

Members are the run's training rows, others its test rows. Both attacks and bounds are of the model that is published. Where the promise
is per client, a row moves a client's contribution as a change of its data, so a row is allowed what two steps of the promise allow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sordino.audit.attacks.roc import Roc
from sordino.audit.attacks.shadows import confidence, train_shadows
from sordino.audit.trade_off import Claim, Curve
from sordino.core import Unit
from sordino.data.examples import Examples
from sordino.engine.building import make_net
from sordino.engine.tariff import Tariff
from sordino.experiment import Experiment
from sordino.models import Net

Floats = NDArray[np.float64]
MOST_ROWS = 4000
WHY = "whoever holds the published model and a row can do it"
WHY_SHADOWS = "the onlooker needs rows of the same kind, the very rows in doubt among them, to train shadow models on"
WHY_USERS = (
    "the onlooker needs all rows of a client; other users are made up of test rows, as many to each as clients have"
)


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A finished run, as an onlooker of the public view has it, and the rows to judge the attack by."""

    experiment: Experiment
    net: Net
    members: Examples
    others: Examples
    clients: list[NDArray[np.int64]]
    """The rows of each client among `members`."""
    tariff: Tariff
    claim: Claim | None
    """What the ledger claims in the public view; None where it promises nothing."""


def infer_membership(
    run: Trained,
    *,
    shadows: int,
    epochs: int,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> list[dict[str, Any]]:
    """Loss threshold, LiRA and user-level inference, each with AUC, TPR at low FPR and the bound of the ledger's ε."""
    seed = run.experiment.seed
    members, places = _some(run.members, seed)
    others, _ = _some(run.others, seed + 1)
    inside, outside = confidence(run.net, members), confidence(run.net, others)
    curve = None if run.claim is None else run.claim.curve()
    rows_allowed = None if curve is None else curve if run.tariff.unit == "example" else twice(curve)
    found = [_entry("loss", "example", Roc(inside, outside), rows_allowed, run, realistic=True, why=WHY)]
    calibrated_in, calibrated_out = inside, outside
    if shadows:
        pool = Examples(
            inputs=torch.cat([members.inputs, others.inputs]),
            labels=torch.cat([members.labels, others.labels]),
            normalisation=members.normalisation,
        )
        shape, classes = tuple(pool.inputs.shape[1:]), _classes(run.net)

        def make(number: int) -> Net:
            return make_net(run.experiment, shape=shape, classes=classes, vocabulary=0, seed=number)

        trained = train_shadows(
            make,
            pool,
            count=shadows,
            share=len(members) / len(pool),
            epochs=epochs,
            seed=seed,
            progress=lambda done, total: progress("shadow models", done, total),
        )
        scores = trained.scores(np.concatenate([inside, outside]))
        calibrated_in, calibrated_out = scores[: len(members)], scores[len(members) :]
        found.append(
            _entry(
                "lira",
                "example",
                Roc(calibrated_in, calibrated_out),
                rows_allowed,
                run,
                realistic=False,
                why=WHY_SHADOWS,
            )
        )
    users = _users(run, calibrated_in, calibrated_out, places)
    if users is not None:
        allowed = curve if run.tariff.unit == "client" else None
        found.append(_entry("user", "client", users, allowed, run, realistic=False, why=WHY_USERS))
    return found


def twice(curve: Curve) -> Curve:
    """What two neighbours of one another's neighbours allow: found, and what that share allows again."""
    again = np.interp(curve.true_positive, curve.false_positive, curve.true_positive)
    return Curve(curve.false_positive, again)


def _entry(
    attack: str, unit: Unit, roc: Roc, allowed: Curve | None, run: Trained, *, realistic: bool, why: str
) -> dict[str, Any]:
    epsilon = math.inf if run.claim is None else run.claim.epsilon()
    return {
        "attack": attack,
        "view": "public",
        "unit": unit,
        "epsilon": epsilon,
        "delta": run.experiment.privacy.delta,
        "bounded": allowed is not None,
        "realistic": realistic,
        "why": why,
        **roc.to_json(allowed),
    }


def _users(run: Trained, inside: Floats, outside: Floats, places: NDArray[np.int64]) -> Roc | None:
    """The mean score of each client's rows, against made-up users of as many test rows; no two of them share a row."""
    where = {int(row): place for place, row in enumerate(places)}
    own = [[where[int(row)] for row in rows if int(row) in where] for rows in run.clients]
    kept = [rows for rows in own if rows]
    if len(kept) < 2:
        return None
    drawn = np.random.default_rng([run.experiment.seed, 6]).permutation(outside)
    ends = itertools.takewhile(lambda end: end <= len(drawn), itertools.accumulate(itertools.cycle(map(len, kept))))
    made_up = np.split(drawn, list(ends))[:-1] or [drawn]
    return Roc(np.array([inside[rows].mean() for rows in kept]), np.array([one.mean() for one in made_up]))


def _some(rows: Examples, seed: int) -> tuple[Examples, NDArray[np.int64]]:
    """Up to so many rows by lot, and which they are."""
    if len(rows) <= MOST_ROWS:
        return rows, np.arange(len(rows))
    chosen = np.random.default_rng([seed, 7]).permutation(len(rows))[:MOST_ROWS]
    return rows.take(torch.from_numpy(chosen)), chosen


def _classes(net: Net) -> int:
    return int(list(net.parameters())[-1].shape[0])
