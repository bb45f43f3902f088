"""Broken twins: each does one thing wrong, as real code has done it wrong before."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sordino.audit.self_test.patches import Patches
from sordino.core import Released
from sordino.data.examples import Examples
from sordino.engine import bought_survey
from sordino.engine import federation as federation_module
from sordino.engine import tally as tally_module
from sordino.engine.bought_survey import BoughtSurvey
from sordino.engine.client import noisy_steps
from sordino.engine.federation import FederationServer
from sordino.gradients import ClippedGradients
from sordino.methods.context import ClientContext
from sordino.methods.dp_pfeddsu import DpPfedDsu
from sordino.privacy import clipping, door, pricing
from sordino.privacy.banded import BandedOverRounds
from sordino.privacy.door import ClientDoor, Permit
from sordino.privacy.mechanisms import UPDATE
from sordino.privacy.noise import SeededNoise
from sordino.privacy.samplers import Poisson, poisson_batch
from sordino.privacy.streams import stream_id

Twin = Callable[[Patches], None]


def _noise_scaled(patch: Patches, factor: float) -> None:
    right = Permit._noise
    patch.setattr(
        Permit,
        "_noise",
        lambda self, like, scale, verb, part: right(self, like, factor * scale, verb, part),
    )


def noise_forgotten(patch: Patches) -> None:
    _noise_scaled(patch, 0.0)


def noise_halved(patch: Patches) -> None:
    _noise_scaled(patch, 0.5)


def noise_short_of_a_tenth(patch: Patches) -> None:
    _noise_scaled(patch, 0.9)


def embedding_bare(patch: Patches) -> None:
    """Of a gradient's part in a public subspace and its rest, only the rest is noised."""
    right = Permit._noise
    patch.setattr(
        Permit,
        "_noise",
        lambda self, like, scale, verb, part: right(self, like, 0.0 if part == UPDATE else scale, verb, part),
    )


def columns_longer_than_one(patch: Patches) -> None:
    """Correlated noise as if the matrix needed no norm: contributions move it by more than was charged."""
    right = BandedOverRounds.draw
    patch.setattr(
        BandedOverRounds,
        "draw",
        lambda self, source, like, wanted: right(self, source, like, wanted) * self.matrix.diagonal(wanted.round),
    )


def noise_reused(patch: Patches) -> None:
    """The number of the ledger's line is left out of the stream's name, so every round draws the same noise."""
    patch.setattr(door, "stream_id", lambda kind, number, *rest: stream_id(kind, *rest))


def clients_seeded_alike(patch: Patches) -> None:
    """All clients draw their noise from one seed."""
    right = ClientDoor.__init__

    def wrong(self: ClientDoor, source: Any) -> None:
        right(self, SeededNoise(7) if type(self) is ClientDoor else source)

    patch.setattr(ClientDoor, "__init__", wrong)


def _no_factors(patch: Patches) -> None:
    patch.setattr(clipping, "factor_of", lambda norm, clip, dtype: 1.0)
    patch.setattr(clipping, "factors_of", lambda norms, clip, dtype: torch.ones_like(norms, dtype=dtype))


def clip_skipped(patch: Patches) -> None:
    _no_factors(patch)
    right = ClippedGradients.sum
    patch.setattr(ClippedGradients, "sum", lambda self, x, y, clip_norm: right(self, x, y, clip_norm=1e6))


def clipped_after_averaging(patch: Patches) -> None:
    """The mean update is clipped, no client's is."""
    _no_factors(patch)
    right, seal = clipping.sum_bounded, vars(clipping)["seal"]

    def wrong(values: Any, clip: Any, *, like: Tensor) -> Any:
        total = right(values, clip, like=like)
        mean = clipping.read_bounded(total) / max(1, len(values))
        scale = min(1.0, clip.bound / max(1e-12, float(mean.norm())))
        return seal(mean * scale * len(values), bound=total.bound, norm=total.norm, units=total.units, zeroed=0)

    patch.setattr(tally_module, "sum_bounded", wrong)


def batch_clipped(patch: Patches) -> None:
    """The mean gradient of a batch is clipped, and so is the sum that it stands for; no example's is."""
    right = ClippedGradients.sum

    def wrong(self: ClippedGradients, inputs: Tensor, targets: Tensor, clip_norm: float) -> Any:
        found = right(self, inputs, targets, clip_norm=1e6)
        mean = found.total / max(1, len(inputs))
        mean = mean * min(1.0, clip_norm / max(1e-12, float(mean.norm())))
        return dataclasses.replace(found, total=mean * len(inputs))

    patch.setattr(ClippedGradients, "sum", wrong)


def let_through_what_is_not_finite(patch: Patches) -> None:
    """A contribution with a NaN or an infinity is not put to zero."""
    right = clipping.factor_of
    patch.setattr(
        clipping,
        "factor_of",
        lambda norm, clip, dtype: right(norm, clip, dtype) if math.isfinite(norm) else 1.0,
    )


def groups_charged_as_one(patch: Patches) -> None:
    """Every group is clipped to the bound by itself, and the ledger is told of one bound for all."""
    for module in (clipping, pricing):
        patch.setattr(module, "widening", lambda groups, norm: 1.0)


def drawn_twice_as_often(patch: Patches) -> None:
    right = Poisson.draw

    def wrong(self: Poisson, number: int, source: Any) -> Any:
        return right(dataclasses.replace(self, expected_cohort=2 * self.expected_cohort), number, source)

    patch.setattr(Poisson, "draw", wrong)


def batches_twice_as_large(patch: Patches) -> None:
    patch.setattr(
        noisy_steps,
        "poisson_batch",
        lambda examples, rate, source, stream: poisson_batch(examples, min(1.0, 2 * rate), source, stream=stream),
    )


def fixed_size_for_coins(patch: Patches) -> None:
    """As many as are expected are drawn each time, and charged as if each had flipped a coin."""

    def wrong(self: Poisson, number: int, source: Any) -> Any:
        pool = self.pool(number)
        lots = source.uniform(len(pool), stream=stream_id("cohort", number, 0)).numpy()
        return np.sort(pool[np.argsort(lots)[: round(self.expected_cohort)]])

    patch.setattr(Poisson, "draw", wrong)


def seats_left_empty(patch: Patches) -> None:
    """Whoever is missing takes a share of the noise along."""
    patch.setattr(Permit, "fill_seats", lambda self, missing, like, part: Released.public(torch.zeros_like(like)))


def divided_by_who_came(patch: Patches) -> None:
    """The mean is over those who answered, which tells how many were drawn."""
    right = FederationServer._exchange

    def counted(self: FederationServer, requests: Any, **how: Any) -> Any:
        found = right(self, requests, **how)
        vars(self)["_came"] = len(found)
        return found

    patch.setattr(FederationServer, "_exchange", counted)
    patch.setattr(FederationServer, "expected_cohort", property(lambda self: float(max(1, vars(self).get("_came", 1)))))


def mask_charged_as_covered(patch: Patches) -> None:
    """Masks from private weights, priced like a public one, with nobody to ask."""
    patch.setattr(DpPfedDsu, "uncovered", property(lambda self: ""))
    patch.setattr(federation_module, "check_on_support", lambda *given, **known: None)

    def unguarded(self: Permit, value: Any, support: Any) -> Any:
        noisy = Permit.release(self, value)
        sent = clipping.read_bounded(value)
        return noisy.map(lambda every: torch.where(support._Private__value, every, sent))

    patch.setattr(Permit, "release_on_support", unguarded)


def priced_by_a_false_declaration(patch: Patches) -> None:
    """Uploads are used one by one, under the price of their sum."""
    patch.setattr(federation_module, "check_uploads", lambda *given, **known: None)


def nothing_broken(patch: Patches) -> None:
    """The real parts."""


def statistics_without_noise(patch: Patches) -> None:
    """What clients are asked before the first round goes out as it is."""
    right = Permit._noise
    patch.setattr(
        Permit,
        "_noise",
        lambda self, like, scale, verb, part: right(
            self, like, 0.0 if self.grant.label == "statistic" else scale, verb, part
        ),
    )


def absent_rows_count_nothing(patch: Patches) -> None:
    """A row that contributes nothing counts 0 in a bought number, and then moves it by 1 where ½ is noised."""
    right = BoughtSurvey.measure

    def wrong(self: BoughtSurvey, model: Tensor, examples: Examples, context: ClientContext) -> dict[str, float]:
        return right(self, model, examples, dataclasses.replace(context, size=len(examples)))

    patch.setattr(BoughtSurvey, "measure", wrong)


def squares_beyond_the_bounds(patch: Patches) -> None:
    """A value far outside of its column's bounds is squared as it stands."""
    patch.setattr(bought_survey, "held", lambda values: values)


def statistics_half_covered(patch: Patches) -> None:
    """As if a squared length moved like a length: the factor two of |a² − b²| = |a − b|·(a + b) is forgotten."""
    patch.setattr(clipping.StatisticBound, "sensitivity", property(lambda self: self.moves / 2))
