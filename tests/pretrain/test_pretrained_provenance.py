"""Weights of `sordino pretrain` and models that began with them are refused and accepted as the start that trained them would be."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import sordino
from sordino.core import SordinoError
from sordino.data.row_fingerprints import fingerprints_of_all, fingerprints_of_test, fingerprints_of_training, shared
from sordino.data.source import SourceSettings, load
from sordino.engine.pretraining import pretrain
from sordino.experiment import experiment
from sordino.pretrain.provenance import KEY, start_provenance

DIGITS = {"source": "digits", "visibility": "public"}


def standard(**table):
    return {"name": "standard", "epochs": 1, "data": {**DIGITS, **table}}


@pytest.fixture
def pretrained(tiny, tmp_path):
    """Trains the public start of a run on private data, into a folder, and returns it."""

    def train(start, *, folder="start", **changes):
        table = tiny(rounds=1, start=start, **changes)
        pretrain(experiment(table), tmp_path / folder, folder=tmp_path, progress=lambda done, total: None)
        return tmp_path / folder

    return train


@pytest.fixture
def verdict(tiny, tmp_path):
    """With which sentence a plan and a run refuse a start; an empty one, if they take it."""

    def ask(start, **changes):
        table = tiny(rounds=1, privacy={"expected_cohort": 2}, start=start, **changes)
        found = []
        for do in (sordino.plan, lambda one: sordino.run(one, out=tmp_path / "asked")):
            try:
                do(table)
                found.append("")
            except SordinoError as error:
                found.append(str(error))
        assert found[0] == found[1], "a plan and a run say the same"
        shutil.rmtree(tmp_path / "asked", ignore_errors=True)
        return found[1]

    return ask


def at(path, **changes):
    return {"name": "file", "path": str(path), **changes}


PART = {"options": {"public_share": 0.3}}
"""The private part, where the public one has three tenths."""


def test_the_leak_that_was(pretrained, verdict):
    """Public digits, by their share, are private in a run on all digits."""
    folder = pretrained(standard(public_share=0.3), data=PART)
    for start in (at(folder / "weights.safetensors"), at(folder)):
        sentence = verdict(start, data={"options": {}})
        assert "same rows as this run ('digits'), where they were declared public" in sentence
        assert "[start] path" in sentence
        assert "public_share" in sentence


@pytest.mark.parametrize(
    ("public", "private"),
    [
        ({"public_share": 0.3}, {"public_share": 0.3}),
        ({"public_share": 0.2}, {"public_share": 0.3}),
        ({"public_share": 0.3}, {"public_share": 0.2}),
        ({"public_share": 0.3}, {}),
        ({"public_share": 0.3}, {"rows": [0, 900]}),
        ({"rows": [0, 600]}, {"rows": [600, 1797]}),
        ({"rows": [0, 600]}, {"rows": [599, 1797]}),
        ({"rows": [0, 600]}, {"public_share": 0.3}),
    ],
)
def test_weights_are_taken_where_the_start_itself_is(public, private, pretrained, verdict, tmp_path):
    """From the folder, from the file, and from the file by itself."""
    data = {"options": private}
    folder = pretrained(standard(**public), data={"source": "digits", "visibility": "public"})
    alone = tmp_path / "elsewhere" / "mine.safetensors"
    alone.parent.mkdir()
    shutil.copy(folder / "weights.safetensors", alone)
    said = [bool(verdict(start, data=data)) for start in (standard(**public), at(folder), at(alone))]
    assert said in ([True] * 3, [False] * 3)


def test_one_public_row_in_another_file_is_enough(tiny, pretrained, verdict, tmp_path):
    """By rows, where neither place nor name tell."""
    folder = pretrained(standard(rows=[0, 400]), data={"visibility": "public"})
    learnt = load(SourceSettings(**DIGITS, rows=(0, 400)), seed=experiment(tiny()).seed).train
    seen = {row.tobytes() for row in learnt.inputs.numpy()}
    whole = load(SourceSettings(**DIGITS)).train
    is_new = np.array([row.tobytes() not in seen for row in whole.inputs.numpy()])
    images, labels = whole.inputs[:, 0].numpy(), whole.labels.numpy()
    one = np.flatnonzero(~is_new)[:1]
    for name, rows in (("without", np.flatnonzero(is_new)), ("with", np.concatenate([np.flatnonzero(is_new), one]))):
        np.savez(tmp_path / f"{name}.npz", x_train=images[rows], y_train=labels[rows])
    assert verdict(at(folder), data={"source": str(tmp_path / "without.npz")}) == ""
    sentence = verdict(at(folder), data={"source": str(tmp_path / "with.npz")})
    assert "trained on rows of 'digits', where they were declared public, that are also rows of this run's" in sentence
    assert verdict(at(folder), data={"source": str(tmp_path / "with.npz"), "visibility": "public"}) == ""


def test_a_model_that_began_on_public_rows_remembers_them(tiny, verdict, tmp_path):
    """A run on other data passes on what its standard start has seen; its own data are named with their price."""
    start = standard(rows=[0, 400])
    table = tiny(rounds=1, privacy={"expected_cohort": 2}, start=start, data={"options": {"rows": [400, 900]}})
    sordino.run(table, out=tmp_path / "first")
    model = tmp_path / "alone.safetensors"
    shutil.copy(tmp_path / "first" / "model.safetensors", model)
    own, public = start_provenance(model)
    assert (own.visibility, own.rows, own.place, own.row_range) == ("private", "", "", None)
    assert (public.visibility, public.row_range) == ("public", (0, 400))
    assert public.rows
    images = load(SourceSettings(**DIGITS, rows=(0, 400))).train
    np.savez(tmp_path / "other.npz", x_train=images.inputs[:, 0].numpy(), y_train=images.labels.numpy())
    assert "declared public" in verdict(at(model), data={"source": str(tmp_path / "other.npz")})


def test_pretraining_keeps_what_it_began_with(pretrained, verdict, tmp_path, monkeypatch):
    """No start of ours trains from a file, but one from outside may."""
    from sordino.pretrain.standard import Standard

    first = pretrained(standard(public_share=0.3), data=PART)
    monkeypatch.setattr(Standard, "files", lambda self, folder: (Path(first) / "weights.safetensors",))
    np.savez(
        tmp_path / "noise.npz",
        x_train=np.random.default_rng(1).integers(256, size=(90, 8, 8), dtype=np.uint8),
        y_train=np.arange(90) % 10,
    )
    start = {"name": "standard", "epochs": 1, "data": {"source": str(tmp_path / "noise.npz"), "visibility": "public"}}
    second = pretrained(start, folder="second", data=PART)
    monkeypatch.undo()
    assert [one.name for one in start_provenance(second / "weights.safetensors")] == ["noise", "digits"]
    assert "same rows as this run ('digits')" in verdict(at(second), data={"options": {}})
    assert verdict(at(second), data=PART) == ""


def test_weights_of_an_older_version_are_known_by_their_record(pretrained, verdict):
    folder = pretrained(standard(public_share=0.3), data=PART)
    save_file(load_file(folder / "weights.safetensors"), folder / "weights.safetensors")
    assert "same rows as this run ('digits')" in verdict(at(folder), data={"options": {}})
    assert verdict(at(folder), data=PART) == ""
    (folder / "pretrain.json").write_text("{}")
    assert "cannot be read" in verdict(at(folder), data=PART)


def test_the_file_names_no_path_of_the_machine(pretrained, tmp_path):
    images = load(SourceSettings(**DIGITS, limit=90)).train
    np.savez(tmp_path / "mine.npz", x_train=images.inputs[:, 0].numpy(), y_train=images.labels.numpy())
    start = {"name": "standard", "epochs": 1, "data": {"source": str(tmp_path / "mine.npz"), "visibility": "public"}}
    folder = pretrained(start, data={"source": "digits", "visibility": "public"})
    with safe_open(folder / "weights.safetensors", framework="pt") as file:
        written = file.metadata()[KEY]
    assert str(tmp_path) not in written
    assert json.loads(written)[0].keys() == {"name", "visibility", "unit", "epsilon", "delta", "place", "rows"}


def test_a_folder_without_weights_says_what_to_name(verdict, tmp_path):
    (tmp_path / "empty").mkdir()
    sentence = verdict(at(tmp_path / "empty"))
    assert sentence.startswith("[start] path names the folder")
    assert "no weights.safetensors and no model.safetensors" in sentence


def test_the_folder_of_a_run_will_do(tiny, verdict, tmp_path):
    table = tiny(rounds=1, method={"name": "fedavg"}, data={"visibility": "public", "options": {"rows": [0, 300]}})
    sordino.run(table, out=tmp_path / "public")
    assert verdict(at(tmp_path / "public"), data={"options": {"rows": [300, 900]}}) == ""
    assert "same rows" in verdict(at(tmp_path / "public"), data={"options": {"rows": [200, 900]}})


def test_fingerprints_see_through_size_and_colour(tmp_path):
    """Images are compared as they are fed and as they stand in their files."""
    colours = np.random.default_rng(1).integers(256, size=(60, 3, 16, 16), dtype=np.uint8)
    np.savez(tmp_path / "colours.npz", x_train=colours, y_train=np.arange(60) % 3)

    def read(**changes):
        return load(SourceSettings(source=str(tmp_path / "colours.npz"), visibility="public", **changes))

    whole, small, grey = read(), read(resize=8), read(resize=8, channels=1)
    for one in (whole, small, grey):
        for other in (whole, small, grey):
            assert shared(fingerprints_of_training(one), fingerprints_of_training(other))
        assert not shared(fingerprints_of_training(one), fingerprints_of_test(one))
        assert shared(fingerprints_of_all(one), fingerprints_of_test(one))
    np.savez(tmp_path / "colours.npz", x_train=255 - colours, y_train=np.arange(60) % 3)
    assert not shared(fingerprints_of_all(whole), fingerprints_of_all(read(resize=16)))
