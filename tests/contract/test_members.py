"""What every member of every axis must do. New members are found and tested by themselves."""

import math

import numpy as np
import pytest
import torch

import sordino
from contract import contract_table, play
from sordino.core import Released, SordinoError
from sordino.data.partition import PARTITIONERS
from sordino.methods import METHODS
from sordino.methods.method import Upload
from sordino.models import MODELS, FlatSpace, build, validate
from sordino.pretrain import STARTS
from sordino.privacy.ledger import read_lines
from sordino.privacy.mechanisms import MECHANISMS
from sordino.privacy.noise import SeededNoise
from sordino.privacy.samplers import SAMPLERS
from sordino.report.catalogue import axes
from sordino.tuning import TUNINGS, Task


def names(registry):
    return [member.name for member in registry]


def method_table(name):
    """Settings under which any method runs on a small federation, with noise that it accepts."""
    method = METHODS[name]()
    noise = "local" if method.protected and method.unit == "client" and method.uses == "each" else "central"
    shallow = {"layers": 1} if name == "dp-pfeddsu" else {}
    return {"method": {"name": name, **shallow}, "privacy": {"noise": noise, "noise_multiplier": 1.0}}


@pytest.mark.parametrize("name", names(METHODS))
def test_a_method_runs_and_its_ledger_tells_of_every_round(name, tiny, tmp_path):
    summary = sordino.run(tiny(**method_table(name)), out=tmp_path / "run")
    lines = read_lines(tmp_path / "run" / "ledger.jsonl")
    assert {line.round for line in lines} <= set(range(4))
    assert all({charge.view for charge in line.charges} == {"public", "server", "client"} for line in lines)
    finite = [view for view, entry in summary["epsilon"].items() if math.isfinite(entry["epsilon"])]
    assert bool(finite) == METHODS[name]().protected
    assert 0 <= summary["accuracy"] <= 1


@pytest.mark.parametrize("name", names(METHODS))
def test_a_method_gets_released_values_only(name):
    for release in play(contract_table(method_table(name)["method"])).releases:
        values = [upload.value for upload in release] if isinstance(release, list) else [release]
        assert all(isinstance(upload, Upload) for upload in release) if isinstance(release, list) else True
        assert all(isinstance(value, Released) for value in values)


@pytest.mark.parametrize("name", names(MECHANISMS))
def test_a_mechanism_tells_the_accountant_what_it_draws(name):
    mechanism = MECHANISMS[name](**({"public": {"source": "digits"}} if name == "gep" else {}))
    assert mechanism.event(1.3).noise_multiplier == 1.3
    assert type(mechanism.event(0.0)).__name__ == "NonPrivateDpEvent"
    values = mechanism.draw(SeededNoise(1), torch.zeros(50_000), scale=2.0, stream=1)
    spread = float(values.abs().mean()) / 2.0
    assert spread == pytest.approx({"gaussian": math.sqrt(2 / math.pi), "laplace": 1.0}.get(name, spread), rel=0.03)
    assert mechanism.norm in ("l1", "l2")


@pytest.mark.parametrize("name", names(SAMPLERS))
def test_a_sampler_draws_from_its_pool_and_within_its_seats(name):
    sampler = SAMPLERS[name](clients=30, rounds=10, expected_cohort=5, participation_cap=5, bounded=True)
    for number in range(10):
        cohort = sampler.draw(number, SeededNoise(2))
        assert set(cohort.tolist()) <= set(sampler.pool(number).tolist())
        assert len(cohort) <= sampler.seats
        assert np.all(np.diff(cohort) > 0)


@pytest.mark.parametrize("name", names(MODELS))
def test_a_model_has_a_head_and_a_body_and_trains_without_batchnorm(name):
    text = name == "lstm"
    shape = (16,) if text else (3, 32, 32)
    net = build(name, shape=shape, classes=5, vocabulary=50 if text else 0, seed=1)
    everything = [parameter for parameter, _ in net.named_parameters()]
    validate(net, everything)
    assert sorted(name for part in net.parts().values() for name in part) == sorted(everything)
    assert net.parts()["head"]
    inputs = torch.randint(50, (2, 16)) if text else torch.randn(2, *shape)
    assert net(inputs).shape == (2, 5)
    space = FlatSpace(net)
    flat = space.read(net)
    space.write(net, flat + 1)
    assert torch.allclose(space.read(net), flat + 1)


@pytest.mark.parametrize("name", names(MODELS))
def test_a_model_stores_nothing_of_what_it_is_trained_on(name):
    text = name == "lstm"
    shape = (16,) if text else (3, 32, 32)
    net = build(name, shape=shape, classes=5, vocabulary=50 if text else 0, seed=1).train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    inputs = torch.randint(50, (2, 16)) if text else torch.randn(2, *shape)
    net(inputs).sum().backward()
    after = net.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(value, after[key]) for key, value in before.items())


@pytest.mark.parametrize("name", names(PARTITIONERS))
def test_a_partitioner_gives_every_row_to_one_client(name):
    labels = np.arange(300) % 6
    settings = {"quantity": {"ratios": (3, 2, 1)}, "groups": {"groups": (2, 2, 2)}}.get(name, {})
    column = np.repeat(np.arange(3), 100) if name == "column" else None
    partition = PARTITIONERS[name](**settings).split(labels, column, clients=3, rng=np.random.default_rng(1))
    assert sorted(partition.indices.tolist()) == list(range(300))
    assert partition.sizes.min() > 0


@pytest.mark.parametrize("name", names(TUNINGS))
def test_a_tuning_trains_parameters_that_exist(name):
    tuning, task = TUNINGS[name](), Task(shape=(1, 8, 8), classes=3)
    bridge = tuning
    source = bridge.source_task(task)
    built = build("logistic", shape=source.shape, classes=source.classes)
    net = bridge.wrap(built, task, seed=1)
    trained = tuning.trainable(net)
    assert trained
    assert net(torch.randn(2, *task.shape)).shape == (2, task.classes)
    assert set(trained) <= {parameter for parameter, _ in net.named_parameters()}


@pytest.mark.parametrize("name", names(STARTS))
def test_a_start_never_takes_private_data(name, tiny, tmp_path):
    if name in ("scratch", "file"):
        assert "data" not in STARTS[name].__dataclass_fields__
        return
    table = tiny(start={"name": name, "data": {"source": "digits", "visibility": "private"}})
    with pytest.raises(SordinoError, match="marked public"):
        sordino.run(table, out=tmp_path / "run")


def test_the_catalogue_finds_everything_by_itself():
    catalogue = axes()
    assert {"fedavg", "dp-fedavg", "dp-sgd"} <= set(catalogue["method"])
    assert all(summary for members in catalogue.values() for summary in members.values())
