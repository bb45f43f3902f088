"""One loop, one differing step: what SAM and DPAdapter share with ordinary training, and how a training resumes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from pretraining import DIGITS, context, same

from sordino.core import SordinoError
from sordino.models import build
from sordino.pretrain import public_training, store
from sordino.pretrain.dpadapter import DpAdapter
from sordino.pretrain.sam import Sam
from sordino.pretrain.standard import Standard
from sordino.settings import validated

COMMON = {"data": DIGITS, "epochs": 3, "batch_size": 32}


@pytest.fixture(autouse=True)
def own_store(tmp_path, monkeypatch):
    monkeypatch.setenv(store.STORE_VARIABLE, str(tmp_path / "store"))


def weights(start, **changes):
    return start.train(context(**changes)).weights


def test_without_a_radius_nothing_is_perturbed():
    plain = weights(Standard(**COMMON))
    assert same(weights(Sam(**COMMON, perturbation_radius=0)), plain)
    assert same(weights(DpAdapter(**COMMON, perturbation_radius=0, perturbation_batch=200)), plain)
    assert not same(weights(Sam(**COMMON)), plain)


def test_with_equal_batches_dpadapter_is_sam(monkeypatch):
    monkeypatch.setattr(DpAdapter, "perturbation_rows", lambda self, rows, examples, generator: rows)
    decoupled = DpAdapter(**COMMON, perturbation_batch=32, perturbation_radius=0.5)
    assert same(weights(decoupled), weights(Sam(**COMMON, perturbation_radius=0.5)))


def test_a_large_perturbation_batch_differs_from_a_small_one():
    few, many = (DpAdapter(**COMMON, perturbation_batch=size) for size in (32, 300))
    assert not same(weights(few), weights(many))


def test_warm_up_is_ordinary_training():
    assert same(weights(Sam(**COMMON, warmup_epochs=3)), weights(Standard(**COMMON)))
    assert not same(weights(Sam(**COMMON, warmup_epochs=2)), weights(Standard(**COMMON)))


def test_the_rate_falls_tenfold_at_half_and_at_three_quarters():
    start = Standard(data=DIGITS, learning_rate=0.4)
    rates = [start.rate(step, 8) for step in range(8)]
    assert rates == pytest.approx([0.4] * 4 + [0.04] * 2 + [0.004] * 2)


@pytest.mark.parametrize("kind", [Standard, Sam, DpAdapter])
def test_an_interrupted_training_ends_in_the_same_bits(kind, monkeypatch):
    start = kind(**COMMON, **({"perturbation_batch": 100} if kind is DpAdapter else {}))
    monkeypatch.setattr(public_training, "CHECKPOINT_SECONDS", 0.0)

    def interrupt(done, total):
        if done == 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start.train(context(progress=interrupt))
    steps = []
    resumed = start.train(context(progress=lambda done, total: steps.append(done)))
    assert steps[0] == 21
    monkeypatch.setenv(store.STORE_VARIABLE, str(store.store_folder()) + "-other")
    assert same(resumed.weights, weights(start))


def test_the_same_training_is_done_once_and_anything_else_anew():
    steps = []
    count = {"progress": lambda done, total: steps.append(done)}
    start = Standard(**COMMON)
    first = start.train(context(**count))
    again = start.train(context(**count))
    assert len(steps) == 30
    assert same(first.weights, again.weights)
    assert first.record == again.record
    for other in (
        Standard(**{**COMMON, "data": {**DIGITS, "limit": 299}}),
        Standard(**COMMON, weight_decay=0.0),
        Standard(**COMMON, seed=9),
    ):
        steps.clear()
        other.train(context(**count))
        assert steps


def test_those_who_need_the_same_training_at_the_same_time_do_it_once():
    start, steps = Standard(**COMMON, seed=77), []
    told = {"progress": lambda done, total: steps.append(done)}
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: start.train(context(**told)), range(3)))
    assert len(steps) == 30
    assert all(same(found[0].weights, other.weights) for other in found)
    assert not list(store.store_folder().glob("*/.*"))


def test_a_seed_of_its_own_makes_the_start_the_same_for_every_experiment_seed():
    start = Standard(**COMMON, seed=9)
    assert same(weights(start, seed=1), weights(start, seed=2))


def test_the_head_is_kept_or_left_new():
    net = build("mlp", shape=(1, 8, 8), classes=4, seed=1, hidden=[12], dropout=0.2)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    Standard(**COMMON, keep_head=False).prepare(net, context(classes=4))
    after = net.state_dict()
    assert torch.equal(after["head.weight"], before["head.weight"])
    assert not torch.equal(after["body.1.weight"], before["body.1.weight"])


def test_bad_inputs_get_one_sentence():
    with pytest.raises(SordinoError, match="keep_head = false"):
        Standard(**COMMON).train(context(classes=4))
    with pytest.raises(SordinoError, match="300; lower it"):
        DpAdapter(**COMMON, perturbation_batch=301).train(context())
    with pytest.raises(SordinoError, match=r"perturbation_radius should be .*-1"):
        validated(Sam, {**COMMON, "perturbation_radius": -1}, where="start")
    with pytest.raises(SordinoError, match="marked public"):
        Standard(**{**COMMON, "data": {**DIGITS, "visibility": "private"}}).train(context())


def test_a_public_set_that_shares_rows_with_the_private_one_is_refused(tiny, tmp_path):
    import sordino

    for kind in ("standard", "sam", "dpadapter"):
        with pytest.raises(SordinoError, match="also training or test examples of the private set"):
            sordino.run(tiny(start={"name": kind, "data": {"source": "digits", "visibility": "public"}}), out=tmp_path)


def test_an_experiment_uses_a_start_and_a_sweep_trains_it_once(tiny, tmp_path):
    from sordino.sweeps.grid import Sweep
    from sordino.sweeps.running import run_sweep

    start = {**COMMON, "name": "dpadapter", "data": {"source": "mnist5k", "visibility": "public", "limit": 200}}
    table = tiny(rounds=1, start={**start, "perturbation_batch": 100, "seed": 1})
    trained = set()

    def look(progress):
        trained.update(label for label, moment in progress.running.items() if moment.stage == "pre-training")

    run_sweep(
        Sweep(table=table, axes={"privacy.noise_multiplier": ["1", "2"]}, seeds=2),
        tmp_path / "sweep",
        folder=tmp_path,
        look=look,
    )
    assert trained == {"noise_multiplier=1, seed 3"}
