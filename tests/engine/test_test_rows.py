"""Rows that a model is tested on become public by a word of the person, and in no other way."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import sordino
from sordino.core import SordinoError
from sordino.engine.robustness import open_subject
from sordino.report.terminal import plan_table, summary_table

SECURE = {"noise_source": "secure"}
WARNING = "359 rows of 'digits' were set aside as a test split that counts as public"


def images(path: Path, *, count: int, start: int, **arrays: np.ndarray) -> str:
    pixels = np.arange(start, start + count, dtype=np.uint8)[:, None, None] * np.ones((1, 8, 8), np.uint8)
    np.savez(path, **({"x_train": pixels, "y_train": np.arange(count) % 10} | arrays))
    return str(path)


def refused(act, sentence):
    with pytest.raises(SordinoError, match=sentence) as caught:
        act()
    assert "\n" not in str(caught.value)


def shown(table):
    console = Console(width=400, file=io.StringIO())
    console.print(table)
    return console.file.getvalue()


def test_a_secure_run_refuses_to_publish_private_rows_in_silence(tiny, tmp_path):
    table = tiny(privacy=SECURE)
    three_ways = 'source = .*"public-split".*"charged"'
    refused(lambda: sordino.plan(table), f"'digits' has no test split of its own.*{three_ways}")
    refused(lambda: sordino.run(table, out=tmp_path / "run"), f"'digits' has no test split of its own.*{three_ways}")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "data",
    [
        {"test": "public-split"},
        {"test": {"source": "mnist5k", "limit": 50}},
        {"test": {"name": "charged", "epsilon": 1.0}},
        {"visibility": "public"},
    ],
    ids=["declared", "another source", "charged", "public data"],
)
def test_a_word_lets_a_secure_run_go_and_keeps_a_simulation_quiet(data, tiny, tmp_path):
    table = tiny(rounds=1, data=data, privacy=SECURE)
    assert not any("test split" in warning for warning in sordino.plan(table).warnings)
    summary = sordino.run(table, out=tmp_path / "run")
    assert all("test split" not in warning for warning in summary["warnings"])
    seeded = sordino.run(tiny(rounds=1, data=data), out=tmp_path / "seeded")
    assert all("test split" not in warning for warning in seeded["warnings"])


def test_a_source_with_a_test_split_of_its_own_keeps_it(tiny, tmp_path):
    split = {"x_test": np.full((20, 8, 8), 7, np.uint8), "y_test": np.arange(20) % 10}
    source = images(tmp_path / "own.npz", count=60, start=50, **split)
    table = tiny(rounds=1, data={"source": source, "clients": 4, "partition": {"name": "iid"}}, privacy=SECURE)
    planned = sordino.plan(table)
    assert planned.method_facts["evaluation"].startswith("once on 20 rows of the source's own test split")
    assert sordino.run(table, out=tmp_path / "run")["warnings"] == planned.warnings


def test_a_simulation_warns_in_plan_and_summary(tiny, tmp_path):
    assert any(warning.startswith(WARNING) for warning in sordino.plan(tiny()).warnings)
    summary = sordino.run(tiny(rounds=1), out=tmp_path / "run")
    assert any(warning.startswith(WARNING) for warning in summary["warnings"])
    kept = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert kept["warnings"] == summary["warnings"]
    assert (kept["accuracy_charged"], kept["accuracy_noise_deviation"]) == (False, None)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "4 times on 359 rows set aside from 'digits', which count as public; it costs nothing"),
        ({"test": "public-split"}, "4 times on 359 rows set aside from 'digits', declared public; it costs nothing"),
        ({"visibility": "public"}, "4 times on 359 public rows set aside; it costs nothing"),
        ({"test": {"source": "mnist5k"}}, "4 times on 5000 rows of 'mnist5k', declared public; it costs nothing"),
        (
            {"test": {"name": "charged", "epsilon": 1.0}},
            "once on 359 rows held out by the clients, which stay private; ε 1 in all, laplace noise: each accuracy is ± 5.9 points",
        ),
    ],
)
def test_a_plan_says_on_what_and_at_what_cost_the_model_is_evaluated(data, words, tiny):
    plan = sordino.plan(tiny(data=data))
    assert plan.method_facts["evaluation"].startswith(words)
    assert words in shown(plan_table(plan.to_json()))


def test_the_accuracy_is_that_on_the_test_source(tiny, tmp_path):
    """All test rows are of one class and look the same, so they are all right or all wrong."""
    x, y = np.zeros((7, 8, 8), np.uint8), np.zeros(7, np.int64)
    other = images(tmp_path / "other.npz", count=7, start=0, x_train=x, y_train=y)
    summary = sordino.run(tiny(rounds=1, data={"test": {"source": other}}), out=tmp_path / "run")
    assert summary["accuracy"] in (0.0, 1.0)
    assert summary["auroc"] is None
    assert len(open_subject(tmp_path / "run").test) == 7


def test_a_test_source_leaves_all_rows_for_training(tiny, tmp_path):
    table = tiny(method={"name": "dp-sgd", "batch_size": 32}, data={"test": {"source": "mnist5k"}})
    assert sum(sordino.plan(table).tariff.sizes) == 1797


def test_private_rows_in_a_test_source_stop_plan_and_run(tiny, tmp_path):
    train = images(tmp_path / "train.npz", count=60, start=50)
    test = images(tmp_path / "test.npz", count=20, start=100)
    data = {"source": train, "clients": 4, "partition": {"name": "iid"}, "test": {"source": test}}
    for act in (lambda: sordino.plan(tiny(data=data)), lambda: sordino.run(tiny(data=data), out=tmp_path / "run")):
        refused(act, "10 rows of the test source .*test.npz' are also rows of the private set .*train.npz'")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("test", "option", "instead"),
    [
        ({"name": "charged", "epsilon": 1.0}, "test_fraction", "fraction"),
        ({"source": "mnist5k"}, "test_limit", "limit"),
    ],
)
def test_settings_without_effect_are_refused(test, option, instead, tiny, tmp_path):
    table = tiny(data={"test": test, "options": {option: 0.5 if option == "test_fraction" else 5}})
    for act in (lambda: sordino.plan(table), lambda: sordino.run(table, out=tmp_path / "run")):
        refused(act, rf"\[data.options\] {option} is about a test split .* set {instead} in \[data\] test")


@pytest.mark.parametrize("value", [5, "public", [], {}, {"epsilon": 1.0}, True])
def test_what_cannot_be_meant_is_refused(value, tiny):
    table = tiny()
    table["data"]["test"] = value
    refused(lambda: sordino.plan(table), r"\[data\] test should be .* but got")


def test_nothing_is_measured_for_free_where_evaluation_is_charged(tiny, tmp_path):
    """Not the robustness of the finished model either, nor clients in their own mix of labels."""
    data = {"test": {"name": "charged", "epsilon": 1.0}}
    sordino.run(tiny(rounds=1, data=data), out=tmp_path / "run")
    refused(lambda: open_subject(tmp_path / "run"), "'digits' has no public test rows")
    assert len(open_subject(tmp_path / "run", "mnist5k").test) == 1000
    assert "non_private_clients" not in (tmp_path / "run" / "metrics.jsonl").read_text()
    refused(lambda: sordino.plan(tiny(data={**data, "client_test_rows": 10})), "client_test_rows draws from public")


def test_the_terminal_shows_the_noise_of_a_charged_accuracy(tiny, tmp_path):
    summary = sordino.run(tiny(rounds=1, data={"test": {"name": "charged", "epsilon": 1.0}}), out=tmp_path / "run")
    assert "noise ±5.9" in shown(summary_table([summary]))


def test_declaring_the_split_public_changes_no_number(tiny):
    silent, said = (sordino.plan(tiny(data=data)) for data in ({}, {"test": "public-split"}))
    assert silent.epsilon == said.epsilon
    assert silent.tariff == said.tariff
