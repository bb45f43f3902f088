"""Targets that are numbers: read, bounded, learnt, measured and priced; wrong ones are refused by row or key."""

import json

import numpy as np
import pandas
import pytest
import torch
from torch import nn

import sordino
from sordino.audit.attacks.attacking import attack_target
from sordino.audit.target import Target as AuditTarget
from sordino.core import SordinoError
from sordino.data.source import SourceSettings, load
from sordino.data.target import PARTS, Target, part_numbers
from sordino.engine.number_scores import closeness, number_scores
from sordino.engine.plan import make_plan
from sordino.experiment import experiment
from sordino.gradients import ClippedGradients
from sordino.gradients.fallback import vmap_gradients
from sordino.gradients.losses import loss_per_example, mean_loss
from sordino.recommend.stand_in import make_stand_in

TARGET = {"kind": "number", "low": 0, "high": 50}


def houses(seed: int, rows: int) -> pandas.DataFrame:
    rng = np.random.default_rng(seed)
    size, town = rng.random(rows), rng.choice(["Bonn", "Ulm"], rows)
    price = (10 + 25 * size + 10 * (town == "Ulm") + rng.normal(0, 1, rows)).clip(0, 50).round(2)
    return pandas.DataFrame({"size": size.round(6), "town": town, "site": rng.choice(["a", "b"], rows), "price": price})


@pytest.fixture
def priced(tmp_path):
    """An experiment that learns prices; `target` and `changes` are its own."""
    houses(1, 400).to_csv(tmp_path / "train.csv", index=False)
    houses(2, 100).to_csv(tmp_path / "test.csv", index=False)

    def make(*, target=TARGET, options=None, test=None, **changes):
        data = {
            "source": str(tmp_path / "train.csv"),
            "partition": "column",
            "test": test or {"source": str(tmp_path / "test.csv")},
            "options": {
                "label_column": "price",
                "target": target,
                "client_column": "site",
                "columns": {
                    "size": {"kind": "number", "low": 0, "high": 1},
                    "town": {"kind": "category", "values": ["Bonn", "Ulm"]},
                },
                **(options or {}),
            },
            **changes.pop("data", {}),
        }
        return {
            "name": "prices",
            "rounds": 12,
            "method": "dp-sgd",
            "model": {"name": "mlp", "hidden": [8]},
            "privacy": {"noise_multiplier": 4.0, "delta": 1e-3, "view": "server"},
            **changes,
            "data": data,
        }

    return make


def test_a_number_is_learnt_and_predict_gives_the_figures_of_the_evaluation(priced, tmp_path):
    summary = sordino.run(priced(), out=tmp_path / "run")
    predictor, test = sordino.load(tmp_path / "run"), houses(2, 100)
    found = predictor.predict(test)
    errors = found - test["price"].to_numpy()
    assert summary["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-6)
    assert summary["mae"] == pytest.approx(np.mean(np.abs(errors)), rel=1e-6)
    assert summary["accuracy"] == pytest.approx(1 - summary["mae"] / 50, abs=2e-6)
    assert summary["r2"] > 0.5, "the mean of all prices has 0"
    assert summary["auroc"] is None and summary["f1"] is None
    assert np.array_equal(found, predictor.predict(tmp_path / "test.csv"))
    with pytest.raises(SordinoError, match="predicts a number, price, and has no probabilities"):
        predictor.predict_proba(test)


def test_a_number_is_shown_exported_and_described(priced, tmp_path, capsys):
    sordino.run(priced(rounds=1), out=tmp_path / "run")
    from sordino.predict.export import write_export
    from sordino.report.scores import scores_tables

    write_export(tmp_path / "run", tmp_path / "out", "torchscript")
    card = (tmp_path / "out" / "README.md").read_text()
    assert '"tabular-regression"' in card and "| rmse |" in card and "predicts a number, price, from 0 to 50" in card
    predictor = sordino.load(tmp_path / "run")
    rows = predictor.prepare(houses(2, 5))
    traced = torch.jit.load(tmp_path / "out" / "model.pt")(rows.inputs)
    assert torch.allclose(traced.double(), torch.from_numpy(predictor.predict(houses(2, 5))), atol=1e-4)
    from rich.console import Console

    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    for table in scores_tables(summary):
        Console(width=200).print(table)
    assert "RMSE" in (shown := capsys.readouterr().out) and "in the unit of price" in shown


@pytest.mark.parametrize("method", ["dp-fedavg", "centaur"])
def test_clients_that_train_by_themselves_learn_numbers(priced, tmp_path, method):
    """Stacked where they can be, one by one where each has a head of its own; dealt out by parts of the range."""
    privacy = {"noise_multiplier": 0.1, "delta": 1e-3, "sampler": "everyone"}
    data = {"partition": {"name": "dirichlet", "alpha": 1.0, "min_examples": 4}, "clients": 4, "client_test_rows": 8}
    table = priced(
        rounds=4,
        method={"name": method, "epochs": 3, "learning_rate": 0.3, "batch_size": 16},
        privacy=privacy,
        data=data,
        options={"client_column": None},
    )
    summary = sordino.run(table, out=tmp_path / "run")
    own = summary["non_private_diagnostics"]["non_private_clients"]
    assert 0.8 < own["mean"] <= 1


def test_charged_evaluation_releases_the_mean_absolute_error(priced, tmp_path):
    charged = priced(
        test={"name": "charged", "epsilon": 50.0}, privacy={"noise_multiplier": 0.5, "delta": 1e-3, "view": "server"}
    )
    summary = sordino.run(charged, out=tmp_path / "run")
    assert summary["accuracy_charged"] and summary["rmse"] is None
    assert summary["mae"] == pytest.approx((1 - summary["accuracy"]) * 50)
    assert abs(_mae(tmp_path) - summary["mae"]) < 1.5, "the rows are alike, and the noise of ε = 50 is small"


def _mae(folder) -> float:
    test = houses(2, 100)
    return float(np.mean(np.abs(sordino.load(folder / "run").predict(test) - test["price"].to_numpy())))


def test_each_row_moves_a_charged_sum_by_one_at_the_most():
    """Whatever a model gives: beyond every bound, or no number at all."""
    outputs = torch.tensor([[0.0], [1e30], [-1e30], [torch.nan], [torch.inf], [-torch.inf]])
    for place in (0.0, 0.37, 1.0):
        found = closeness(outputs, torch.full((6,), place))
        assert ((found >= 0) & (found <= 1)).all()
        assert found[1] == found[4] == pytest.approx(place, abs=2e-6) and found[2] == found[3] == found[5]
    generator = torch.Generator().manual_seed(1)
    many = closeness(torch.randn(5000, 1, generator=generator), torch.rand(5000, generator=generator))
    assert float(many.sum()) - float(many[1:].sum()) == float(many[0]), "sums are exact"


def test_figures_are_in_the_unit_of_the_target():
    target = Target(low=-10, high=30)
    places = torch.tensor([0.5, 0.25])
    found = number_scores(torch.zeros(2, 1), places, target)
    assert found["mae"] == pytest.approx(5.0) and found["rmse"] == pytest.approx(np.sqrt(50))
    assert number_scores(torch.zeros(2, 1), torch.full((2,), 0.5), target)["r2"] is None


@pytest.mark.parametrize("model", ["chain", "layers", "vmap"])
def test_gradients_of_numbers_are_those_of_autograd_and_clipped(model):
    torch.manual_seed(0)
    body = {
        "chain": [nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)],
        "layers": [nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1)],
        "vmap": [nn.Bilinear(3, 3, 1)],
    }[model]
    net = Doubled(*body) if model == "vmap" else nn.Sequential(*body)
    inputs, places = torch.randn(6, 3), torch.rand(6)
    names = [name for name, _ in net.named_parameters()]
    expected = vmap_gradients(net, names, inputs, places, loss=loss_per_example)
    gradients = ClippedGradients(net, loss=loss_per_example)
    rows = gradients.per_example(inputs, places)
    wanted = torch.cat([expected[name].flatten(1) for name in gradients.trainable], 1)
    assert torch.allclose(rows, wanted, atol=1e-6)
    mean = torch.autograd.grad(
        mean_loss(net(inputs), places), [net.get_parameter(name) for name in gradients.trainable]
    )
    assert torch.allclose(rows.mean(0), torch.cat([part.flatten() for part in mean]), atol=1e-6)
    one = gradients.sum(inputs[:1], places[:1], clip_norm=1e-3).total
    assert float(one.norm()) <= 1e-3


class Doubled(nn.Sequential):
    def forward(self, inputs):
        return self[0](inputs, inputs)


def test_a_number_needs_a_model_with_one_output():
    with pytest.raises(SordinoError, match="one output, but this one gives"):
        loss_per_example(torch.zeros(2, 3), torch.zeros(2))


def test_arrays_have_numbers_too(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", x_train=rng.random((40, 3)), y_train=rng.random(40) * 9)
    options = {"source": str(tmp_path / "a.npz"), "visibility": "private"}
    found = load(SourceSettings(**options, target={"kind": "number", "low": 0, "high": 9}))
    assert found.classes == 1 and found.train.labels.dtype == torch.float32 and found.class_names == ("label",)
    assert float(found.train.labels.min()) >= 0 and float(found.train.labels.max()) <= 1
    with pytest.raises(
        SordinoError, match=r"should be numbers from 0 to 5, but got [\d.]+ in row \d+; mend it, widen low"
    ):
        load(SourceSettings(**options, target={"kind": "number", "low": 0, "high": 5}))
    with pytest.raises(SordinoError, match=r"must be whole numbers.*declare target = "):
        load(SourceSettings(**options))


def test_an_array_of_numbers_is_learnt_from_python(tmp_path):
    rng = np.random.default_rng(0)
    inputs = rng.random((120, 3))
    data = sordino.Data(
        (inputs, 10 * inputs[:, 0]), target={"kind": "number", "low": 0, "high": 10}, test="public-split"
    )
    privacy = sordino.Privacy(noise_multiplier=1.0, delta=1e-3)
    result = sordino.Experiment(data=data, rounds=1, model="logistic", method="dp-sgd", privacy=privacy).run(
        tmp_path / "run"
    )
    assert "MAE" in repr(result) and result.load().predict(inputs[:4]).shape == (4,)


def test_recommend_says_that_it_tries_classes_alone(priced, tmp_path):
    with pytest.raises(SordinoError, match="recommend tries settings on classes alone"):
        make_stand_in(priced(), "digits", tmp_path / "out", folder=tmp_path)


def test_attacks_say_that_they_need_classes(priced, tmp_path):
    target = AuditTarget(experiment=experiment(priced()), folder=tmp_path, settled=None)
    with pytest.raises(SordinoError, match="how sure a model is of a class"):
        attack_target(target, tmp_path / "attack")


def test_parts_of_a_range_cover_it():
    places = np.array([0.0, 0.199, 0.2, 0.999, 1.0], np.float32)
    assert part_numbers(places).tolist() == [0, 0, 1, PARTS - 1, PARTS - 1]
    assert Target(low=0, high=50).part_names[0] == "0 to 10"


WRONG = {
    "no kind": ({"target": {"low": 0, "high": 1}}, "should be a table such as { kind = 'number'"),
    "kind class": (
        {"target": {"kind": "class", "low": 0, "high": 1}},
        "but got kind = 'class'; classes need no target",
    ),
    "no bound": ({"target": {"kind": "number", "low": 0}}, "target needs high, a public bound"),
    "bounds turned": ({"target": {"kind": "number", "low": 9, "high": 1}}, "low should be below high"),
    "endless": ({"target": {"kind": "number", "low": 0, "high": float("inf")}}, "high should be a finite number"),
    "beyond": (
        {"target": {"kind": "number", "low": 0, "high": 30}},
        "Column 'price' of .*should hold numbers from 0 to 30, but got '",
    ),
    "misspelt": ({"target": {**TARGET, "hihg": 3}}, "called 'hihg'; did you mean 'high'"),
    "classes too": (
        {"options": {"classes": ["a", "b"]}},
        "target declares a number to learn, but classes or class_names",
    ),
    "words": (
        {"options": {"label_column": "town", "columns": ["size"]}},
        "Column 'town' of .*should hold numbers, but got '",
    ),
    "a word": ({"target": "price"}, "target should be"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_targets_are_refused_by_the_plan(priced, case):
    changes, sentence = WRONG[case]
    with pytest.raises(SordinoError, match=sentence):
        make_plan(experiment(priced(**changes)))


def test_a_missing_number_is_named_by_its_row(priced, tmp_path):
    frame = houses(1, 400).astype(str)
    frame.loc[6, "price"] = "NA"
    frame.to_csv(tmp_path / "train.csv", index=False)
    with pytest.raises(SordinoError, match=r"has no value in row 7 below the header.*a row without a target"):
        make_plan(experiment(priced()))


@pytest.mark.parametrize("labels", [[0, 1], [False, True]], ids=["numbers", "truth"])
def test_binary_targets_are_two_classes(priced, tmp_path, labels):
    for seed, name in ((1, "train"), (2, "test")):
        frame = houses(seed, 100)
        frame["price"] = np.where(frame["price"] > 27, labels[1], labels[0])
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    table = priced(target=None, rounds=1)
    table["data"]["options"]["classes"] = list(map(str, labels))
    summary = sordino.run(table, out=tmp_path / "run")
    predictor = sordino.load(tmp_path / "run")
    assert set(predictor.predict(houses(2, 50))) <= set(map(str, labels)) and predictor.predict_proba(
        houses(2, 5)
    ).shape == (5, 2)
    assert summary["auprc"] is not None and summary["auroc"] is not None
