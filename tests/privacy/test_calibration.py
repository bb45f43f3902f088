"""Calibrated noise keeps its target on both grids, and wastes less than one per cent of it."""

import dataclasses
import math
from collections.abc import Mapping

import dp_accounting as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.core import Neighbours, SordinoError
from sordino.privacy import calibration
from sordino.privacy import event_kinds as kinds
from sordino.privacy.accounting import Spent, spent
from sordino.privacy.calibration import Plan, calibrate, rounded_up

DELTA = 1e-5
Gaussian, Laplace, Poisson, FixedSize = (
    kinds.GaussianDpEvent,
    kinds.LaplaceDpEvent,
    kinds.PoissonSampledDpEvent,
    kinds.SampledWithoutReplacementDpEvent,
)

PLANS: Mapping[str, Plan] = {
    "poisson": lambda z: {Poisson(0.05, Gaussian(z)): 300},
    "everyone": lambda z: {Gaussian(z): 300},
    "laplace": lambda z: {Laplace(z): 10},
    "two phases": lambda z: {Poisson(0.1, Gaussian(z)): 50, Poisson(0.02, Gaussian(2 * z)): 100},
    "schedule": lambda z: {Poisson(0.05, Gaussian(z * (1 + step / 8))): 1 for step in range(8)},
    "joint": lambda z: {Poisson(0.05, kinds.ComposedDpEvent((Gaussian(z), Gaussian(5 * z)))): 30},
    "with a fixed part": lambda z: {Poisson(0.05, Gaussian(z)): 30, Laplace(50.0): 1},
}


def check(plan: Plan, epsilon: float, delta: float, neighbours: Neighbours) -> None:
    noise_multiplier = calibrate(plan, epsilon=epsilon, delta=delta, neighbours=neighbours)
    for precise in (False, True):
        figure = spent(plan(noise_multiplier), delta=delta, neighbours=neighbours, precise=precise).epsilon
        assert 0.99 * epsilon <= figure <= epsilon


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
@pytest.mark.parametrize("neighbours", ["zero-out", "replace-one"])
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_never_over_and_within_one_per_cent(plan: Plan, epsilon: float, neighbours: Neighbours) -> None:
    check(plan, epsilon, DELTA, neighbours)


@settings(max_examples=8, deadline=None)
@given(st.floats(0.05, 8), st.floats(0.005, 0.9), st.integers(1, 400), st.floats(1e-8, 1e-3))
def test_any_poisson_plan(epsilon: float, rate: float, rounds: int, delta: float) -> None:
    check(lambda z: {Poisson(rate, Gaussian(z)): rounds}, epsilon, delta, "zero-out")


def test_fixed_size_plan() -> None:
    check(lambda z: {FixedSize(100, 20, Gaussian(z)): 20}, 2.0, DELTA, "zero-out")


def test_pure_laplace_by_hand() -> None:
    found = calibrate(lambda z: {Laplace(z): 5}, epsilon=2.0, delta=0.0, neighbours="replace-one")
    assert found == pytest.approx(2 * 5 / 2.0, rel=1e-3)
    assert found >= 5.0


def test_one_gaussian_agrees_with_the_closed_form() -> None:
    found = calibrate(lambda z: {Gaussian(z): 1}, epsilon=1.0, delta=DELTA, neighbours="zero-out")
    exact = dp.get_sigma_gaussian(1.0, DELTA)
    assert exact <= found <= 1.001 * exact


@pytest.mark.parametrize("part", [kinds.NonPrivateDpEvent(), Laplace(0.1)])
def test_an_unreachable_target_is_one_sentence(part: kinds.DpEvent) -> None:
    with pytest.raises(SordinoError, match="No noise multiplier"):
        calibrate(lambda z: {Gaussian(z): 1, part: 1}, epsilon=1.0, delta=DELTA, neighbours="zero-out")


def test_a_target_that_needs_no_noise_is_said_so() -> None:
    with pytest.raises(SordinoError, match="practically no noise"):
        calibrate(lambda z: {Laplace(z): 1}, epsilon=1e6, delta=0.0, neighbours="zero-out")


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, DELTA), (-1.0, DELTA), (math.nan, DELTA), (math.inf, DELTA), (1.0, -1e-9), (1.0, 1.0)]
)
def test_impossible_targets_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(SordinoError):
        calibrate(PLANS["poisson"], epsilon=epsilon, delta=delta, neighbours="zero-out")


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (3.9043088078250827, 3.9044),
        (3.904308807823545, 3.9044),
        (3.9044, 3.9044),
        (40.0, 40.0),
        (0.00123451, 0.0012346),
    ],
)
def test_last_digits_do_not_count(number: float, expected: float) -> None:
    assert rounded_up(number) == expected >= number


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_a_multiplier_has_five_digits(plan: Plan) -> None:
    found = calibrate(plan, epsilon=2.0, delta=DELTA, neighbours="zero-out")
    assert float(f"{found:.5g}") == found


def test_a_process_that_computes_otherwise_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last digits of ε change from process to process, and with them those of the search."""
    here = calibrate(PLANS["poisson"], epsilon=2.0, delta=DELTA, neighbours="zero-out")

    def elsewhere(*args: object, **kwargs: object) -> Spent:
        figure = spent(*args, **kwargs)  # type: ignore[arg-type]
        return dataclasses.replace(figure, epsilon=figure.epsilon * (1 + 3e-13))

    monkeypatch.setattr(calibration, "spent", elsewhere)
    assert calibrate(PLANS["poisson"], epsilon=2.0, delta=DELTA, neighbours="zero-out") == here
