"""An audit of `make_private` from outside: what repeated steps prove of one example lies under what the accountant booked.

Each audit has a confidence of 1 - 0.001, and all seeds are fixed. Twins do one thing wrong each, and must be caught.
"""

import math

import pytest
import torch
from scipy.optimize import brentq
from torch import nn
from torch.utils.data import TensorDataset

import sordino
from sordino.audit.gaussian_dp import mu_lower_bound
from sordino.gradients import ClippedGradients
from sordino.library import private_loop
from sordino.privacy.gaussian import gaussian_epsilon
from sordino.privacy.noise import SeededNoise

REPEATS, ROWS, NOISE, DELTA, CLIP = 400, 4, 0.4, 1e-3, 0.5
CONFIDENCE = 0.999


def moved(*, present: bool, seed: int) -> tuple[list[float], float]:
    """How far single steps from one place go where the example pulls, in clip norms, and the ε that was booked for the first."""
    inputs = torch.zeros(ROWS, 2)
    inputs[0, 1] = 1000.0 if present else 0.0
    model = nn.Linear(2, 2, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    data = TensorDataset(inputs, torch.zeros(ROWS, dtype=torch.int64))
    private = sordino.make_private(
        model, optimizer, data, noise=NOISE, delta=DELTA, batch_size=ROWS, clip_norm=CLIP, seed=seed
    )
    pull = torch.tensor([1.0, -1.0]) / math.sqrt(2)
    found, booked = [], math.nan
    for epoch in range(REPEATS):
        for batch in private:
            private.step(*batch)
        booked = booked if epoch else private.epsilon
        found.append(float(model.weight.detach()[:, 1] @ pull) * ROWS / CLIP)
        nn.init.zeros_(model.weight)
    return found, booked


def proved_and_booked() -> tuple[float, float]:
    """μ of one step, as repeats prove it and as the booked ε says."""
    (present, booked), (absent, _) = moved(present=True, seed=1), moved(present=False, seed=2)
    proved = mu_lower_bound(absent, present, confidence=CONFIDENCE)
    return proved, brentq(lambda mu: gaussian_epsilon(mu, DELTA) - booked, 0.01, 20)


def test_repeated_steps_prove_no_more_than_is_booked():
    proved, booked = proved_and_booked()
    assert booked == pytest.approx(1 / NOISE, rel=1e-2)
    assert booked / 2 < proved <= booked, "an audit without power would prove nothing"


def half_the_noise(patch):
    right = SeededNoise.gaussian
    patch.setattr(SeededNoise, "gaussian", lambda self, *given, std, **rest: right(self, *given, std=std / 2, **rest))


def no_clip(patch):
    right = ClippedGradients.sum
    patch.setattr(ClippedGradients, "sum", lambda self, *given, clip_norm: right(self, *given, clip_norm=2 * clip_norm))


def booked_as_if_rarely_drawn(patch):
    right = private_loop.gaussian_step
    patch.setattr(private_loop, "gaussian_step", lambda noise, rate: right(noise, rate / 30))


@pytest.mark.parametrize("twin", [half_the_noise, no_clip, booked_as_if_rarely_drawn])
def test_a_broken_twin_is_caught(twin, monkeypatch):
    twin(monkeypatch)
    proved, booked = proved_and_booked()
    assert proved > booked
