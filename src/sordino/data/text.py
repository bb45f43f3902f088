"""Text as token numbers by a fixed public hash, so that no vocabulary is learnt from private data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice

import numpy as np
from numpy.typing import NDArray

PADDING = 0
_TOKEN = re.compile(r"\w+|[^\w\s]")


def token_numbers(texts: Sequence[str], *, vocabulary: int, length: int) -> NDArray[np.int64]:
    """The first `length` lower-case words and signs of each text as numbers from 1 to vocabulary - 1, padded with 0."""
    known: dict[str, int] = {}
    numbers = np.full((len(texts), length), PADDING, np.int64)
    for row, text in enumerate(texts):
        for place, token in enumerate(first_words(text, length)):
            if token not in known:
                known[token] = _number(token, vocabulary)
            numbers[row, place] = known[token]
    return numbers


def first_words(text: str, count: int) -> list[str]:
    """The first lower-case words and signs; what comes after them is not looked at."""
    return [found.group() for found in islice(_TOKEN.finditer(text.lower()), count)]


def _number(token: str, vocabulary: int) -> int:
    digest = blake2b(token.encode(), digest_size=8).digest()
    return 1 + int.from_bytes(digest, "big") % (vocabulary - 1)
