"""Starts and clients alone are trained on as many compute threads as there are workers, since last bits depend on how many."""

import pytest
import torch

import sordino
from sordino.engine.pretraining import pretrain
from sordino.engine.simulate.workers import Place, Workers
from sordino.experiment import experiment
from sordino.models import FlatSpace, build
from sordino.pretrain.public_training import PublicTraining
from sordino.threads import compute_threads

CPU = torch.device("cpu")
START = {"name": "standard", "epochs": 1, "data": {"source": "mnist5k", "visibility": "public", "limit": 64}}


@pytest.fixture(autouse=True)
def three_cores(monkeypatch):
    monkeypatch.setattr("sordino.threads.free_cores", lambda: 3)


@pytest.fixture
def seen(monkeypatch, tmp_path):
    """On how many threads each training of a start was done."""
    monkeypatch.setenv("SORDINO_PRETRAINED", str(tmp_path / "store"))
    found, train = [], PublicTraining.train

    def watched(self, context):
        found.append(torch.get_num_threads())
        return train(self, context)

    monkeypatch.setattr(PublicTraining, "train", watched)
    return found


@pytest.mark.parametrize(("workers", "expected"), [(1, 1), (2, 2), (64, 3), (0, 3)])
def test_a_run_and_a_pre_training_take_the_threads_of_its_workers(workers, expected, tiny, seen, tmp_path):
    table = tiny(rounds=1, start=START, engine={"workers": workers})
    with compute_threads(3):
        sordino.run(table, out=tmp_path / "run")
        pretrain(experiment(table), tmp_path / "start", folder=tmp_path, progress=lambda done, total: None)
        assert torch.get_num_threads() == 3
    assert seen == [expected, expected]


def test_threads_are_as_before_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="inside"), compute_threads(before + 1):
        raise ValueError("inside")
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(("workers", "lone", "several"), [(1, 1, 1), (2, 2, 1), (64, 3, 1), (0, 3, 1)])
def test_a_client_alone_takes_the_threads_of_all_workers(workers, lone, several):
    net = build("logistic", shape=(4,), classes=2)
    made = Workers(
        net, FlatSpace(net, [name for name, _ in net.named_parameters()]), seed=1, device=CPU, workers=workers
    )
    places = [Place(client=number, round=0, size=1) for number in range(3)]

    def threads(number, context):
        return torch.get_num_threads()

    with compute_threads(3):
        assert made.each(places[:1], threads) == [lone]
        assert made.each(places, threads) == [several] * 3
        assert torch.get_num_threads() == 3
    made.close()
