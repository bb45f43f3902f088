"""What can be wrong with a data set is said in one sentence."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pandas
import pytest

from sordino.core import SordinoError
from sordino.data import limits
from sordino.data.locate import data_folder, known
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
    refused(tmp_path / "t.csv", "Column 'a' of .*t.csv has no value in row 2 below the header; fill it")
    pandas.DataFrame({"a": ["x", None, "y"], "label": [0, 1, 0]}).to_csv(tmp_path / "t.csv", index=False)
    refused(tmp_path / "t.csv", "Column 'a' of .*t.csv has no value in row 2 below the header")


def test_missing_label_in_a_table(tmp_path: Path) -> None:
    pandas.DataFrame({"a": [1.0, 2.0, 3.0], "label": ["x", None, "y"]}).to_csv(tmp_path / "t.csv", index=False)
    refused(
        tmp_path / "t.csv", "Column 'label' of .*t.csv has no value in row 2 below the header; a row without a label"
    )


def test_word_that_is_no_class(tmp_path: Path) -> None:
    pandas.DataFrame({"a": [1.0, 2.0, 3.0], "label": ["cat", "dog", "doge"]}).to_csv(tmp_path / "t.csv", index=False)
    refused(tmp_path / "t.csv", "one of the declared classes, but got 'doge' in row 3", class_names=("cat", "dog"))


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


def lying(path: Path, shape: tuple[int, ...], content: bytes, *, name: str = "x_train") -> Path:
    """An archive in which one array's header tells of another shape than its bytes have."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})  # type: ignore[arg-type]
    with zipfile.ZipFile(path / "set.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.npy", header.getvalue() + content)
        labels = io.BytesIO()
        np.save(labels, np.arange(6) % 3)
        archive.writestr("y_train.npy", labels.getvalue())
    return path / "set.npz"


@pytest.mark.parametrize(
    ("shape", "content"),
    [((7, 4, 4), bytes(96)), ((6, 4, 4), bytes(97)), ((10**12, 4, 4), bytes(96)), ((-6, 4, 4), bytes(96))],
    ids=["more", "less", "more than memory", "negative"],
)
def test_a_header_that_does_not_tell_the_truth(tmp_path: Path, shape: tuple[int, ...], content: bytes) -> None:
    path = lying(tmp_path, shape, content)
    refused(path, "is damaged: array 'x_train' should have .* bytes by its shape")
    with pytest.raises(SordinoError, match="is damaged"):
        describe(settings(path))


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a megabyte of memory, so that a bomb need not be larger than that."""
    monkeypatch.setattr(limits, "most_bytes", lambda: 1 << 20)


BOMB = 1 << 21


@pytest.mark.usefixtures("small_machine")
def test_a_decompression_bomb_in_an_archive(tmp_path: Path) -> None:
    path = lying(tmp_path, (BOMB // 16, 4, 4), bytes(BOMB))
    assert path.stat().st_size < 10_000
    refused(path, "set.npz would take 0.0 GB when unpacked, but this machine's memory is")


@pytest.mark.usefixtures("small_machine")
@pytest.mark.parametrize("suffix", ["gz", "xz", "bz2"])
def test_a_decompression_bomb_in_a_table(tmp_path: Path, suffix: str) -> None:
    pack = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}[suffix]
    (tmp_path / f"t.csv.{suffix}").write_bytes(pack(b"a,label\n" + b"1,0\n" * (BOMB // 4)))
    refused(tmp_path / f"t.csv.{suffix}", "when unpacked")


@pytest.mark.usefixtures("small_machine")
def test_a_decompression_bomb_in_parquet(tmp_path: Path) -> None:
    pandas.DataFrame({"a": np.zeros(BOMB), "label": np.zeros(BOMB, int)}).to_parquet(tmp_path / "t.parquet")
    refused(tmp_path / "t.parquet", "when unpacked")


@pytest.mark.usefixtures("small_machine")
def test_a_decompression_bomb_in_idx(tmp_path: Path) -> None:
    head = bytes([0, 0, 8, 3]) + (BOMB // 16).to_bytes(4, "big") + bytes([0, 0, 0, 4, 0, 0, 0, 4])
    with gzip.open(tmp_path / "train-images-idx3-ubyte.gz", "wb") as file:
        file.write(head + bytes(BOMB))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 1, 0]))
    refused(tmp_path, "when unpacked")


def test_an_idx_file_that_goes_on_after_its_end(tmp_path: Path) -> None:
    head = bytes([0, 0, 8, 3, *(0, 0, 0, 6), *(0, 0, 0, 4), *(0, 0, 0, 4)])
    with gzip.open(tmp_path / "train-images-idx3-ubyte.gz", "wb") as file:
        file.write(head + bytes(96) + bytes(BOMB))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 6, 0, 1, 2, 0, 1, 2]))
    refused(tmp_path, "header tells of 96 bytes, but it holds more")


@pytest.mark.parametrize("side", [10_000, 30_000])
def test_a_image_of_too_many_pixels(tmp_path: Path, side: int) -> None:
    """Pillow warns of the first and refuses the second."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")

    size = side.to_bytes(4, "big")
    png = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size + size + bytes([8, 0, 0, 0, 0])) + chunk(b"IDAT", zlib.compress(b""))
    )
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    (tmp_path / "photos" / "cat" / "1.png").write_bytes(png + chunk(b"IEND", b""))
    refused(tmp_path / "photos", "1.png has more than .* pixels, which looks like a decompression bomb")


@pytest.mark.parametrize("name", ["x.npz", "x.csv", "x.csv.gz", "x.csv.xz", "x.parquet"])
def test_an_empty_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    refused(tmp_path / name, "cannot be read, it may be damaged|should begin with a header of column names")


def test_a_table_that_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,label\n\xff\xfe,1\n")
    refused(
        tmp_path / "t.csv", "should be text in UTF-8, but got other bytes in row 1 below the header; save it as UTF-8"
    )


def test_an_archive_behind_a_password(tmp_path: Path) -> None:
    path = saved(tmp_path)
    content = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(mark)
        while place >= 0:
            content[place + flags] |= 1
            place = content.find(mark, place + 4)
    path.write_bytes(content)
    refused(path, "cannot be read, it may be damaged .*encrypted")


@pytest.mark.parametrize("values", [["p", None, "q"], [1.0, None, 2.0]])
def test_missing_client_in_a_table(tmp_path: Path, values: list[object]) -> None:
    pandas.DataFrame({"a": [1.0, 2.0, 3.0], "label": [0, 1, 0], "who": values}).to_csv(tmp_path / "t.csv", index=False)
    refused(tmp_path / "t.csv", "The client column 'who' of .*t.csv has no value in row 2", client_column="who")


def test_missing_client_in_an_archive(tmp_path: Path) -> None:
    who = np.array([1.0, 2.0, np.nan, 1.0, 2.0, 3.0])
    refused(saved(tmp_path, who=who), "The client column 'who' .* has no value in row 3", client_column="who")
    refused(saved(tmp_path, who=np.zeros((6, 2))), "must have one value for each", client_column="who")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "source must be a name or a path"),
        ("x" * 5000, "failed \\(File name too long\\)"),
        ("a\0b.npz", "no file or folder"),
        ("~nobody-of-this-name/x.npz", "home directory"),
    ],
)
def test_a_source_that_no_path_can_be(source: str, words: str) -> None:
    with pytest.raises(SordinoError, match=words) as caught:
        load(settings(source))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_a_folder_where_a_file_is_expected(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"set{suffix}").mkdir()
    refused(tmp_path / f"set{suffix}", "has no class sub-folders and no known data files")


def test_without_a_home_the_embedded_sets_are_still_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no entry in the system's list of users."""
    monkeypatch.delenv("SORDINO_DATA", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    assert {entry.name for entry in known()} == {"digits", "mnist5k"}
    assert len(load(settings("digits")).train) > 1000
    refused("nothing", "no data set called 'nothing'")
    with pytest.raises(SordinoError, match="no home folder to keep data in"):
        data_folder()
