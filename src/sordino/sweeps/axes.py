"""What `--over key=v1,v2` says."""

from __future__ import annotations

from collections.abc import Sequence

from sordino.core import SordinoError


def read_axes(texts: Sequence[str]) -> dict[str, list[str]]:
    """From `key=v1,v2` to values by key; commas inside brackets, braces or quotes do not split."""
    axes = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not key or not values:
            raise SordinoError(
                f"--over takes key=v1,v2,..., but got {text!r}; write for instance --over privacy.epsilon=1,4."
            )
        axes[key] = _split(values)
    return axes


def _split(text: str) -> list[str]:
    parts, depth, quoted, current = [], 0, "", ""
    for character in text:
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "'\"":
            quoted = character
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth == 0 and not quoted:
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current]
