"""What can be wrong with a data set is said in one sentence."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas
import pytest

from sordino.core import SordinoError
from sordino.data.source import SourceSettings, describe, load


def settings(source: object, **others: object) -> SourceSettings:
    return SourceSettings(source=str(source), visibility="private", **others)  # type: ignore[arg-type]


def refused(source: object, words: str, **others: object) -> None:
    with pytest.raises(SordinoError, match=words) as caught:
        load(settings(source, **others))
    assert "\n" not in str(caught.value)


def saved(path: Path, **arrays: np.ndarray) -> Path:
    usual = {"x_train": np.zeros((6, 4, 4), np.uint8), "y_train": np.arange(6) % 3}
    np.savez(path / "set.npz", **(usual | arrays))  # type: ignore[arg-type]
    return path / "set.npz"


def test_unknown_name_gets_the_nearest(data_folder: Path) -> None:
    refused("digit", "no data set called 'digit'; did you mean 'digits'")
    np.savez(data_folder / "flowers.npz", x_train=np.zeros((6, 4, 4), np.uint8), y_train=np.arange(6) % 3)
    refused("flower", "did you mean 'flowers'")


def test_missing_file(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere.npz", "no file or folder .*nowhere.npz'; check the path")


def test_file_of_no_format(tmp_path: Path) -> None:
    (tmp_path / "notes.doc").write_text("hello")
    refused(tmp_path / "notes.doc", "no known format")


def test_two_files_of_one_name(data_folder: Path) -> None:
    for name in ("pets.npz", "pets.csv"):
        (data_folder / name).write_bytes(b"")
    refused("pets", "give the path")


@pytest.mark.parametrize(("label", "classes"), [(-1, None), (-1, 3), (3, 3)])
def test_label_outside_range(tmp_path: Path, label: int, classes: int | None) -> None:
    path = saved(
        tmp_path, y_train=np.array([0, 1, 2, 0, 1, label]), x_test=np.zeros((2, 4, 4), np.uint8), y_test=np.arange(2)
    )
    refused(path, f"training split of 'set' has a label {label}, outside 0 to 2", classes=classes)


def test_labels_that_are_no_class_numbers(tmp_path: Path) -> None:
    refused(saved(tmp_path, y_train=np.array([0, 1, 2, 0, 1, 10**9])), "declare classes")
    refused(saved(tmp_path, y_train=np.array([0, 1, 2, 0, 1, 0.5])), "whole numbers")
    refused(saved(tmp_path, y_train=np.array([0, 1, 2, 0, 1, np.nan])), "whole numbers")
    refused(saved(tmp_path, y_train=np.zeros((6, 3), int)), "one number per example")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity(tmp_path: Path, bad: float) -> None:
    rows = np.zeros((6, 4))
    rows[4, 2] = bad
    path = saved(tmp_path, x_train=rows, x_test=np.zeros((2, 4)), y_test=np.arange(2))
    refused(path, "training split of 'set' has a NaN, infinite or missing value, first in row 5")


def test_missing_value_in_a_table(tmp_path: Path) -> None:
    pandas.DataFrame({"a": [1.0, None, 3.0], "label": [0, 1, 0]}).to_csv(tmp_path / "t.csv", index=False)
    refused(tmp_path / "t.csv", "NaN, infinite or missing value")
    pandas.DataFrame({"a": ["x", None, "y"], "label": [0, 1, 0]}).to_csv(tmp_path / "t.csv", index=False)
    refused(tmp_path / "t.csv", "Column 'a' has missing values, first in row 2")


def test_missing_label_in_a_table(tmp_path: Path) -> None:
    pandas.DataFrame({"a": [1.0, 2.0, 3.0], "label": ["x", None, "y"]}).to_csv(tmp_path / "t.csv", index=False)
    refused(tmp_path / "t.csv", "no label in row 2")


def test_word_that_is_no_class(tmp_path: Path) -> None:
    pandas.DataFrame({"a": [1.0, 2.0, 3.0], "label": ["cat", "dog", "doge"]}).to_csv(tmp_path / "t.csv", index=False)
    refused(tmp_path / "t.csv", "called 'doge'; did you mean 'dog'", class_names=("cat", "dog"))


def test_different_lengths(tmp_path: Path) -> None:
    refused(saved(tmp_path, y_train=np.arange(5) % 3), "6 inputs but 5 labels")


def test_training_and_test_examples_of_different_shape(tmp_path: Path) -> None:
    path = saved(tmp_path, x_test=np.zeros((2, 4, 4, 3), np.uint8), y_test=np.arange(2))
    refused(path, r"training examples of \(1, 4, 4\) but test examples of \(3, 4, 4\)")
    assert load(settings(path, channels=3)).shape == (3, 4, 4)


def test_client_column_of_another_length(tmp_path: Path) -> None:
    refused(saved(tmp_path, who=np.arange(5)), "one value for each of 6", client_column="who")


@pytest.mark.parametrize("name", ["empty.npz", "empty.csv"])
def test_empty_set(tmp_path: Path, name: str) -> None:
    if name.endswith("csv"):
        (tmp_path / name).write_text("a,label\n")
    else:
        np.savez(tmp_path / name, x_train=np.zeros((0, 4, 4), np.uint8), y_train=np.zeros(0, int))
    refused(tmp_path / name, "holds no examples")
    with pytest.raises(SordinoError, match="holds no examples"):
        describe(settings(tmp_path / name))


def test_a_single_example_leaves_none_to_train(tmp_path: Path) -> None:
    path = saved(tmp_path, x_train=np.zeros((1, 4, 4), np.uint8), y_train=np.zeros(1, int))
    refused(path, "training split of 'set' is empty", classes=2)


@pytest.mark.parametrize("name", ["x.npz", "x.csv.xz", "x.csv.gz", "x.parquet", "train-images-idx3-ubyte.gz"])
def test_damaged_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x00\x01 not what the name says")
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(b"")
    refused(tmp_path / name, "cannot be read, it may be damaged")


def test_truncated_archive(tmp_path: Path) -> None:
    path = saved(tmp_path)
    path.write_bytes(path.read_bytes()[:-200])
    refused(path, "cannot be read, it may be damaged")


def test_truncated_idx(tmp_path: Path) -> None:
    head = bytes([0, 0, 8, 3, *(0, 0, 0, 6), *(0, 0, 0, 4), *(0, 0, 0, 4)])
    (tmp_path / "train-images-idx3-ubyte").write_bytes(head + bytes(50))
    with gzip.open(tmp_path / "train-labels-idx1-ubyte.gz", "wb") as file:
        file.write(bytes([0, 0, 8, 1, 0, 0, 0, 6, 0, 1, 2, 0, 1, 2]))
    refused(tmp_path, "cannot be read, it may be damaged")


def test_idx_without_labels(tmp_path: Path) -> None:
    (tmp_path / "train-images-idx3-ubyte").write_bytes(bytes([0, 0, 8, 3]) + bytes(12))
    refused(tmp_path, "no labels file beside it; expected train-labels-idx1-ubyte")


def test_archive_that_needs_pickle_is_refused(tmp_path: Path) -> None:
    refused(saved(tmp_path, y_train=np.array([{}] * 6, object)), "cannot be read")


def test_missing_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "set.npz", x_trian=np.zeros((6, 4, 4), np.uint8))
    refused(tmp_path / "set.npz", "'x_train'; did you mean 'x_trian'")


def test_float_images_are_refused(tmp_path: Path) -> None:
    refused(saved(tmp_path, x_train=np.zeros((6, 4, 4))), "save images as uint8")


def test_token_outside_vocabulary(tmp_path: Path) -> None:
    refused(saved(tmp_path, x_train=np.full((6, 4), 9)), "a token 9, outside 0 to 8; .* raise vocabulary", vocabulary=9)


def test_missing_column_gets_the_nearest(tmp_path: Path) -> None:
    pandas.DataFrame({"a": [1.0, 2.0], "labels": [0, 1]}).to_csv(tmp_path / "t.csv", index=False)
    refused(tmp_path / "t.csv", "called 'label'; did you mean 'labels'")
    refused(tmp_path / "t.csv", "called 'user'", label_column="labels", client_column="user")


def test_free_text_is_not_taken_for_categories(tmp_path: Path) -> None:
    pandas.DataFrame({"a": [f"text {i}" for i in range(300)], "label": [0, 1] * 150}).to_csv(
        tmp_path / "t.csv", index=False
    )
    refused(tmp_path / "t.csv", "300 different words; name it as text_column")


def test_image_folder_without_classes(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    refused(tmp_path / "photos", "has no class sub-folders")
    (tmp_path / "photos" / "train").mkdir()
    refused(tmp_path / "photos", "has no class sub-folders")
    (tmp_path / "photos" / "train" / "cat").mkdir()
    refused(tmp_path / "photos", "holds no image files")


def test_damaged_image(tmp_path: Path) -> None:
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    (tmp_path / "photos" / "cat" / "1.png").write_bytes(b"no image")
    refused(tmp_path / "photos", "cannot be read")


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("'public' or 'private', not 'secret'", {"visibility": "secret"}),
        ("test_fraction must lie between", {"test_fraction": 1.0}),
        ("channels must be 1", {"channels": 2}),
        ("limit must be at least 1", {"limit": 0}),
        ("make them agree", {"classes": 3, "class_names": ("a", "b")}),
        ("std above zero", {"std": (0.0,)}),
    ],
)
def test_wrong_settings(words: str, wrong: dict[str, object]) -> None:
    with pytest.raises(SordinoError, match=words):
        SourceSettings(**({"source": "digits", "visibility": "public"} | wrong))  # type: ignore[arg-type]


def test_visibility_must_be_given() -> None:
    with pytest.raises(TypeError, match="visibility"):
        SourceSettings(source="digits")  # type: ignore[call-arg]
