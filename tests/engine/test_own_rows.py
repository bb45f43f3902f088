"""Figures of clients' own rows: who trains on what, what simulations tell, and what a release never does."""

import json

import numpy as np
import pytest

import sordino
from sordino.core import SordinoError
from sordino.data.holding_out import split_own_rows
from sordino.data.partition import Partition
from sordino.engine.dealing import client_sizes, federate
from sordino.engine.resolved import resolve
from sordino.experiment import experiment

SPLIT = {"client_split": {"validation": 0.1, "test": 0.1}}


def rows_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_the_three_parts_are_disjoint_and_make_up_every_client():
    partition = Partition.from_owners(np.repeat(np.arange(4), (10, 20, 40, 3)), clients=4)
    found = split_own_rows(partition, np.random.default_rng(1), validation=0.1, test=0.2)
    for client in range(4):
        parts = [set(part.of(client).tolist()) for part in (found.train, found.validation, found.test)]
        assert sum(map(len, parts)) == len(set.union(*parts))
        assert set.union(*parts) == set(partition.of(client).tolist())
    assert found.train.sizes.tolist() == [7, 14, 28, 1]
    assert found.validation.sizes.tolist() == [1, 2, 4, 1]
    assert found.test.sizes.tolist() == [2, 4, 8, 1]


def test_plan_and_run_price_the_rows_that_are_trained_on(tiny):
    whole, split = (resolve(experiment(tiny(data=changes))) for changes in ({}, SPLIT))
    federated = federate(split)
    assert client_sizes(split) == federated.sizes
    assert all(0.7 * full <= kept < full for kept, full in zip(federated.sizes, client_sizes(whole), strict=True))
    assert federated.digest() != federate(whole).digest()


def test_own_rows_and_training_loss_are_told_as_non_private(tiny, tmp_path):
    table = tiny(data=SPLIT, engine={"training_loss": True, "evaluate_every": 2})
    sordino.run(table, out=tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    rows = rows_of(tmp_path / "run")
    for row in rows:
        assert set(row["non_private_own_rows"]) == {"validation", "test"}
        assert row["non_private_own_rows"]["test"]["clients"] == 12
        assert row["non_private_training_loss"]["mean"] > 0
    told = summary["non_private_diagnostics"]
    assert told["non_private_own_rows"] == rows[-1]["non_private_own_rows"]
    assert told["non_private_training_loss"] == rows[-1]["non_private_training_loss"]
    assert "non_private_training_loss" not in json.dumps(
        {k: v for k, v in summary.items() if k != "non_private_diagnostics"}
    )


def test_the_training_loss_is_that_of_each_clients_own_model(tiny, tmp_path):
    """With heads that fit their client, a personalised method's loss lies below that of the one model for all."""
    loss = {}
    for name, heads in (("dp-fedavg", {}), ("dp-fedavg-fb", {"head_epochs": 30, "head_learning_rate": 0.5})):
        method = {"name": name, "epochs": 1, "batch_size": 16, "learning_rate": 0.1, **heads}
        table = tiny(rounds=1, method=method, data={"client_test_rows": 0}, engine={"training_loss": True})
        sordino.run(table, out=tmp_path / name)
        loss[name] = rows_of(tmp_path / name)[-1]["non_private_training_loss"]["mean"]
    assert loss["dp-fedavg-fb"] < 0.7 * loss["dp-fedavg"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"data": {"client_split": {"validation": 0.6, "test": 0.4}}}, "above 0 and below 1"),
        ({"data": {"client_split": {"validation": 0.0, "test": 0.0}}}, "above 0 and below 1"),
        ({"data": {"client_split": {"validation": -0.1}}}, "validation should be greater than or equal to 0"),
        ({"data": {"client_split": {"train": 0.8}}}, "train"),
        ({"data": SPLIT, "engine": {"name": "process"}}, "diagnostic of simulations"),
        ({"engine": {"name": "process", "training_loss": True}}, "diagnostic of simulations"),
        ({"engine": {"training_loss": "often"}}, "training_loss"),
        ({"data": {**SPLIT, "test": {"name": "charged", "epsilon": 0.5}}}, "keep one of them"),
        ({"data": SPLIT, "privacy": {"noise_source": "secure"}}, "a secure run may not"),
        ({"engine": {"training_loss": True}, "privacy": {"noise_source": "secure"}}, "a secure run may not"),
    ],
    ids=[
        "nothing-left",
        "nothing-kept",
        "negative",
        "unknown-part",
        "split-in-processes",
        "loss-in-processes",
        "loss-as-word",
        "charged-too",
        "secure-split",
        "secure-loss",
    ],
)
def test_what_a_release_must_not_tell_is_refused(changes, sentence, tiny):
    with pytest.raises(SordinoError, match=sentence):
        sordino.plan(tiny(**changes))


def test_a_client_with_too_few_rows_is_named(tiny):
    few = {"partition": {"name": "dirichlet", "alpha": 0.02, "min_examples": 2}, "clients": 60}
    with pytest.raises(SordinoError, match="needs 3 rows of every client"):
        sordino.plan(tiny(data={**SPLIT, **few}))
