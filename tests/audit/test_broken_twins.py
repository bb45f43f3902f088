"""Every broken twin of a real part is caught: an audit that cannot catch it would be no evidence for the real one.

Each pair below is an audit that alarms on that twin, with the same seeds and confidence with which it does not alarm on
the real part. The chance of a false alarm is stated in audited.py; the chance to miss a twin, over all seeds, is 2 % for
half of the Laplace noise and below 1 % for the others.
"""

import dataclasses

import pytest
import torch
from audited import proved_and_claimed

from sordino.core import mint
from sordino.engine import tariff
from sordino.engine.client import noisy_steps
from sordino.gradients import ClippedGradients
from sordino.privacy import clipping, door, pricing
from sordino.privacy.adaptive_clip import COUNT
from sordino.privacy.door import Permit
from sordino.privacy.event_kinds import GaussianDpEvent
from sordino.privacy.samplers import Poisson, poisson_batch
from sordino.privacy.streams import stream_id


def noise_forgotten(patch):
    patch.setattr(Permit, "_noise", lambda self, like, scale, verb, part: torch.zeros_like(like))


def half_the_noise(patch):
    right = Permit._noise
    patch.setattr(Permit, "_noise", lambda self, like, scale, verb, part: right(self, like, scale / 2, verb, part))


def clip_skipped(patch):
    patch.setattr(clipping, "factors_of", lambda norms, clip, dtype: torch.ones_like(norms, dtype=dtype))
    patch.setattr(clipping, "factor_of", lambda norm, clip, dtype: 1.0)
    right = ClippedGradients.sum
    patch.setattr(ClippedGradients, "sum", lambda self, x, y, clip_norm: right(self, x, y, clip_norm=1e6))


def average_clipped(patch):
    """The mean gradient is clipped, and so is the sum that it stands for; no example is."""
    right = ClippedGradients.sum

    def wrong(self, inputs, targets, clip_norm):
        found = right(self, inputs, targets, clip_norm=1e6)
        mean = found.total / max(1, len(inputs))
        mean = mean * clipping.clip_factors(mean, clipping.Clip(bound=clip_norm, norm="l2"))
        return dataclasses.replace(found, total=mean * len(inputs))

    patch.setattr(ClippedGradients, "sum", wrong)


def groups_charged_as_one(patch):
    """Every group is clipped to the bound by itself, and the ledger is told of one bound for all."""
    for module in (clipping, pricing):
        patch.setattr(module, "widening", lambda groups, norm: 1.0)


def noise_reused(patch):
    """The number of the ledger's line is left out of the stream's name, so every round draws the same noise."""
    patch.setattr(door, "stream_id", lambda kind, number, *rest: stream_id(kind, *rest))


def sensitivity_halved(patch):
    """As if a squared length moved like a length: the factor two of |a² − b²| = |a − b|·(a + b) is forgotten."""
    patch.setattr(clipping.StatisticBound, "sensitivity", property(lambda self: self.moves / 2))


def seats_left_empty(patch):
    patch.setattr(Permit, "fill_seats", lambda self, missing, like, part: mint(torch.zeros_like(like)))


def count_without_noise(patch):
    """AdpClip as if its quantile were free: the count within the clip goes out bare, as if charged."""
    right = Permit._noise
    patch.setattr(
        Permit,
        "_noise",
        lambda self, like, scale, verb, part: right(self, like, scale * (part != COUNT), verb, part),
    )


def first_part_charged_alone(patch):
    """GEP as if its residual came for nothing."""
    for module in (tariff, pricing):
        patch.setattr(module, "joint", lambda *noise_multipliers: noise_multipliers[0])


def schedule_priced_at_its_mean(patch):
    """Every round pays for the mean multiplier, whatever it draws."""
    right = tariff.Tariff._price

    def wrong(self, noise_multiplier, rate, expected_units, stage):
        price = right(self, noise_multiplier, rate, expected_units, stage)
        rounds = range(self.sampler.rounds)
        parts = [self.mechanism.parts(noise_multiplier, bound=1.0, stage=t, expected_units=1.0) for t in rounds]
        mean = GaussianDpEvent(sum(part[0].noise_multiplier for part in parts) / len(parts))
        charges = tuple(dataclasses.replace(charge, event=mean) for charge in price.charges)
        return dataclasses.replace(price, charges=charges)

    patch.setattr(tariff.Tariff, "_price", wrong)


def drawn_twice_as_often(patch):
    right = Poisson.draw
    patch.setattr(
        Poisson,
        "draw",
        lambda self, number, source: right(
            dataclasses.replace(self, expected_cohort=2 * self.expected_cohort), number, source
        ),
    )
    patch.setattr(
        noisy_steps,
        "poisson_batch",
        lambda examples, rate, source, stream: poisson_batch(examples, 2 * rate, source, stream=stream),
    )


CAUGHT_BY = {
    noise_forgotten: [
        "one release, gaussian",
        "one release, laplace",
        "one statistic, laplace",
        "one run, central, public",
        "one run, central poisson, public",
        "one run, distributed, public",
        "one run, distributed, server",
        "one run, local, server",
        "one run, laplace, public",
        "one run, laplace local, server",
        "one run, steps in clients",
    ],
    half_the_noise: [
        "one release, gaussian",
        "two releases, gaussian",
        "one release, laplace",
        "one statistic, laplace",
        "repeats, central, public",
        "repeats, distributed, public",
        "repeats, distributed, server",
        "repeats, local, server",
        "repeats, steps in clients",
        "groups clipped apart",
    ],
    clip_skipped: [
        "one release, gaussian",
        "one release, laplace",
        "one run, central, public",
        "one run, distributed, server",
        "one run, local, server",
        "one run, laplace, public",
        "one run, steps in clients",
    ],
    groups_charged_as_one: ["groups clipped apart"],
    average_clipped: ["one run, steps in clients"],
    noise_reused: [
        "two releases, gaussian",
        "one run, central, public",
        "one run, distributed, public",
        "one run, local, server",
    ],
    sensitivity_halved: ["one statistic, laplace"],
    seats_left_empty: ["missing client"],
    count_without_noise: ["steps, adaptive clip"],
    first_part_charged_alone: ["steps, gep", "steps, adaptive clip"],
    schedule_priced_at_its_mean: ["steps, noise schedule"],
    drawn_twice_as_often: ["drawn cohorts", "drawn cohorts, distributed", "drawn batches"],
}


@pytest.mark.parametrize(
    ("twin", "audit"),
    [(twin, audit) for twin, audits in CAUGHT_BY.items() for audit in audits],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_broken_twin_is_caught(twin, audit, monkeypatch):
    twin(monkeypatch)
    proved, claimed = proved_and_claimed(audit)
    assert proved > claimed
