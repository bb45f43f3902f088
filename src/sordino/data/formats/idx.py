"""The idx files of MNIST and its kin."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from sordino.core import SordinoError
from sordino.data.formats import FORMATS
from sordino.data.limits import refuse_larger
from sordino.data.raw import Array, Raw, Split, reading
from sordino.data.settings import SourceSettings

TEST_WORDS = ("t10k", "test")
UNSIGNED_BYTE = 0x08


@FORMATS.register("idx")
class Idx:
    """MNIST's idx files, plain or gz: a folder of them, or an images file that lies beside its labels file."""

    @staticmethod
    def accepts(path: Path) -> bool:
        if path.is_dir():
            return any(_is_images(file) for file in path.iterdir())
        return path.is_file() and _is_images(path)

    @staticmethod
    def read(path: Path, settings: SourceSettings) -> Raw:
        train = _training_file(path) if path.is_dir() else path
        test = next((beside for word in TEST_WORDS if (beside := _beside(train, "train", word))), None)
        return Raw(kind="image", train=_split(train), test=_split(test) if test else None)


def _is_images(file: Path) -> bool:
    return file.is_file() and "images" in file.name and "idx3" in file.name


def _training_file(folder: Path) -> Path:
    files = sorted(
        file for file in folder.iterdir() if _is_images(file) and not any(word in file.name for word in TEST_WORDS)
    )
    if len(files) != 1:
        raise SordinoError(
            f"{folder} should hold one file of training images but holds {len(files)}; name the images file itself."
        )
    return files[0]


def _beside(file: Path, old: str, new: str) -> Path | None:
    """The file beside this one whose name has another word, compressed or not."""
    name = file.name.replace(old, new)
    if name == file.name:
        return None
    plain = name.removesuffix(".gz")
    return next((other for other in (file.with_name(plain), file.with_name(f"{plain}.gz")) if other.is_file()), None)


def _split(images: Path) -> Split:
    renamed = images.with_name(images.name.replace("idx3", "idx1"))
    labels = _beside(renamed, "images", "labels")
    if labels is None:
        raise SordinoError(
            f"{images} has no labels file beside it; expected {renamed.name.replace('images', 'labels')}."
        )
    shape = _shape(images)
    if len(shape) != 3:
        raise SordinoError(f"{images} should hold N x height x width, but has {len(shape)} dimensions; fetch it again.")
    return Split(
        count=shape[0], shape=(1, *shape[1:]), labels=lambda: _array(labels), inputs=lambda: _array(images)[:, None]
    )


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _read_shape(file: BinaryIO) -> tuple[int, ...]:
    zero, kind, dimensions = int.from_bytes(file.read(2), "big"), file.read(1)[0], file.read(1)[0]
    if zero != 0 or kind != UNSIGNED_BYTE:
        raise ValueError("not an idx file of unsigned bytes")
    return tuple(int.from_bytes(file.read(4), "big") for _ in range(dimensions))


def _shape(path: Path) -> tuple[int, ...]:
    with reading(path), _open(path) as file:
        return _read_shape(file)


def _array(path: Path) -> Array:
    with reading(path), _open(path) as file:
        shape = _read_shape(file)
        size = math.prod(shape)
        refuse_larger(path, size)
        content = file.read(size + 1)
        if len(content) != size:
            raise ValueError(
                f"its header tells of {size} bytes, but it holds {'more' if len(content) > size else len(content)}"
            )
        return np.frombuffer(bytearray(content), np.uint8).reshape(shape)
