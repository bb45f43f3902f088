"""A model of every kind predicts after the run is over, and gives the numbers that its evaluation gave."""

import json

import numpy as np
import pandas
import pytest
import torch
from PIL import Image

import sordino
from sordino.core import SordinoError
from sordino.engine.class_scores import class_scores
from sordino.engine.dealing import federate, load_source
from sordino.engine.evaluate import logits, macro_auroc
from sordino.engine.resolved import resolve
from sordino.experiment import experiment

ROWS = 240
COLUMNS = {
    "age": {"kind": "number", "low": 0, "high": 100, "missing": 40},
    "town": {"kind": "category", "values": ["Bonn", "Kiel", "Ulm"], "missing": "Ulm"},
}


def people(seed: int, rows: int = ROWS) -> pandas.DataFrame:
    rng = np.random.default_rng(seed)
    age, town = rng.integers(0, 100, rows), rng.choice(["Bonn", "Kiel", "Ulm"], rows)
    label = np.where(age + 20 * (town == "Ulm") > 55, "old", "young")
    frame = pandas.DataFrame(
        {"age": age.astype(str), "town": town, "note": [f"note {seed} {at} {label[at]}" for at in range(rows)]}
    )
    frame.loc[rng.random(rows) < 0.1, "age"] = "NA"
    return frame.assign(site=rng.choice(["east", "north", "west"], rows), label=label)


@pytest.fixture
def table(tiny, tmp_path):
    """An experiment on a table of numbers and words; `options` are those of its data."""
    people(1).to_csv(tmp_path / "train.csv", index=False)
    people(2, 80).to_csv(tmp_path / "test.csv", index=False)

    def make(*, options=None, **changes):
        data = {
            "source": str(tmp_path / "train.csv"),
            "clients": 3,
            "partition": "column",
            "test": {"source": str(tmp_path / "test.csv"), "alike_by_chance": True},
            "options": {"client_column": "site", "classes": ["young", "old"], **(options or {"columns": COLUMNS})},
        }
        privacy = {"expected_cohort": 3, **changes.pop("privacy", {})}
        return {**tiny(privacy=privacy, **changes), "data": data}

    return make


def agrees(predictor, data, labels, summary) -> None:
    """Predictions have the accuracy, AUROC and loss of the run's own evaluation."""
    chances = torch.from_numpy(predictor.predict_proba(data))
    called = [predictor.classes.index(name) for name in predictor.predict(data)]
    assert np.mean(np.array(called) == labels.numpy()) == pytest.approx(summary["accuracy"], abs=1e-12)
    assert macro_auroc(chances, labels) == pytest.approx(summary["auroc"], abs=1e-9)
    found = class_scores(chances.log(), labels)
    assert found["loss"] == pytest.approx(summary["loss"], rel=1e-6)
    assert found["confusion"] == summary["confusion"]


def test_a_table_predicts_from_a_file_a_frame_and_a_mapping(table, tmp_path):
    summary = sordino.run(table(), out=tmp_path / "run")
    predictor = sordino.load(tmp_path / "run")
    assert predictor.classes == ("young", "old") == tuple(summary["class_names"])
    test = people(2, 80)
    labels = torch.tensor([predictor.classes.index(word) for word in test["label"]])
    for data in (tmp_path / "test.csv", test, test.to_dict("list"), test.drop(columns=["label", "site"])):
        agrees(predictor, data, labels, summary)
    assert isinstance(predictor.model, torch.nn.Module)
    assert predictor.model(torch.zeros(2, 4)).shape == (2, 2)


def test_numbers_in_a_frame_are_read_as_in_a_file(table, tmp_path):
    sordino.run(table(), out=tmp_path / "run")
    predictor = sordino.load(tmp_path / "run")
    words = {"age": ["12", "NA", "99"], "town": ["Bonn", "Ulm", ""]}
    numbers = {"age": [12.0, np.nan, 99.0], "town": ["Bonn", "Ulm", None]}
    assert np.array_equal(predictor.predict_proba(words), predictor.predict_proba(numbers))


def test_a_text_predicts_from_its_column_and_from_a_list(table, tmp_path):
    options = {"text_column": "note", "vocabulary": 512, "length": 4}
    model = {"name": "lstm", "embedding": 4, "hidden": 4}
    summary = sordino.run(table(options=options, model=model, rounds=2), out=tmp_path / "run")
    predictor, test = sordino.load(tmp_path / "run"), people(2, 80)
    labels = torch.tensor([predictor.classes.index(word) for word in test["label"]])
    agrees(predictor, tmp_path / "test.csv", labels, summary)
    agrees(predictor, test["note"].tolist(), labels, summary)


def public_rows(table):
    """The public test rows of an experiment, as arrays."""
    test = load_source(resolve(experiment(table))).public_test
    return test.inputs.numpy(), test.labels


KINDS = {
    "image": {},
    "from a public start, head alone": {
        "start": {"name": "standard", "data": {"source": "mnist5k", "visibility": "public", "limit": 200}, "epochs": 1},
        "tuning": "head",
        "model": {"name": "cnn", "features": 8},
    },
    "reprogrammed": {
        "data": {"options": {"channels": 3}},
        "model": {"name": "cnn", "features": 8},
        "tuning": {"name": "reprogram", "frame": 12, "image": 10, "source_classes": 10},
        "start": "scratch",
    },
    "personalised": {"method": {"name": "centaur", "head_epochs": 1, "epochs": 1}},
    "reduced features": {
        "model": {"name": "prepared", "source": "cnn", "side": 16, "components": 6},
        "tuning": "head",
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_every_kind_gives_the_numbers_of_its_evaluation(tiny, tmp_path, kind):
    changes = tiny(rounds=2, **KINDS[kind])
    summary = sordino.run(changes, out=tmp_path / "run")
    inputs, labels = public_rows(changes)
    agrees(sordino.load(tmp_path / "run"), inputs, labels, summary)


def test_images_predict_from_an_array_a_tensor_an_archive_and_a_folder(tiny, tmp_path):
    sordino.run(tiny(rounds=1), out=tmp_path / "run")
    predictor = sordino.load(tmp_path / "run")
    images = np.random.default_rng(1).integers(0, 256, (4, 8, 8), np.uint8)
    expected = predictor.predict_proba(images)
    np.savez(tmp_path / "set.npz", x=images)
    (tmp_path / "folder").mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / "folder" / f"{number}.png")
    for data in (torch.from_numpy(images), images[..., None], tmp_path / "set.npz", tmp_path / "folder"):
        assert np.array_equal(predictor.predict_proba(data), expected)
    one = predictor.predict_proba(tmp_path / "folder" / "2.png")
    assert one == pytest.approx(expected[2:3], abs=1e-6)


def test_a_release_holds_all_that_prediction_needs_and_nothing_of_the_server(table, tmp_path):
    secure = table(privacy={"noise_source": "secure"})
    summary = sordino.run(secure, out=tmp_path / "run")
    (tmp_path / "run" / "release").rename(tmp_path / "published")
    predictor, test = sordino.load(tmp_path / "published"), people(2, 80)
    labels = torch.tensor([predictor.classes.index(word) for word in test["label"]])
    agrees(predictor, test, labels, summary)
    told = json.loads((tmp_path / "published" / "prediction.json").read_text())
    assert set(told) == {"schema", "name", "preparation", "model", "tuning", "note"}
    assert "seed" not in json.dumps(told) and str(tmp_path) not in json.dumps(told)
    assert not {"north", "east", "west"} & set(json.dumps(told).replace('"', " ").split())


def test_a_secure_run_is_loaded_from_its_own_folder(table, tmp_path):
    sordino.run(table(privacy={"noise_source": "secure"}, rounds=1), out=tmp_path / "run")
    assert sordino.load(tmp_path / "run").classes == ("young", "old")


WRONG = {
    "a missing column": (lambda test: test.drop(columns="age"), "no column in the data called 'age'"),
    "a strange word": (
        lambda test: test.assign(town="Rome"),
        "Column 'town' of the data should hold one of Bonn, Kiel, Ulm",
    ),
    "a number out of bounds": (lambda test: test.assign(age=400), "numbers from 0 to 100, but got '400' in row 1"),
    "no rows": (lambda test: test[:0], "There should be rows to predict"),
    "an array": (lambda test: np.zeros((3, 2)), "Columns should be given by name, because column 'town' holds words"),
    "texts": (lambda test: ["old"], "trained on tabular data, but got 1 texts"),
    "a file that is not there": (lambda test: "nowhere.csv", "expected at nowhere.csv, but there is none"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny):
    folder = tmp_path_factory.mktemp("trained")
    people(1).drop(columns="note").to_csv(folder / "train.csv", index=False)
    options = {"columns": COLUMNS, "classes": ["young", "old"]}
    data = {"source": str(folder / "train.csv"), "clients": 3, "partition": "iid", "options": options}
    sordino.run({**tiny(rounds=1, privacy={"expected_cohort": 3}), "data": data}, out=folder / "run")
    return folder / "run"


@pytest.mark.parametrize("case", WRONG)
def test_wrong_rows_are_refused_by_name(trained, case):
    change, sentence = WRONG[case]
    with pytest.raises(SordinoError, match=sentence) as caught:
        sordino.load(trained).predict(change(people(3, 5)))
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(SordinoError, match=r"prediction.json cannot be read .*; give the folder of a finished run"):
        sordino.load(tmp_path)


DAMAGED = {
    "shape": ({"preparation": {"shape": "four"}}, "shape should be a list, but got 'four'"),
    "width": ({"preparation": {"shape": [9]}}, "columns should make 9 numbers of a row, but make 4"),
    "kind of a column": ({"preparation": {"columns": {"age": {"kind": "date"}}}}, "columns.age. needs a kind"),
    "decimal": ({"preparation": {"decimal": "x"}}, "decimal should be"),
    "schema": ({"schema": 9}, "should have schema 1, but got 9"),
    "model": ({"model": 3}, "its 'model' is 3"),
    "name of the model": ({"model": {"name": None}}, "its 'name' is None"),
    "unknown model": ({"model": {"name": "mpl"}}, "no model called 'mpl'; did you mean 'mlp'"),
    "other weights": ({"model": {"hidden": [5]}}, "but this model needs"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_preparation_is_refused_by_its_key(trained, tmp_path, case):
    change, sentence = DAMAGED[case]
    told = json.loads((trained / "prediction.json").read_text())
    (tmp_path / "prediction.json").write_text(json.dumps(merged(told, change)))
    (tmp_path / "model.safetensors").write_bytes((trained / "model.safetensors").read_bytes())
    with pytest.raises(SordinoError, match=sentence) as caught:
        sordino.load(tmp_path)
    assert "\n" not in str(caught.value)


def merged(table: dict, change: dict) -> dict:
    both = isinstance(table, dict) and isinstance(change, dict)
    return {**table, **{key: merged(table.get(key), value) for key, value in change.items()}} if both else change


def test_a_shared_model_without_a_head_says_so(table, tmp_path):
    personal = {"name": "centaur", "epochs": 1, "head_epochs": 1}
    sordino.run(table(method=personal, rounds=1), out=tmp_path / "run")
    assert "Heads stay with the clients" in sordino.load(tmp_path / "run").note
    assert not sordino.load(tmp_path / "run", client="north").note


@pytest.mark.parametrize("tuning", ["full", "head"])
@pytest.mark.parametrize("method", ["centaur", "ppsgd", "pmtl-ft", "dp-fedavg-fb"])
def test_a_clients_own_model_is_the_one_that_was_tested(table, tmp_path, method, tuning):
    if (method, tuning) == ("centaur", "head"):
        pytest.skip("the head is all that would be trained, and it stays home")
    changes = table(method={"name": method, "epochs": 1, "head_epochs": 2}, tuning=tuning, rounds=2)
    changes["data"]["client_test_rows"] = 40
    summary = sordino.run(changes, out=tmp_path / "run")
    found = resolve(experiment(changes))
    federated = federate(found)
    rows, _ = federated.match_test_rows(found)
    test, accuracies = federated.source.public_test, []
    for number, name in enumerate(("east", "north", "west")):
        own = test.take(torch.from_numpy(rows.of(number)))
        called = logits(sordino.load(tmp_path / "run", client=name).model, own, torch.device("cpu")).argmax(1)
        accuracies.append(float((called == own.labels).double().mean()))
    told = summary["non_private_diagnostics"]["non_private_clients"]
    assert np.mean(accuracies) == pytest.approx(told["mean"])
    assert np.std(accuracies, ddof=1) == pytest.approx(told["standard_deviation"])


def test_only_clients_of_personalised_simulations_have_models_of_their_own(trained, table, tmp_path):
    with pytest.raises(SordinoError, match="gives all clients one model; leave the client out"):
        sordino.load(trained, client="0")
    personal = {"name": "centaur", "epochs": 1, "head_epochs": 1}
    sordino.run(table(method=personal, rounds=1), out=tmp_path / "run")
    with pytest.raises(SordinoError, match="no client called 'nort'; did you mean 'north'"):
        sordino.load(tmp_path / "run", client="nort")
    sordino.run(table(method=personal, rounds=1, privacy={"noise_source": "secure"}), out=tmp_path / "secure")
    with pytest.raises(SordinoError, match="is a secure run, whose clients keep their models themselves"):
        sordino.load(tmp_path / "secure", client="north")
