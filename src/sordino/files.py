"""Files that are there whole or not at all, rows that are added whole or not at all, and folders that one process holds."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sordino.core import SordinoError

NEW_FILE = 0o666
"""Permissions of a new file, before the user's own mask."""
SECRET_FILE = 0o600
"""Permissions of a file that is its owner's alone."""


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


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are missing."""
    with disk_errors(path):
        path.mkdir(parents=True, exist_ok=True)


def write_whole(path: Path, content: bytes, *, mode: int = NEW_FILE) -> None:
    """Replace a file in one step: after a crash it holds the old content or the new, never a part.

    The new content lies under a name of its own until it is whole, so that processes which write the same file at the same
    time do not meet. A process that is killed leaves that file behind; `remove_unfinished` takes it away.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    with disk_errors(path):
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            try:
                _write_all(descriptor, content)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(fresh, path)
        except BaseException:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise


def remove_unfinished(folder: Path) -> None:
    """Take away what killed writers left; only for a folder that is locked, where nobody else can be writing."""
    for path in folder.glob(".*.tmp"):
        with suppress(OSError):
            path.unlink()


def append_row(path: Path, row: bytes, *, durable: bool, length: int | None = None) -> int:
    """Add one row to a file, all of it or nothing, and return the file's new length in bytes.

    Nothing is buffered: if the disk refuses, or somebody interrupts, the file is cut back to what it was. With `durable` the
    row is on disk when this returns. A file that has not the `length` that the caller left it with is not touched.
    """
    with disk_errors(path):
        made = os.O_CREAT if length is None else 0
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | made, NEW_FILE)
        try:
            before = os.fstat(descriptor).st_size
            if length not in (None, before):
                raise SordinoError(
                    f"{path} should have {length} bytes, but got {before}: somebody else has changed it while it was in use; "
                    "restore the folder from a copy."
                )
            try:
                _write_all(descriptor, row)
                if durable:
                    os.fsync(descriptor)
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(descriptor, before)
                    os.fsync(descriptor)
                raise
        finally:
            os.close(descriptor)
    return before + len(row)


def whole_rows(content: bytes) -> bytes:
    """What is left of a file of rows without a last one that was cut short."""
    return content[: content.rfind(b"\n") + 1]


@contextmanager
def locked(path: Path, *, busy: str | None = None) -> Iterator[None]:
    """Hold the exclusive lock on this file, which is made for it; the system releases it if the process dies.

    Where another process holds it: with `busy`, refuse with that sentence; without, wait.
    """
    with disk_errors(path):
        descriptor = _take_lock(path, busy)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink(
                missing_ok=True
            )  # while the lock is held; who waits on the old file finds it gone and tries again
        os.close(descriptor)


def _take_lock(path: Path, busy: str | None) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, NEW_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
            if _is_still(path, descriptor):
                return descriptor
        except BlockingIOError as error:
            os.close(descriptor)
            raise SordinoError(busy) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the path names the file that was opened, or a newer one after the old was taken away."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


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
