"""Fingerprints of public rows are worked out once for each set, and again where what was kept is damaged."""

import pytest

from sordino.data.row_fingerprints import fingerprints_of_training, to_text
from sordino.data.source import SourceSettings, load
from sordino.pretrain import kept_fingerprints as room
from sordino.pretrain.kept_fingerprints import kept_fingerprints


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("SORDINO_PRETRAINED", str(tmp_path))
    return tmp_path


def digits(**options):
    return load(SourceSettings(source="digits", visibility="public", **options), seed=1)


def test_they_are_worked_out_once(store, monkeypatch):
    expected = to_text(fingerprints_of_training(digits()))
    assert kept_fingerprints(digits()) == expected
    monkeypatch.setattr(room, "fingerprints_of_training", lambda source: pytest.fail("worked out again"))
    assert kept_fingerprints(digits()) == expected


def test_another_part_and_another_size_have_others(store):
    found = {kept_fingerprints(digits(**options)) for options in ({}, {"public_share": 0.3}, {"resize": 5})}
    assert len(found) == 3


@pytest.mark.parametrize("damage", ["", "é", "no base64!", "QUJD"])
def test_what_is_damaged_is_worked_out_again(damage, store):
    expected = kept_fingerprints(digits())
    (kept,) = (store / "fingerprints").iterdir()
    kept.write_text(damage, encoding="utf-8")
    assert kept_fingerprints(digits()) == expected


def test_without_a_place_to_keep_them_they_are_told_all_the_same(store):
    (store / "fingerprints").write_text("a file where a folder should be")
    assert kept_fingerprints(digits()) == to_text(fingerprints_of_training(digits()))
