"""Weights of our own runs: free if the run was on public data, refused or named with their price if not."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import sordino
from sordino.core import SordinoError
from sordino.data.source import SourceSettings, load
from sordino.pretrain.provenance import IDENTITY_FILE, KEY, provenance, start_provenance


def save_digits(path, *, rows, seed, after=0):
    """A file of so many digits, which the embedded set has too; with one seed and other numbers before, others of them."""
    source = load(SourceSettings(source="digits", visibility="public"))
    chosen = np.random.default_rng(seed).permutation(len(source.train))[after:][:rows]
    np.savez(path, x_train=source.train.inputs[chosen, 0].numpy(), y_train=source.train.labels[chosen].numpy())
    return str(path)


def data(source, **changes):
    return {"source": source, "clients": 4, "partition": {"name": "iid"}, **changes}


@pytest.fixture
def ran(tiny, tmp_path):
    """Runs for a moment into a folder of this name and returns the model's path."""

    def run(name, **changes):
        table = tiny(rounds=1, privacy={"expected_cohort": 2}, **changes)
        sordino.run(table, out=tmp_path / name)
        return tmp_path / name / "model.safetensors"

    return run


def begin_at(path, tiny, **changes):
    return tiny(rounds=1, privacy={"expected_cohort": 2}, start={"name": "file", "path": str(path)}, **changes)


def both(table, tmp_path):
    """What a plan and a run say of a start."""
    return [sordino.plan(table).warnings, sordino.run(table, out=tmp_path / "next")["warnings"]]


def refused(table, tmp_path, sentence):
    for ask in (sordino.plan, lambda one: sordino.run(one, out=tmp_path / "refused")):
        with pytest.raises(SordinoError, match=sentence):
            ask(table)


def test_a_model_of_the_same_private_data_is_refused_with_its_price(ran, tiny, tmp_path):
    path = ran("first")
    refused(
        begin_at(path, tiny),
        tmp_path,
        r"same rows as this run \('digits'\), at ε = [0-9.]+ in the public view.*use a public start",
    )
    refused(begin_at(path, tiny, data={"options": {"limit": 500}}), tmp_path, "same rows as this run")


def test_the_record_beside_older_weights_tells_as_much(ran, tiny, tmp_path):
    path = ran("first")
    save_file(load_file(path), path)
    (path.parent / IDENTITY_FILE).unlink()
    refused(begin_at(path, tiny), tmp_path, "same rows as this run")
    (path.parent / "summary.json").unlink()
    refused(begin_at(path, tiny), tmp_path, "without a finite ε")


def test_a_model_without_a_finite_epsilon_is_refused_whatever_comes_next(ran, tiny, tmp_path):
    path = ran("plain", method={"name": "fedavg"})
    other = save_digits(tmp_path / "other.npz", rows=300, seed=1)
    refused(begin_at(path, tiny, data=data(other)), tmp_path, r"private data \('digits'\) without a finite ε")
    refused(begin_at(path, tiny, data=data(other, visibility="public")), tmp_path, "without a finite ε")


def test_a_model_of_public_data_is_free(ran, tiny, tmp_path):
    public = save_digits(tmp_path / "public.npz", rows=300, seed=1)
    path = ran("public", data=data(public, visibility="public"), method={"name": "fedavg"})
    others = save_digits(tmp_path / "others.npz", rows=300, seed=1, after=300)
    for warnings in both(begin_at(path, tiny, data=data(others)), tmp_path):
        assert not any("start" in warning for warning in warnings)


def test_public_rows_that_are_private_here_are_found_in_another_file(ran, tiny, tmp_path):
    public = save_digits(tmp_path / "public.npz", rows=300, seed=1)
    path = ran("public", data=data(public, visibility="public"), method={"name": "fedavg"})
    moved = tmp_path / "alone.safetensors"
    shutil.copy(path, moved)
    one_of_them = save_digits(tmp_path / "one.npz", rows=300, seed=1, after=299)
    for start in (path, moved):
        refused(
            begin_at(start, tiny, data=data(one_of_them)), tmp_path, "rows of 'public'.*rows of this run's private set"
        )


def test_a_run_on_the_public_part_of_a_set_is_a_start_for_the_private_part(ran, tiny, tmp_path):
    public = {"visibility": "public", "options": {"public_share": 0.3}}
    path = ran("public", data=public, method={"name": "fedavg"})
    for warnings in both(begin_at(path, tiny, data={"options": {"public_share": 0.3}}), tmp_path):
        assert not any("The start" in warning for warning in warnings)
    for options in ({}, {"public_share": 0.2}):
        refused(begin_at(path, tiny, data={"options": options}), tmp_path, "same rows as this run")


def test_rows_are_not_public_in_one_run_and_private_in_the_next(ran, tiny, tmp_path):
    path = ran("public", data={"visibility": "public"}, method={"name": "fedavg"})
    refused(begin_at(path, tiny), tmp_path, r"same rows as this run \('digits'\), where they were declared public")
    assert sordino.plan(begin_at(path, tiny, data={"visibility": "public"}))


def test_other_private_data_are_named_with_their_price_and_stay_named(ran, tiny, tmp_path):
    first = ran("first", data=data(save_digits(tmp_path / "one.npz", rows=300, seed=1)))
    table = begin_at(first, tiny, data=data(save_digits(tmp_path / "two.npz", rows=300, seed=2)))
    for warnings in both(table, tmp_path):
        (found,) = [warning for warning in warnings if "The start" in warning]
        assert "private data ('one') at ε = " in found and "not in this run's ledger" in found
    third = begin_at(tmp_path / "next" / "model.safetensors", tiny, data={"source": "digits"})
    named = [warning for warning in sordino.plan(third).warnings if "The start" in warning]
    assert ["'two'" in named[0], "'one'" in named[1]] == [True, True]
    back = begin_at(tmp_path / "next" / "model.safetensors", tiny, data=data(str(tmp_path / "one.npz")))
    refused(back, tmp_path, r"same rows as this run \('one'\)")


def test_the_same_rows_under_another_name_are_found_by_a_run(ran, tiny, tmp_path):
    one = save_digits(tmp_path / "one.npz", rows=300, seed=1)
    path = ran("first", data=data(one))
    shutil.copy(one, tmp_path / "copy.npz")
    table = begin_at(path, tiny, data=data(str(tmp_path / "copy.npz")))
    with pytest.raises(SordinoError, match="same rows as this run"):
        sordino.run(table, out=tmp_path / "next")


def test_sets_of_one_name_in_two_places_are_two_sets(ran, tiny, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = ran("first", data=data(save_digits(tmp_path / "a" / "same.npz", rows=300, seed=1)))
    other = data(save_digits(tmp_path / "b" / "same.npz", rows=300, seed=2))
    assert any("The start" in warning for warning in sordino.plan(begin_at(first, tiny, data=other)).warnings)
    moved = tmp_path / "alone.safetensors"
    shutil.copy(first, moved)
    refused(begin_at(moved, tiny, data=other), tmp_path, "same rows as this run")


def test_the_models_file_tells_nothing_of_the_rows(ran, tmp_path):
    """Neighbouring sets of one name and size give the same record, to the last character."""
    written = []
    for name, seed in (("first", 1), ("second", 2)):
        source = save_digits(tmp_path / "set.npz", rows=300, seed=seed)
        path = ran(name, data=data(source))
        with safe_open(path, framework="pt") as file:
            written.append(file.metadata()[KEY])
    assert written[0] == written[1]
    (entry,) = json.loads(written[0])
    assert entry.keys() == {"name", "visibility", "unit", "epsilon", "delta"}
    assert str(tmp_path) not in written[0]


def test_an_infinite_epsilon_survives_its_file(tmp_path):
    settings = SourceSettings(source="digits", visibility="private")
    written = provenance(settings, unit="client", epsilon=float("inf"), delta=1e-5)
    save_file({"a": torch.ones(1)}, tmp_path / "x.safetensors", metadata=written)
    assert start_provenance(tmp_path / "x.safetensors")[0].epsilon == float("inf")


@pytest.mark.parametrize("written", ["{", "[3]", '[{"name": "x"}]', '{"name": "x"}'])
def test_a_record_that_cannot_be_read_is_not_taken_for_a_public_one(written, tmp_path):
    save_file({"a": torch.ones(1)}, tmp_path / "x.safetensors", metadata={KEY: written})
    with pytest.raises(SordinoError, match="cannot be read"):
        start_provenance(tmp_path / "x.safetensors")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "experiment.json").write_text(written)
    save_file({"a": torch.ones(1)}, tmp_path / "run" / "model.safetensors")
    with pytest.raises(SordinoError, match="cannot be read"):
        start_provenance(tmp_path / "run" / "model.safetensors")


def test_epsilon_that_is_no_number_counts_as_none(tmp_path):
    entry = {"name": "x", "visibility": "private", "unit": "client", "epsilon": "nan", "delta": 0}
    save_file({"a": torch.ones(1)}, tmp_path / "x.safetensors", metadata={KEY: json.dumps([entry])})
    assert start_provenance(tmp_path / "x.safetensors")[0].epsilon == float("inf")
