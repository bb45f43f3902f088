"""FedSGD with noise on each client's mean gradient: the variances that theory states, client by client."""

import math

import pytest
import torch

from sordino.engine.dealing import federate
from sordino.engine.pricing import make_tariff
from sordino.engine.resolved import resolve
from sordino.experiment import experiment
from sordino.privacy.accounting import spent
from sordino.privacy.clipping import Clip, sum_bounded
from sordino.privacy.door import Door
from sordino.privacy.gaussian import gaussian_epsilon
from sordino.privacy.ledger import Ledger, Line
from sordino.privacy.noise import SeededNoise

ROUNDS, CLIENTS, DRAWS = 128, 4, 6_000_000
BUDGETS = {"laplace": [25.0, 30.0, 40.0, 50.0], "gaussian": [0.3, 0.5, 0.6, 0.8]}
CLIPS, DELTAS = {"laplace": 300.0, "gaussian": 15.0}, {"laplace": 0.0, "gaussian": 1e-5}


def fedsgd(mechanism, **method):
    return experiment(
        {
            "rounds": ROUNDS,
            "data": {"source": "digits", "clients": CLIENTS, "partition": {"name": "dirichlet", "alpha": 1.0}},
            "model": {"name": "mlp"},
            "method": {"name": "dp-sgd", "batch_size": "full", **method},
            "privacy": {
                "client_epsilon": BUDGETS[mechanism],
                "delta": DELTAS[mechanism],
                "neighbours": "replace-one",
                "mechanism": mechanism,
                "clip_norm": CLIPS[mechanism],
                "sampler": "everyone",
            },
        }
    )


def priced(table):
    method = resolve(table).method
    sizes = federate(resolve(table)).sizes
    return make_tariff(resolve(table), clients=CLIENTS, sizes=sizes), sizes, method


def drawn_variance(tariff, client, rows):
    """Of the noise that the door really draws on one client's mean gradient."""
    price, clip = tariff.price(client, 0), Clip(bound=tariff.clip.bound, norm=tariff.clip.norm)
    door = Door(Ledger(clients=CLIENTS, delta=0.0, neighbours="replace-one"), SeededNoise(client))
    line = Line(
        round=0,
        label="steps",
        unit="example",
        owner=f"client {client}",
        mechanism=tariff.mechanism_name,
        norm=clip.norm,
        clip_bound=clip.bound,
        noise_multiplier=price.noise_multiplier,
        releases=1,
        participants=(client,),
        charges=price.charges,
    )
    noise = door.open(line).release(sum_bounded([], clip, like=torch.zeros(DRAWS))).value / rows
    return float(noise.double().square().mean())


@pytest.mark.parametrize("client", [0, 3])
def test_laplace_noise_has_the_variance_of_plain_composition(client):
    """b = 2Tξ/(dε) and variance 2b²; the sampling error of the measured one is √(5/draws) = 0.09 %."""
    tariff, sizes, _ = priced(fedsgd("laplace"))
    scale = 2 * ROUNDS * CLIPS["laplace"] / (sizes[client] * BUDGETS["laplace"][client])
    assert tariff.multiplier(client) * tariff.clip.bound / sizes[client] == pytest.approx(scale, rel=1e-4)
    assert drawn_variance(tariff, client, sizes[client]) == pytest.approx(2 * scale**2, rel=4e-3)


@pytest.mark.parametrize("client", [0, 3])
def test_gaussian_noise_is_calibrated_for_the_clients_own_budget(client):
    """A row moves a sum by 2ξ: T such releases are one with μ = 2√T/z, whose ε at δ has a closed form."""
    tariff, sizes, _ = priced(fedsgd("gaussian"))
    multiplier, budget = tariff.multiplier(client), BUDGETS["gaussian"][client]
    spent_epsilon = float(gaussian_epsilon(2 * math.sqrt(ROUNDS) / multiplier, DELTAS["gaussian"]))
    assert 0.998 * budget <= spent_epsilon <= budget
    deviation = multiplier * CLIPS["gaussian"] / sizes[client]
    assert drawn_variance(tariff, client, sizes[client]) == pytest.approx(deviation**2, rel=4e-3)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_poisson_batches_get_their_sampling_event_and_the_batch_sized_scale(mechanism):
    tariff, sizes, method = priced(fedsgd(mechanism, batch_size=64))
    for client, (rows, budget) in enumerate(zip(sizes, BUDGETS[mechanism], strict=True)):
        event = tariff.price(client, 0).in_view("public").event
        assert event.sampling_probability == method.rate(rows) == 64 / rows
        figure = spent({event: ROUNDS}, delta=DELTAS[mechanism], neighbours="replace-one", precise=True).epsilon
        assert 0.99 * budget <= figure <= budget
    full, _, _ = priced(fedsgd(mechanism))
    assert tariff.multiplier(0) / 64 > 0.99 * full.multiplier(0) / sizes[0], "a mean over fewer rows is not quieter"


def test_the_learning_rate_may_be_given_as_beta():
    table = fedsgd("laplace", beta=0.8)
    assert resolve(table).method.learning_rate == pytest.approx(0.8 / math.sqrt(ROUNDS))


def test_a_full_batch_step_is_the_weighted_mean_of_clipped_gradients(tiny, tmp_path):
    """With next to no noise, one round moves the model by the mean over all rows of clipped gradients."""
    from sordino.engine.resolved import resolve
    from sordino.engine.run import run_experiment
    from sordino.engine.setup import prepare
    from sordino.gradients import ClippedGradients

    table = experiment(
        tiny(
            rounds=1,
            method={"name": "dp-sgd", "batch_size": "full", "learning_rate": 1.0},
            privacy={"noise_multiplier": 1e-6, "sampler": "everyone", "expected_cohort": None},
        )
    )
    setup = prepare(resolve(table), folder=tmp_path, progress=lambda done, total: None)
    rows = setup.federated.source.train
    clipped = ClippedGradients(setup.net, norm="l2")
    mean = clipped.sum(rows.features("cpu"), rows.labels, clip_norm=0.5).total / len(rows)
    before = setup.space.read(setup.net)
    run_experiment(table, tmp_path / "run")
    from safetensors.torch import load_file

    setup.whole.load_state_dict(load_file(tmp_path / "run" / "model.safetensors"))
    torch.testing.assert_close(before - setup.space.read(setup.net), mean, atol=2e-6, rtol=1e-4)
