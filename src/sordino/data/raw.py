"""What a format hands over: sizes at once, labels and inputs only when they are asked for."""

from __future__ import annotations

import lzma
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from sordino.core import SordinoError
from sordino.data.columns import Column
from sordino.data.settings import Kind, SourceSettings
from sordino.data.tokenizer import Tokenizer
from sordino.sentences import first_line

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Split:
    """One split of a source; a plan reads `count` and `shape` without touching an example."""

    count: int
    shape: tuple[int, ...]
    labels: Callable[[], Array]
    inputs: Callable[[], Array]


@dataclass(frozen=True, kw_only=True)
class Raw:
    """A source as its format reads it. Labels may be numbers, or words to be looked up among the class names."""

    kind: Kind
    train: Split
    test: Split | None = None
    classes: int | None = None
    class_names: tuple[str, ...] = ()
    columns: Mapping[str, Array] = field(default_factory=dict)
    vocabulary: int = 0
    tokenizer: Tokenizer | None = None
    """How texts became numbers, where a file says so."""
    layout: Mapping[str, Column] = field(default_factory=dict)
    """Of a table: the columns that are learnt from, as they were declared or found."""
    notes: tuple[str, ...] = ()
    """What a person should know before trusting a run on it."""
    guessed: tuple[str, ...] = ()
    """Columns of a private table whose words were taken from its rows, because nobody declared them."""


class Format(Protocol):
    """A way of keeping data on disk. The first format that accepts a path reads it."""

    @staticmethod
    def accepts(path: Path) -> bool: ...

    @staticmethod
    def read(path: Path, settings: SourceSettings) -> Raw: ...


_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    IndexError,
    SyntaxError,
    AttributeError,
    TypeError,
    ArithmeticError,
    ImportError,
    MemoryError,
    RuntimeError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    pickle.UnpicklingError,
)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file makes a parser raise into one sentence."""
    try:
        yield
    except _DAMAGE as error:
        raise SordinoError(
            f"{path} cannot be read, it may be damaged or of another format ({first_line(error)}); fetch or save it again."
        ) from error


def in_memory(inputs: Array, labels: Array) -> Split:
    """A split that has been read already."""
    return Split(count=len(inputs), shape=inputs.shape[1:], labels=lambda: labels, inputs=lambda: inputs)
