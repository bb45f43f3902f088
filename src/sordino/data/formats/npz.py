"""NumPy archives."""

from __future__ import annotations

import math
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np

from sordino.core import SordinoError, unknown
from sordino.data import images
from sordino.data.formats import FORMATS
from sordino.data.limits import refuse_larger
from sordino.data.raw import Array, Raw, Split, reading
from sordino.data.settings import Kind, SourceSettings


@FORMATS.register("npz")
class Npz:
    """NumPy archive: x_train, y_train and perhaps x_test, y_test; or encoded images in train_bytes cut at train_off.

    uint8 arrays of 3 or 4 dimensions are images, int32 or int64 arrays of 2 are tokens, other arrays of 2 are numbers.
    """

    @staticmethod
    def accepts(path: Path) -> bool:
        return path.is_file() and path.suffix == ".npz"

    @staticmethod
    def read(path: Path, settings: SourceSettings) -> Raw:
        archive = _Archive(path)
        encoded = "train_bytes" in archive.names
        train, kind = archive.encoded("train", settings) if encoded else archive.plain("train")
        test: Split | None = None
        if ("test_bytes" if encoded else "x_test") in archive.names:
            test, test_kind = archive.encoded("test", settings) if encoded else archive.plain("test")
            if test_kind != kind:
                raise SordinoError(
                    f"{path} holds {kind} training examples but {test_kind} test examples; save them alike."
                )
        columns = {settings.client_column: archive.array(settings.client_column)} if settings.client_column else {}
        return Raw(
            kind=kind,
            train=train,
            test=test,
            class_names=archive.class_names(),
            columns=columns,
            vocabulary=settings.vocabulary if kind == "text" else 0,
        )


class _Archive:
    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path), zipfile.ZipFile(path) as archive:
            self.names = [name.removesuffix(".npy") for name in archive.namelist()]

    def array(self, name: str) -> Array:
        self.header(name)
        with reading(self.path), np.load(self.path, allow_pickle=False) as archive:
            array: Array = archive[name]
            return array

    def header(self, name: str) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
        self._check(name)
        with reading(self.path), zipfile.ZipFile(self.path) as archive, archive.open(f"{name}.npy") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
            self._check_size(name, shape, dtype, held=archive.getinfo(f"{name}.npy").file_size - file.tell())
            return shape, dtype

    def plain(self, split: str) -> tuple[Split, Kind]:
        shape, dtype = self.header(f"x_{split}")
        kind = kind_of(shape, dtype, str(self.path))

        def inputs() -> Array:
            array = self.array(f"x_{split}")
            return images.channels_first(array) if kind == "image" else array

        item = images.channels_first_shape(shape[1:]) if kind == "image" else shape[1:]
        return Split(count=shape[0], shape=item, labels=lambda: self.array(f"y_{split}"), inputs=inputs), kind

    def encoded(self, split: str, settings: SourceSettings) -> tuple[Split, Kind]:
        def files() -> list[bytes]:
            data, cuts = self.array(f"{split}_bytes"), self.array(f"{split}_off")
            if cuts.ndim != 1 or cuts.dtype.kind not in "ui" or len(cuts) < 2:
                raise ValueError(f"{split}_off should list where each image begins and the last one ends")
            return [data[start:stop].tobytes() for start, stop in pairwise(cuts)]

        def inputs() -> Array:
            with reading(self.path):
                return images.decode(files(), resize=settings.resize)

        with reading(self.path):
            shape = images.survey(files())
        shape_of_cuts, _ = self.header(f"{split}_off")
        return Split(
            count=shape_of_cuts[0] - 1, shape=shape, labels=lambda: self.array(f"y_{split}"), inputs=inputs
        ), "image"

    def class_names(self) -> tuple[str, ...]:
        name = next((name for name in ("class_names", "names") if name in self.names), None)
        return tuple(map(str, self.array(name))) if name else ()

    def _check_size(self, name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic], *, held: int) -> None:
        """Refuse an array whose header does not tell the truth, or that memory cannot hold, before any is taken for it."""
        told = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or (told != held and not dtype.hasobject):
            raise SordinoError(
                f"{self.path} is damaged: array {name!r} should have {told} bytes by its shape {shape}, but has {held}; save it again."
            )
        refuse_larger(self.path, held)

    def _check(self, name: str) -> None:
        if name not in self.names:
            raise SordinoError(unknown(f"array in {self.path}", name, self.names))


def kind_of(shape: tuple[int, ...], dtype: np.dtype[np.generic], what: str) -> Kind:
    """What an array of examples holds, by its shape and type."""
    if len(shape) in (3, 4) and dtype == np.uint8:
        return "image"
    if len(shape) == 2 and dtype.kind in "uifb":
        return "text" if dtype in (np.int32, np.int64) else "tabular"
    raise SordinoError(
        f"{what} holds {dtype} examples of shape {shape}; save images as uint8 (N x H x W or N x H x W x C) "
        "and rows of numbers or tokens as N x F."
    )
