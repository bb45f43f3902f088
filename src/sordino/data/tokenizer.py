"""Tokens by a file that somebody made of public text: a plain list of words, or a Hugging Face `tokenizer.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core import SordinoError
from sordino.data.beside import beside
from sordino.data.text import PADDING, first_words, token_numbers
from sordino.sentences import first_line

LARGEST = 64 << 20
"""Bytes of a tokenizer's file."""


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """The file's content, which a run keeps, so that predictions need no file. It is public, as all of [data.options]."""

    file: str
    """Its name, for sentences; how it ends says what it is."""
    content: str

    @property
    def is_list(self) -> bool:
        return not self.file.endswith(".json")

    @property
    def vocabulary(self) -> int:
        """How many numbers tokens have: 0 is padding, then the file's own, and of a list one more for any other word."""
        return 1 + (len(self._words) + 1 if self.is_list else self._library.get_vocab_size())

    def numbers(self, texts: Sequence[str], *, length: int) -> NDArray[np.int64]:
        """The first `length` tokens of each text, padded with 0."""
        found = np.full((len(texts), length), PADDING, np.int64)
        for row, tokens in enumerate(self._listed(texts, length) if self.is_list else self._encoded(texts)):
            first = tokens[:length]
            found[row, : len(first)] = np.array(first, np.int64) + 1
        return found

    def _listed(self, texts: Sequence[str], length: int) -> list[list[int]]:
        other = len(self._words)
        return [[self._words.get(word, other) for word in first_words(text, length)] for text in texts]

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoded.ids for encoded in self._library.encode_batch(list(texts))]

    @cached_property
    def _words(self) -> Mapping[str, int]:
        lines = [line.strip() for line in self.content.splitlines()]
        words = [line.lower() for line in lines if line]
        if not words:
            raise SordinoError(f"{self.file} should list one word a line, but it is empty; list the words.")
        pieces = next((word for word in words if word.startswith("##")), None)
        if pieces is not None:
            raise SordinoError(
                f"{self.file} should list whole words, but got the piece {pieces!r}; use the tokenizer.json that goes with it."
            )
        return {word: number for number, word in enumerate(dict.fromkeys(words))}

    @cached_property
    def _library(self) -> Any:
        if find_spec("tokenizers") is None:
            raise SordinoError(
                f"{self.file} needs the package tokenizers, which is not installed; pip install 'sordino[text]', or name a plain list of "
                "words."
            )
        from tokenizers import Tokenizer as Library

        try:
            found = Library.from_str(self.content)
        except Exception as error:
            raise SordinoError(
                f"{self.file} should be a tokenizer.json of Hugging Face, but it cannot be read ({first_line(error)}); save it again with "
                "tokenizer.save(...)."
            ) from error
        found.no_padding()
        found.no_truncation()
        return found


def numbered(texts: Sequence[str], *, vocabulary: int, length: int, tokenizer: Tokenizer | None) -> NDArray[np.int64]:
    """Texts as token numbers: by a tokenizer, or where there is none by hashes."""
    if tokenizer is None:
        return token_numbers(texts, vocabulary=vocabulary, length=length)
    return tokenizer.numbers(texts, length=length)


def named_tokenizer(name: str | None) -> Tokenizer | None:
    """The tokenizer that an experiment names, beside its file or by a path."""
    return None if name is None else read_tokenizer(beside(name))


def read_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer's file; one that cannot be read is refused."""
    try:
        size = path.stat().st_size
        content = path.read_text(encoding="utf-8") if size <= LARGEST else ""
    except (OSError, UnicodeDecodeError) as error:
        raise SordinoError(
            f"[data.options] tokenizer names {str(path)!r}, but it cannot be read ({first_line(error)}); check the path."
        ) from error
    if size > LARGEST:
        raise SordinoError(
            f"[data.options] tokenizer names {str(path)!r} of {size >> 20} MB; use one of at most 64 MB."
        )
    found = Tokenizer(file=path.name, content=content)
    _ = found.vocabulary
    return found
