"""Momentum of dp-sgd: heavy ball over the rounds where a turn is one step, and within a turn otherwise."""

import dataclasses

import pytest
import torch
from safetensors.torch import load_file

import sordino
from sordino.audit.watched import watched_federation
from sordino.core import Private, SordinoError
from sordino.data.examples import IDENTITY, Examples
from sordino.engine.record import RunRecord
from sordino.engine.resolved import resolve
from sordino.engine.run import run_experiment
from sordino.experiment import experiment
from sordino.privacy.ledger import read_lines

ROUNDS, FEATURES, SIZES = 12, 6, [30, 50, 20]
STEPS = {"name": "dp-sgd", "batch_size": 10, "learning_rate": 0.3, "momentum": 0.8, "weight_decay": 0.05}


def rows(size, seed):
    draw = torch.Generator().manual_seed(seed)
    inputs, labels = torch.randn(size, FEATURES, generator=draw), torch.randint(2, (size,), generator=draw)
    return Private(Examples(inputs=inputs, labels=labels, normalisation=IDENTITY))


def trained(sizes, **method):
    """The model after some rounds, and the noisy sums that every round released, by client."""
    table = experiment(
        {
            "rounds": ROUNDS,
            "data": {"source": "digits", "clients": len(sizes)},
            "model": {"name": "logistic"},
            "method": {**STEPS, **method},
            "privacy": {"noise_multiplier": 0.5, "clip_norm": 0.5, "expected_cohort": 2 if len(sizes) > 1 else 1},
        }
    )
    sums = [{} for _ in range(ROUNDS)]

    def watch(grant, part, value):
        sums[grant.round][grant.client] = value.double()

    everyone = [rows(size, seed) for seed, size in enumerate(sizes)]
    dp_sgd = resolve(table).method
    with watched_federation(table, dp_sgd, everyone, sizes=sizes, features=FEATURES, watch=watch) as federation:
        state = {"model": torch.zeros(2 * FEATURES)}
        for number in range(ROUNDS):
            state = dp_sgd.round(number, state, federation.for_round(number))
    return state, sums


def heavy_ball(sums, sizes, *, cohort):
    """Polyak's momentum as torch.optim.SGD has it, in double precision, on the same released sums."""
    model, velocity = torch.zeros(2 * FEATURES, dtype=torch.float64), torch.zeros(2 * FEATURES, dtype=torch.float64)
    rate, decay = STEPS["learning_rate"], STEPS["weight_decay"]
    for released in sums:
        gradient = torch.zeros_like(model)
        for client, total in released.items():
            share = sizes[client] / sum(sizes) * len(sizes) / cohort
            gradient += share * (total / STEPS["batch_size"] + decay * model)
        velocity = STEPS["momentum"] * velocity + gradient
        model = model - rate * velocity
    return model


@pytest.mark.parametrize("sizes", [[40], SIZES], ids=["one place", "clients"])
def test_one_local_step_with_momentum_is_heavy_ball_on_the_same_noise(sizes):
    """Among clients some rounds miss somebody; whoever is absent adds nothing, and the velocity goes on."""
    state, sums = trained(sizes, where="one-place" if len(sizes) == 1 else "clients")
    if len(sizes) > 1:
        assert {len(released) for released in sums} > {3}
    expected = heavy_ball(sums, sizes, cohort=min(2, len(sizes)))
    torch.testing.assert_close(state["model"].double(), expected, atol=1e-5, rtol=1e-5)
    resting, _ = trained(sizes, momentum=0.0, where="one-place" if len(sizes) == 1 else "clients")
    assert float((state["model"] - resting["model"]).norm()) > 0.1


def test_a_velocity_is_kept_for_one_local_step_alone():
    assert set(trained(SIZES)[0]) == {"model", "velocity"}
    assert set(trained(SIZES, local_steps=2)[0]) == set(trained(SIZES, momentum=0.0)[0]) == {"model"}


def test_more_local_steps_begin_every_turn_at_rest():
    """Two clients' turns of two steps each, by hand: the second step remembers the first, and the next turn nothing."""
    table = {**STEPS, "local_steps": 2}
    sums = []
    settings = experiment(
        {
            "rounds": 2,
            "data": {"source": "digits", "clients": 1},
            "model": {"name": "logistic"},
            "method": table,
            "privacy": {"noise_multiplier": 0.5, "clip_norm": 0.5},
        }
    )
    dp_sgd = resolve(settings).method
    with watched_federation(
        settings,
        dp_sgd,
        [rows(40, 0)],
        sizes=[40],
        features=FEATURES,
        watch=lambda line, index, value: sums.append(value),
    ) as federation:
        state = {"model": torch.zeros(2 * FEATURES)}
        for number in range(2):
            state = dp_sgd.round(number, state, federation)
    model = torch.zeros(2 * FEATURES)
    for turn in (sums[:2], sums[2:]):
        velocity = torch.zeros(2 * FEATURES)
        for total in turn:
            velocity = 0.8 * velocity + total / 10 + 0.05 * model
            model = model - 0.3 * velocity
    torch.testing.assert_close(state["model"], model)


@pytest.mark.parametrize("where", ["one-place", "clients"])
def test_an_interrupted_run_takes_up_its_velocity(where, tiny, tmp_path):
    table = tiny(rounds=5, method={**STEPS, "where": where}, engine={"evaluate_every": 5})

    def interrupt(moment):
        if moment.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment(table), tmp_path / "broken", watch=interrupt)
    assert RunRecord(tmp_path / "broken").load_checkpoint().state["velocity"].any()
    sordino.run(table, out=tmp_path / "broken", resume=True)
    sordino.run(table, out=tmp_path / "whole")
    for file in ("model.safetensors", "ledger.jsonl", "metrics.jsonl"):
        assert (tmp_path / "broken" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file
    sordino.run({**table, "method": {**table["method"], "momentum": 0.0}}, out=tmp_path / "resting")
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "resting"))
    assert any(not torch.equal(one[name], other[name]) for name in one)
    ledgers = [read_lines(tmp_path / name / "ledger.jsonl") for name in ("whole", "resting")]
    assert ledgers[0] == ledgers[1], "the velocity is post-processing and costs nothing"


@pytest.mark.parametrize("name", ["fedceo", "udp-fedavg-svt"])
def test_smoothed_models_refuse_a_momentum_that_would_do_nothing(name, tiny):
    steps = {"local_steps": 1, "momentum": 0.5}
    with pytest.raises(SordinoError, match="momentum acts from one local step to the next"):
        sordino.plan(tiny(method={"name": name, "noisy_steps": steps}))
    sordino.plan(tiny(method={"name": name, "noisy_steps": {**steps, "local_steps": 2}}))
    assert dataclasses.asdict(resolve(experiment(tiny(method={"name": name, "noisy_steps": {"momentum": 0.0}}))).method)
