"""Canaries in random directions, seen through the last model alone."""

import numpy as np
import pytest
import torch

from sordino.audit.auditing import audit_experiment
from sordino.audit.final_model import estimated_epsilon
from sordino.audit.planting.jobs import direction
from sordino.audit.self_test.patches import Patches
from sordino.audit.self_test.running import TWINS, try_twin
from sordino.audit.self_test.twins import nothing_broken
from sordino.core import SordinoError
from sordino.experiment import experiment
from sordino.privacy.gaussian import gaussian_epsilon


@pytest.mark.parametrize("mu", [0.5, 2.0, 4.0])
def test_the_estimate_is_the_epsilon_of_gaussian_noise(mu):
    """Standardised quantiles, so that mean and spread are those of the distribution itself."""
    places = np.random.default_rng(1).normal(size=4000)
    present = mu + (places - places.mean()) / places.std(ddof=1)
    assert estimated_epsilon(present, delta=1e-5) == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-3)


def test_nothing_to_see_is_estimated_as_nothing():
    places = np.random.default_rng(1).normal(size=4000)
    assert estimated_epsilon((places - places.mean()) / places.std(ddof=1), delta=1e-5) == 0.0


def test_directions_are_of_length_one_and_each_canarys_own():
    first, other = direction(0, 900, 7), direction(1, 900, 7)
    assert float(first.norm()) == pytest.approx(1.0) and abs(float(first @ other)) < 0.2
    assert torch.equal(first, direction(0, 900, 7)) and not torch.equal(first, direction(0, 900, 8))


@pytest.mark.parametrize(("twin", "alarms"), [("nothing: the real parts", False), ("noise forgotten", True)])
def test_the_last_model_alone_tells_a_forgotten_noise(twin, alarms):
    assert ("last model" in try_twin(twin, "last model alone").alarms) is alarms


def test_twins_are_tried_on_the_last_model():
    assert sum("last model alone" in benches for _, benches in TWINS.values()) >= 2


def test_what_promises_something_to_examples_has_no_canary_clients():
    table = {
        "rounds": 1,
        "model": "logistic",
        "data": {"source": "digits", "clients": 3, "test": "public-split"},
        "method": {"name": "dp-sgd", "batch_size": "full"},
        "privacy": {"noise_multiplier": 2.0, "delta": 1e-3},
    }
    with pytest.raises(SordinoError, match="promises something to every example"), Patches() as patch:
        nothing_broken(patch)
        audit_experiment(experiment(table), runs=1, final_model=True)
