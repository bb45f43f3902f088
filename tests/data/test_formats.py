"""Every format reads back what was written in it."""

from __future__ import annotations

import gzip
import io
import pickle
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from PIL import Image

from sordino.core import SordinoError
from sordino.data.source import Source, SourceSettings, describe, load


def read(path: Path, **settings: object) -> Source:
    """Load by path, and check that the facts agree with what was loaded."""
    asked = SourceSettings(source=str(path), visibility="private", **settings)  # type: ignore[arg-type]
    source, facts = load(asked), describe(asked)
    assert (facts.n_train, facts.n_test) == (len(source.train), len(source.test))
    assert (facts.shape, facts.classes, facts.kind) == (source.shape, source.classes, source.kind)
    assert facts.vocabulary == source.vocabulary
    assert source.shape == tuple(source.train.inputs.shape[1:]) == tuple(source.test.inputs.shape[1:])
    return source


def write_idx(path: Path, array: np.ndarray) -> None:
    head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    content = head + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def encoded(images: np.ndarray) -> list[bytes]:
    files = []
    for image in images:
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "PNG")
        files.append(buffer.getvalue())
    return files


def write_folder(folder: Path, images: np.ndarray, labels: np.ndarray, names: str = "abc") -> None:
    for number, (file, label) in enumerate(zip(encoded(images), labels, strict=True)):
        (folder / names[label]).mkdir(parents=True, exist_ok=True)
        (folder / names[label] / f"{number:03}.png").write_bytes(file)


def same_rows(read_inputs: torch.Tensor, written: np.ndarray) -> bool:
    """The same rows in any order."""
    flat = read_inputs.flatten(1).numpy()
    rows = written.reshape(len(written), -1)
    return sorted(map(bytes, flat)) == sorted(map(bytes, rows))


@pytest.mark.parametrize("layout", ["channels last", "channels first", "grey"])
def test_npz_images(tmp_path: Path, colour_images: np.ndarray, labels: np.ndarray, layout: str) -> None:
    first = colour_images.transpose(0, 3, 1, 2)
    stored = {"channels last": colour_images, "channels first": first, "grey": first[:, 0]}[layout]
    np.savez(tmp_path / "set.npz", x_train=stored, y_train=labels[:, None], x_test=stored[:4], y_test=labels[:4])
    source = read(tmp_path / "set.npz")
    expected = first[:, :1] if layout == "grey" else first
    assert np.array_equal(source.train.inputs.numpy(), expected)
    assert np.array_equal(source.test.inputs.numpy(), expected[:4])
    assert source.train.labels.tolist() == labels.tolist()


def test_npz_encoded_images(tmp_path: Path, colour_images: np.ndarray, labels: np.ndarray) -> None:
    files = encoded(colour_images)
    cuts = np.cumsum([0, *map(len, files)])
    data = np.frombuffer(b"".join(files), np.uint8)
    arrays = {"train_bytes": data, "train_off": cuts, "y_train": labels}
    arrays |= {"test_bytes": data[: cuts[4]], "test_off": cuts[:5], "y_test": labels[:4]}
    np.savez(tmp_path / "set.npz", names=np.array(["x", "y", "z"]), **arrays)
    source = read(tmp_path / "set.npz")
    assert np.array_equal(source.train.inputs.numpy(), colour_images.transpose(0, 3, 1, 2))
    assert len(source.test) == 4
    assert source.class_names == ("x", "y", "z")


def test_npz_rows_and_tokens(tmp_path: Path, rng: np.random.Generator, labels: np.ndarray) -> None:
    rows = rng.normal(size=(12, 5))
    np.savez(tmp_path / "rows.npz", x_train=rows, y_train=labels, who=labels)
    source = read(tmp_path / "rows.npz", client_column="who")
    assert source.kind == "tabular"
    assert same_rows(torch.cat([source.train.inputs, source.test.inputs]), rows.astype(np.float32))
    assert source.train.features("cpu").equal(source.train.inputs)
    assert np.array_equal(source.columns["who"], source.train.labels.numpy())
    tokens = rng.integers(0, 50, (12, 6))
    np.savez(tmp_path / "tokens.npz", x_train=tokens, y_train=labels)
    source = read(tmp_path / "tokens.npz", vocabulary=50)
    assert (source.kind, source.vocabulary) == ("text", 50)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_folder_and_file(tmp_path: Path, rng: np.random.Generator, labels: np.ndarray, suffix: str) -> None:
    images = rng.integers(0, 256, (12, 5, 4), np.uint8)
    for split, rows in (("train", slice(0, 9)), ("t10k", slice(9, 12))):
        write_idx(tmp_path / f"{split}-images-idx3-ubyte{suffix}", images[rows])
        write_idx(tmp_path / f"{split}-labels-idx1-ubyte{suffix}", labels[rows])
    for path in (tmp_path, tmp_path / f"train-images-idx3-ubyte{suffix}"):
        source = read(path)
        assert np.array_equal(source.train.inputs[:, 0].numpy(), images[:9])
        assert np.array_equal(source.test.inputs[:, 0].numpy(), images[9:])
        assert source.test.labels.tolist() == labels[9:].tolist()


@pytest.mark.parametrize("protocol", [2, 5])
def test_cifar_batches(tmp_path: Path, colour_images: np.ndarray, labels: np.ndarray, protocol: int) -> None:
    data = colour_images.transpose(0, 3, 1, 2).reshape(12, 3072)
    parts = {"data_batch_1": slice(0, 5), "data_batch_2": slice(5, 9), "test_batch": slice(9, 12)}
    for name, rows in parts.items():
        content = {b"data": data[rows], b"labels": labels[rows].tolist()}
        (tmp_path / name).write_bytes(pickle.dumps(content, protocol=protocol))
    (tmp_path / "batches.meta").write_bytes(pickle.dumps({"label_names": ["a", "b", "c"]}, protocol=protocol))
    source = read(tmp_path)
    assert np.array_equal(source.train.inputs.numpy(), colour_images.transpose(0, 3, 1, 2)[:9])
    assert source.test.labels.tolist() == labels[9:].tolist()
    assert source.class_names == ("a", "b", "c")


def test_cifar_hundred(tmp_path: Path, colour_images: np.ndarray, labels: np.ndarray) -> None:
    data = colour_images.transpose(0, 3, 1, 2).reshape(12, 3072)
    for name in ("train", "test"):
        (tmp_path / name).write_bytes(pickle.dumps({"data": data, "fine_labels": labels.tolist(), "coarse_labels": []}))
    (tmp_path / "meta").write_bytes(pickle.dumps({"fine_label_names": ["a", "b", "c"]}))
    assert read(tmp_path).class_names == ("a", "b", "c")


def test_a_pickle_that_would_run_code_is_refused_and_not_run(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "ran",))

    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({"data": Attack()}))
    with pytest.raises(SordinoError, match="only arrays are allowed"):
        read(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_image_folder_without_test_split(tmp_path: Path, colour_images: np.ndarray, labels: np.ndarray) -> None:
    write_folder(tmp_path / "set", colour_images, labels)
    source = read(tmp_path / "set")
    everything = torch.cat([source.train.inputs, source.test.inputs])
    assert same_rows(everything, colour_images.transpose(0, 3, 1, 2).copy())
    assert source.class_names == ("a", "b", "c")
    for image, label in zip(source.train.inputs, source.train.labels, strict=True):
        row = next(row for row, pixels in enumerate(colour_images) if np.array_equal(pixels, image.permute(1, 2, 0)))
        assert labels[row] == label


def test_image_folder_with_splits_and_sizes(tmp_path: Path, colour_images: np.ndarray, labels: np.ndarray) -> None:
    write_folder(tmp_path / "set/train", colour_images[:, :20], labels)
    write_folder(tmp_path / "set/train", colour_images[:1, :, :24], np.array([1]))
    write_folder(tmp_path / "set/test", colour_images[:3, :16, :16, 0], labels[:3])
    source = read(tmp_path / "set", resize=8, channels=3)
    assert (len(source.train), len(source.test), source.shape) == (13, 3, (3, 8, 8))
    assert source.test.inputs[:, 0].equal(source.test.inputs[:, 2])
    with pytest.raises(SordinoError, match="differ in size"):
        load(SourceSettings(source=str(tmp_path / "set/train"), visibility="public"))


TABLE = pandas.DataFrame(
    {
        "age": [1, 2, 3, 4, 5, 6, 7, 8],
        "height": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5],
        "town": ["ulm", "ulm", "bonn", "bonn", "kiel", "kiel", "ulm", "bonn"],
        "words": ["None", "null, and void", "a b", "a, b!", "Ä ö", "x", "y", "z"],
        "person": ["p", "p", "q", "q", "r", "r", "s", "s"],
        "label": ["yes", "no", "no", "yes", "no", "yes", "yes", "no"],
    }
)


def write_table(path: Path, table: pandas.DataFrame = TABLE) -> Path:
    if path.suffix == ".parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.csv.xz", "t.parquet"])
def test_table_of_numbers_and_categories(tmp_path: Path, name: str) -> None:
    source = read(
        write_table(tmp_path / name), columns=("age", "height", "town"), client_column="person", test_fraction=0.25
    )
    assert (source.shape, source.class_names, len(source.test)) == ((5,), ("no", "yes"), 2)
    for row, label, person in zip(source.train.inputs, source.train.labels, source.columns["person"], strict=True):
        origin = TABLE.iloc[int(row[0]) - 1]
        assert row[1] == origin.height
        assert row[2:].tolist() == [origin.town == town for town in ("bonn", "kiel", "ulm")]
        assert ("no", "yes")[label] == origin.label
        assert person == origin.person


def test_declared_categories_and_classes(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.csv")
    towns = {"town": ("kiel", "ulm", "rome", "bonn")}
    source = read(path, columns=("town",), categories=towns, class_names=("yes", "no", "perhaps"))
    assert (source.shape, source.classes) == ((4,), 3)
    assert source.train.inputs[:, 2].sum() == 0
    with pytest.raises(
        SordinoError, match=r"Column 'town' of .* should hold one of kiel, ulm, but got 'bonn' in row 3"
    ):
        read(path, columns=("town",), categories={"town": ("kiel", "ulm")})


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_table_of_text(tmp_path: Path, name: str) -> None:
    source = read(write_table(tmp_path / name), text_column="words", vocabulary=1000, length=3)
    assert (source.kind, source.shape, source.vocabulary) == ("text", (3,), 1000)
    everything = torch.cat([source.train.inputs, source.test.inputs])
    assert sorted((everything > 0).sum(1).tolist()) == [1, 1, 1, 1, 2, 2, 3, 3]


def test_numeric_labels_and_all_columns_by_default(tmp_path: Path) -> None:
    table = TABLE[["age", "height"]].assign(label=[0, 1, 2, 0, 1, 2, 0, 1])
    source = read(write_table(tmp_path / "t.csv", table))
    assert (source.shape, source.classes, source.class_names) == ((2,), 3, ("0", "1", "2"))
