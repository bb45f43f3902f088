"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sordino.core import SordinoError


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn a failing disk into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise SordinoError(
                f"There is no room left to write {path}; everything up to the last completed round is kept, "
                "so free some space and use --resume."
            ) from error
        raise SordinoError(f"{path} cannot be written ({error.strerror}); choose another --out folder.") from error


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file in one step: after a crash it holds the old content or the new, never a part."""
    fresh = path.with_name(path.name + ".tmp")
    with disk_errors(path):
        try:
            with fresh.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON: an infinite ε is written as the string "inf"."""
    return json.dumps(_plain(value), ensure_ascii=False, indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
