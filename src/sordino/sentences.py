"""Strangers' words inside our sentences: values and other libraries' errors, on one line and cut where they are long."""

from __future__ import annotations

from collections.abc import Iterable

DECORATOR = "@dataclass(frozen=True, kw_only=True)"
"""What stands above the class of every part."""
LONGEST_SHOWN = 200
"""Characters of a value that an error message shows."""


def shown(value: object) -> str:
    """A value as a sentence shows it."""
    return _cut(repr(value))


def listed(names: Iterable[object], most: int = 12) -> str:
    """Names as a sentence lists them, the first few where there are many."""
    words = [str(name) for name in names]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return _cut(", ".join(words[:most]) + more)


def with_article(word: str) -> str:
    """A word after "a", or after "an" where it begins with a vowel."""
    return f"an {word}" if word[0] in "aeiouAEIOU" else f"a {word}"


def first_line(error: BaseException) -> str:
    """What an error of another library says, as a part of a sentence."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines()
    return _cut(lines[0].rstrip(".") if lines else type(error).__name__)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"
