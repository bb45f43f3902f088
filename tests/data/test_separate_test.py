"""What [data] test may say, rows that clients hold out, and test sources that are fitted to the training set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sordino.core import SordinoError
from sordino.data.evaluation_rows import Charged, SeparateSource, SetAside, evaluation_rows
from sordino.data.holding_out import hold_out
from sordino.data.partition import Partition
from sordino.data.source import Source, SourceSettings, describe, load

TRAIN = "age,town,label\n1,Bonn,no\n2,Ulm,yes\n3,Bonn,no\n4,Kiel,maybe\n"


def settings(source: object, **others: object) -> SourceSettings:
    return SourceSettings(source=str(source), **({"visibility": "private"} | others))  # type: ignore[arg-type]


def with_test_source(
    train: object, test: object, *, seed: int = 0, test_settings: dict | None = None, **others
) -> Source:
    rows = SeparateSource(source=str(test), **(test_settings or {}))
    return load(settings(train, **others), seed=seed, test=rows)


@pytest.fixture
def table(tmp_path: Path):
    def write(text: str, name: str = "test.csv") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def archive(path: Path, count: int = 6, *, start: int = 0, shape: tuple[int, ...] = (4, 4), **arrays) -> Path:
    """Images that differ from each other, and from those of another start."""
    values = np.arange(start, start + count, dtype=np.uint8)
    images = values.reshape(-1, *[1] * len(shape)) * np.ones((1, *shape), np.uint8)
    np.savez(path, **({"x_train": images, "y_train": np.arange(count) % 3} | arrays))
    return path


def test_every_way_of_saying_it() -> None:
    assert evaluation_rows(None) == SetAside(declared=False)
    assert evaluation_rows("public-split") == evaluation_rows({"name": "public-split"}) == SetAside(declared=True)
    assert evaluation_rows({"source": "other.csv", "limit": 5}) == SeparateSource(source="other.csv", limit=5)
    charged = evaluation_rows({"name": "charged", "epsilon": 0.5, "fraction": 0.1})
    assert charged == Charged(epsilon=0.5, fraction=0.1)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"name": "charged"}, "needs epsilon"),
        ({"name": "charged", "epsilon": 0.0}, "epsilon should be greater than 0"),
        ({"name": "charged", "epsilon": 1.0, "fraction": 1.0}, "fraction should be less than 1"),
        ({"name": "charged", "epsilon": 1.0, "fracton": 0.5}, "did you mean 'fraction'"),
        ({"source": "digits", "limit": 0}, "limit should be greater than or equal to 1"),
        ({"source": "digits", "visibility": "private"}, "no setting in .data.test. called 'visibility'"),
        ({"name": "chargd", "epsilon": 1.0}, "got 'chargd'"),
        ({"name": "public-split", "fraction": 0.3}, "test_fraction in .data.options."),
    ],
)
def test_a_mistake_gets_one_sentence(setting: dict, sentence: str) -> None:
    with pytest.raises(SordinoError, match=sentence) as caught:
        evaluation_rows(setting)
    assert "\n" not in str(caught.value)


def test_clients_hold_out_a_share_of_their_own_rows() -> None:
    sizes = np.array([2, 3, 10, 40])
    partition = Partition(np.random.default_rng(1).permutation(55), np.concatenate([[0], np.cumsum(sizes)]))
    train, held = hold_out(partition, 0.2, np.random.default_rng(2))
    assert held.sizes.tolist() == [1, 1, 2, 8]
    for client in range(4):
        assert sorted([*train.of(client), *held.of(client)]) == sorted(partition.of(client))
        kept = [row for row in partition.of(client) if row in set(train.of(client))]
        assert train.of(client).tolist() == kept
    same, other = (hold_out(partition, 0.2, np.random.default_rng(seed))[1].indices.tolist() for seed in (2, 3))
    assert same == held.indices.tolist() != other


def test_every_client_trains_on_a_row_and_tests_on_one() -> None:
    partition = Partition(np.arange(5), np.array([0, 2, 5]))
    train, held = hold_out(partition, 0.99, np.random.default_rng(0))
    assert (train.sizes.tolist(), held.sizes.tolist()) == ([1, 1], [1, 2])
    with pytest.raises(SordinoError, match="client 1 holds 1; use fewer clients"):
        hold_out(Partition(np.arange(4), np.array([0, 3, 4])), 0.2, np.random.default_rng(0))


def test_charged_evaluation_leaves_every_row_for_the_clients_and_none_in_public() -> None:
    source = load(settings("digits"), test=Charged(epsilon=1.0))
    assert (len(source.train), source.test, source.set_aside) == (1797, None, False)
    with pytest.raises(SordinoError, match="no public test rows"):
        _ = source.public_test
    assert describe(settings("digits"), test=Charged(epsilon=1.0)).n_train == 1797


def test_a_test_table_is_read_with_the_columns_categories_and_classes_of_the_training_table(table) -> None:
    train = table(TRAIN, "train.csv")
    test = table("id,town,age,label\n7,Kiel,9,no\n8,Ulm,8,yes\n")
    source = with_test_source(train, test)
    assert source.class_names == ("maybe", "no", "yes")
    assert len(source.train) == 4 and not source.set_aside
    assert source.public_test.labels.tolist() == [1, 2]
    assert source.public_test.inputs.tolist() == [[9, 0, 1, 0], [8, 0, 0, 1]]
    assert describe(settings(train), test=SeparateSource(source=str(test))).n_test == 2


def test_a_test_table_may_call_its_label_otherwise(table) -> None:
    train, test = table(TRAIN, "train.csv"), table("age,town,outcome\n9,Ulm,yes\n")
    source = with_test_source(train, test, test_settings={"label_column": "outcome"})
    assert source.public_test.labels.tolist() == [2]


@pytest.mark.parametrize(
    ("test", "sentence"),
    [
        ("age,town,label\n9,Ulm,perhaps\n", "class of '.*test.csv' called 'perhaps'"),
        (
            "age,town,label\n9,Rome,yes\n",
            "Column 'town' of .*test.csv should hold one of Bonn, Kiel, Ulm, but got 'Rome' in row 1",
        ),
        ("age,label\n9,yes\n", "column in .*test.csv called 'town'"),
        ("age,town,label\nold,Ulm,yes\n", "Column 'age' of .*test.csv should hold numbers, but got 'old' in row 1"),
        ("age,town,label\n9,Ulm,1\n", "are numbers, but those of the training set are words such as 'maybe'"),
        ("age,town,label\n,Ulm,yes\n", "Column 'age' of .*test.csv has no value in row 1 below the header"),
        ("age,town,label\n", "holds no examples"),
        (TRAIN, "4 rows of the test source .* are also rows of the private set"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_by_name(table, test: str, sentence: str) -> None:
    with pytest.raises(SordinoError, match=sentence) as caught:
        with_test_source(table(TRAIN, "train.csv"), table(test))
    assert "\n" not in str(caught.value)


def test_numbered_labels_must_be_known_in_training(table) -> None:
    with pytest.raises(SordinoError, match="has label 3, but the training set has classes 0 to 1"):
        with_test_source(table("a,label\n1,0\n2,1\n", "train.csv"), table("a,label\n3,3\n"))


def test_images_are_brought_to_the_shape_of_the_training_set() -> None:
    source = with_test_source("digits", "mnist5k", resize=10, channels=3)
    assert source.public_test.inputs.shape == (5000, 3, 10, 10)
    assert source.class_names == tuple("0123456789")


def test_images_of_another_shape_that_cannot_be_brought_to_size_are_refused(tmp_path: Path) -> None:
    train, test = archive(tmp_path / "a.npz", shape=(4, 6)), archive(tmp_path / "b.npz", start=50, shape=(4, 4))
    with pytest.raises(SordinoError, match="examples of 1 x 4 x 4, but the training set has 1 x 4 x 6"):
        with_test_source(train, test)
    with pytest.raises(SordinoError, match="examples of tabular, but the training set has image"):
        with_test_source(train, archive(tmp_path / "c.npz", x_train=np.zeros((6, 3), np.float32)))


def test_class_names_that_are_numbered_otherwise_are_refused(tmp_path: Path) -> None:
    train = archive(tmp_path / "a.npz", class_names=np.array(["cat", "dog", "owl"]))
    swapped = archive(tmp_path / "b.npz", start=50, class_names=np.array(["cat", "owl", "dog"]))
    with pytest.raises(SordinoError, match=r"Class 1 is 'owl' in the test source .* but 'dog' in the training set"):
        with_test_source(train, swapped)
    fewer = archive(tmp_path / "c.npz", start=50, class_names=np.array(["cat", "dog"]), y_train=np.arange(6) % 2)
    with pytest.raises(SordinoError, match="names 2 classes, but the training set names 3"):
        with_test_source(train, fewer)


def test_folders_of_images_are_numbered_by_the_names_of_the_training_folders(tmp_path: Path) -> None:
    for place, names in {"train": ("cat", "dog", "owl"), "test": ("dog", "owl")}.items():
        for number, name in enumerate(names):
            (tmp_path / place / name).mkdir(parents=True)
            shade = 20 * number + (200 if place == "test" else 0)
            Image.fromarray(np.full((4, 4), shade, np.uint8)).save(tmp_path / place / name / "one.png")
    source = with_test_source(tmp_path / "train", tmp_path / "test")
    assert source.public_test.labels.tolist() == [1, 2]


def test_the_test_split_of_a_test_source_is_taken_and_that_of_the_training_source_left(tmp_path: Path) -> None:
    extra = {"x_test": np.full((2, 4, 4), 99, np.uint8), "y_test": np.array([0, 9])}
    train, test = archive(tmp_path / "a.npz", **extra), archive(tmp_path / "b.npz", start=50, **extra)
    with pytest.raises(SordinoError, match="has label 9, but the training set has classes 0 to 2"):
        with_test_source(train, test)
    source = with_test_source(
        archive(tmp_path / "c.npz", x_test=extra["x_test"], y_test=np.array([1, 2])), test, classes=10
    )
    assert source.public_test.labels.tolist() == [0, 9]
    own = with_test_source(test, test, classes=10)
    assert own.public_test.labels.tolist() == [0, 9]


def test_private_rows_are_not_made_public_by_naming_them_again(tmp_path: Path) -> None:
    train = archive(tmp_path / "a.npz", 60)
    with pytest.raises(SordinoError, match="is the training set itself and has no test split"):
        with_test_source(train, train)
    copy = tmp_path / "b.npz"
    copy.write_bytes(train.read_bytes())
    with pytest.raises(SordinoError, match="60 rows of the test source"):
        with_test_source(train, copy)
    for seed in range(3):
        with pytest.raises(SordinoError, match=r"2 rows of the test source .* are also rows of the private set"):
            with_test_source(train, copy, seed=seed, limit=1, test_settings={"limit": 2})
    assert with_test_source(train, copy, visibility="public").n_test == 60


def test_a_test_source_can_be_limited(tmp_path: Path) -> None:
    train, test = archive(tmp_path / "a.npz"), archive(tmp_path / "b.npz", 30, start=50)
    few, again, other = (with_test_source(train, test, seed=seed, test_settings={"limit": 5}) for seed in (1, 1, 2))
    assert few.n_test == 5
    assert torch.equal(few.public_test.inputs, again.public_test.inputs)
    assert not torch.equal(few.public_test.inputs, other.public_test.inputs)


def test_rows_of_a_coarse_table_may_be_alike_by_chance_if_somebody_says_so(tmp_path):
    """One shared row is refused. Said to be chance it passes, but not where nothing else is in the file."""
    header, shared = "age,ward,label\n", "40,1,0\n41,2,1\n"
    (tmp_path / "train.csv").write_text(header + shared + "".join(f"{age},3,{age % 2}\n" for age in range(20, 40)))
    (tmp_path / "some.csv").write_text(header + "40,1,1\n90,9,0\n")
    (tmp_path / "all.csv").write_text(header + shared)
    settings = SourceSettings(source=str(tmp_path / "train.csv"), visibility="private")

    def tested(name, **said):
        return load(settings, test=SeparateSource(source=str(tmp_path / name), **said)).n_test

    with pytest.raises(SordinoError, match=r"1 rows of the test source.*alike_by_chance = true"):
        tested("some.csv")
    assert tested("some.csv", alike_by_chance=True) == 2
    with pytest.raises(SordinoError, match="2 rows of the test source"):
        tested("all.csv", alike_by_chance=True)
