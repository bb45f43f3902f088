"""Experiments as objects: frames, arrays, torch data sets and models that a program holds, each from data to prediction."""

import inspect

import numpy as np
import pandas
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import sordino
from sordino.data.objects import to_table
from sordino.data.settings import SourceSettings
from sordino.methods.dp_sgd import DpSgd

PRIVACY = sordino.Privacy(epsilon=8.0, delta=1e-3, view="server")
RNG = np.random.default_rng(3)
FRAME = pandas.DataFrame(
    {"age": RNG.integers(20, 90, 300), "sex": RNG.choice(["f", "m"], 300), "site": RNG.choice(["A", "B"], 300)}
)
FRAME["ill"] = np.where(FRAME["age"] > 55, "yes", "no")
COLUMNS = {"age": {"kind": "number", "low": 0, "high": 110}, "sex": {"kind": "category", "values": ["f", "m"]}}


def images(rows):
    digits = load_digits()
    return (digits.images[:rows] * 15).astype(np.uint8), digits.target[:rows]


def test_a_frame_becomes_a_model_that_predicts(tmp_path):
    data = sordino.Data(
        FRAME[:250],
        label="ill",
        client="site",
        columns=COLUMNS,
        classes=["no", "yes"],
        test=FRAME[250:],
        alike_by_chance=True,
    )
    rounds = []
    experiment = sordino.Experiment(rounds=20, data=data, privacy=PRIVACY)
    result = experiment.run(tmp_path / "run", on_round=rounds.append)
    assert experiment.plan().epsilon["server"].epsilon == pytest.approx(result.epsilon["server"], abs=1e-6)
    assert [one.number for one in rounds] == list(range(1, 21)) and rounds[-1].accuracy == result.accuracy
    assert result["client_names"] == ["A", "B"] and result.accuracy > 0.8
    called = result.load().predict(FRAME[250:])
    assert np.mean(called == FRAME["ill"][250:].to_numpy()) == pytest.approx(result.accuracy)
    assert list(result.to_frame()["round"]) == list(range(20)) and "accuracy" in result.to_frame()
    assert sordino.load(tmp_path / "run").classes == ("no", "yes")


def test_arrays_and_a_module_of_ones_own(tmp_path):
    inputs, labels = images(400)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))
    before = [one.clone() for one in net.parameters()]
    data = sordino.Data((inputs, labels), owners=np.arange(400) % 4, test="public-split")
    result = sordino.Experiment(rounds=5, data=data, model=net, privacy=PRIVACY).run(tmp_path / "run")
    assert result["clients"] == 4 and result["parameters"] == 64 * 16 + 16 + 170
    assert all(torch.equal(one, other) for one, other in zip(net.parameters(), before, strict=True))
    assert result.load().predict(inputs[:3]).shape == (3,)
    assert sordino.load(tmp_path / "run", model=net).predict(inputs[:3]).shape == (3,)
    with pytest.raises(sordino.SordinoError, match=r"'python:Sequential' was an object of a Python program.*model=net"):
        sordino.load(tmp_path / "run")


class Pairs(Dataset):
    """As torchvision gives images: real numbers from 0 to 1, channels first."""

    def __init__(self):
        self.inputs, self.labels = images(200)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, number):
        return torch.from_numpy(self.inputs[number])[None].float() / 255, int(self.labels[number])


def test_a_torch_data_set_and_a_method_as_an_object(tmp_path):
    experiment = sordino.Experiment(
        rounds=3,
        data=sordino.Data(Pairs(), clients=2, test="public-split"),
        model={"name": "mlp", "hidden": [8]},
        method=DpSgd(learning_rate=0.5, batch_size=20),
        privacy=PRIVACY,
    )
    result = experiment.run(tmp_path / "run")
    assert result["method"] == "dp-sgd" and result["clients"] == 2
    same = sordino.Experiment(**{**vars(experiment), "data": sordino.Data(images(200), clients=2, test="public-split")})
    assert same.run(tmp_path / "same").accuracy == result.accuracy, "bytes and their real numbers are the same images"


def test_a_run_of_objects_goes_on_where_it_stopped(tmp_path):
    data = sordino.Data(images(100), clients=2, test="public-split")
    experiment = sordino.Experiment(rounds=4, data=data, privacy=PRIVACY)
    whole = experiment.run(tmp_path / "whole")

    def stop(done):
        if done.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiment.run(tmp_path / "cut", on_round=stop)
    assert experiment.run(tmp_path / "cut", resume=True).accuracy == whole.accuracy
    assert (tmp_path / "cut" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


def test_a_file_becomes_an_object_and_gives_the_same(tmp_path):
    (tmp_path / "small.toml").write_text(
        'rounds = 2\nmodel = "logistic"\nmethod = "dp-fedavg"\ndata = { source = "digits", clients = 5 }\n'
        'privacy = { epsilon = 8.0, delta = 1e-3 }\nengine = { schedule = "stacked" }\n'  # by trial it is one of two, with other bits
    )
    experiment = sordino.Experiment.from_file(tmp_path / "small.toml", "seed=5")
    result = experiment.run(tmp_path / "one")
    assert result == sordino.run(tmp_path / "small.toml", "seed=5", out=tmp_path / "two") | {
        "seconds": result["seconds"]
    }
    assert experiment.replace(rounds=1).plan().epsilon["public"].epsilon <= 8.0


WRONG = {
    "nothing to learn from": (
        lambda: sordino.Data(3),
        "The training data should be a pandas or polars frame, .*, but got int",
    ),
    "labels too few": (lambda: sordino.Data((np.zeros((3, 2)), [0, 1])), "The training data has 3 inputs but 2 labels"),
    "owners too few": (
        lambda: sordino.Data(images(9), owners=[0, 1]),
        "owners should have one value for each of the 9 rows, but got 2",
    ),
    "two ways to say whose": (
        lambda: sordino.Data(FRAME, client="site", owners=[1]),
        r"client .* or owners .*, but got both",
    ),
    "images out of range": (lambda: sordino.Data((np.full((4, 8, 8), 0.1234), [0, 1, 0, 1])), "k/255 from 0 to 1"),
    "an item that is no pair": (
        lambda: sordino.Data(TensorDataset(torch.zeros(4, 2))),
        r"pairs \(input, label\), but item 0",
    ),
    "no such column": (
        lambda: sordino.Data(FRAME, label="death"),
        "in the training data called 'death'.*, or label in Data",
    ),
    "columns of two lengths": (
        lambda: sordino.Data({"age": [1, 2], "ill": [0]}, label="ill"),
        "The training data should have columns of one length",
    ),
    "an empty frame": (lambda: sordino.Data(FRAME[:0], label="ill"), "The training data holds no rows"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_objects_get_a_sentence(mistake):
    make, words = WRONG[mistake]
    with pytest.raises(sordino.SordinoError, match=words):
        sordino.Experiment(rounds=1, data=make(), privacy=PRIVACY).plan()


SECTIONS = {
    "a promise misspelt": (
        lambda: sordino.Privacy(epsilom=3.0),
        r"There is no setting in \[privacy\] called 'epsilom'; did you mean 'epsilon'",
    ),
    "a promise in words": (
        lambda: sordino.Privacy(epsilon="three"),
        r"In \[privacy\], epsilon should be a valid number",
    ),
    "a view that is none": (
        lambda: sordino.Privacy(view="sever"),
        r"In \[privacy\], view should be 'public', 'server'",
    ),
    "an engine that is none": (lambda: sordino.Engine(name="cloud"), r"In \[engine\], name should be 'simulate'"),
}


@pytest.mark.parametrize("mistake", SECTIONS)
def test_wrong_sections_get_the_sentence_of_a_file(mistake):
    make, words = SECTIONS[mistake]
    with pytest.raises(sordino.SordinoError, match=words):
        make()


def test_sections_complete():
    assert {"epsilon", "delta", "view"} <= set(inspect.signature(sordino.Privacy).parameters)
    assert "workers" in inspect.signature(sordino.Engine).parameters


class Lazy:
    """As polars' LazyFrame: it has columns, and its rows when they are collected."""

    columns = tuple(FRAME.columns)

    def collect(self):
        return FRAME


def test_a_lazy_frame_is_collected():
    assert to_table(Lazy(), "The training data", SourceSettings(source="x", visibility="public")).frame.equals(FRAME)


def test_help_is_a_first_page_and_names_complete():
    assert "Experiment" in sordino.__doc__ and {"Experiment", "Data", "make_private", "SordinoError"} <= set(
        dir(sordino)
    )
    assert all(getattr(sordino, name) is not None for name in sordino.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Experimant'"):
        _ = sordino.Experimant
