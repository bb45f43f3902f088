"""Finding a data set by name or by path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sordino.core import SordinoError, unknown
from sordino.data.beside import beside
from sordino.data.embedded import EMBEDDED
from sordino.data.formats import FORMATS
from sordino.data.held import is_held
from sordino.sentences import first_line, shown

FOLDER_VARIABLE = "SORDINO_DATA"
AT_NODES = "nodes"
"""The source of an experiment whose rows lie with real nodes, each of which names its own file."""


@dataclass(frozen=True, kw_only=True)
class KnownSource:
    """A data set that can be called by name; one without a path is embedded."""

    name: str
    format: str
    path: Path | None


def data_folder() -> Path:
    """$SORDINO_DATA, or ~/.cache/sordino."""
    if told := os.environ.get(FOLDER_VARIABLE):
        return Path(told)
    try:
        return Path.home() / ".cache" / "sordino"
    except RuntimeError as error:
        raise SordinoError(
            f"There is no home folder to keep data in; set the environment variable {FOLDER_VARIABLE}."
        ) from error


def known() -> list[KnownSource]:
    """Every data set that has a name: the embedded ones and those in the data folder."""
    embedded = [KnownSource(name=name, format="embedded", path=None) for name in EMBEDDED]
    folder = _stored()
    with _looking_at(folder):
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        found = [
            KnownSource(name=_name(file), format=format_name, path=file)
            for file in files
            if not file.name.startswith(".") and (format_name := _format_name(file))
        ]
    return embedded + found


def locate(source: str) -> KnownSource:
    """The data set meant by `source`: an embedded name, a path, a name in the data folder, or an object in memory."""
    if is_held(source):
        return KnownSource(name=source, format="memory", path=None)
    if source == AT_NODES:
        return KnownSource(name=AT_NODES, format="elsewhere", path=None)
    if source in EMBEDDED:
        return KnownSource(name=source, format="embedded", path=None)
    with _looking_at(source):
        return _found(source)


def identity(source: str) -> str:
    """What a data set is, wherever its name leads: an embedded name, or a file's own place on the disk."""
    found = locate(source)
    return found.name if found.path is None else str(found.path.resolve())


def same_source(one: str, other: str) -> bool:
    """Whether two names or paths mean the same data set."""
    first, second = locate(one), locate(other)
    if first.path is None or second.path is None:
        return first == second
    with _looking_at(one):
        return first.path.samefile(second.path)


@contextmanager
def _looking_at(place: object) -> Iterator[None]:
    """Turn a path that the system will not look at into a sentence: too long, with a zero byte, not ours to read."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        raise SordinoError(
            f"A data set was looked for at {shown(str(place))}, but that failed ({first_line(error)}); check the path or the name."
        ) from error


def _stored() -> Path:
    """The data folder; without a home there is none, and a name that nobody has stands for it."""
    try:
        return data_folder()
    except SordinoError:
        return Path(os.devnull) / "sordino"


def _found(source: str) -> KnownSource:
    path, stored = Path(source).expanduser(), _stored() / source
    there = beside(path)
    looks_like_path = len(Path(source).parts) > 1 or bool(path.suffix)
    named = [] if looks_like_path else [entry for entry in known() if entry.name == source]
    if len(named) > 1:
        raise SordinoError(f"{source!r} could be {' or '.join(str(entry.path) for entry in named)}; give the path.")
    if named:
        return named[0]
    existing = next((place for place in (there, path, stored) if place.exists()), None)
    if existing is not None:
        return _recognise(existing)
    if "://" in source:
        raise SordinoError(
            f"[data] source {shown(source)} is an address, and nothing is fetched; save the file, and name its path."
        )
    if looks_like_path:
        raise SordinoError(
            f"There is no file or folder {shown(str(there))}; check the path, or put it into {_stored()} (${FOLDER_VARIABLE})."
        )
    raise SordinoError(unknown("data set", source, {entry.name for entry in known()}))


def _recognise(path: Path) -> KnownSource:
    format_name = _format_name(path)
    if format_name is None and path.is_dir():
        raise SordinoError(
            f"{path} has no class sub-folders and no known data files; make one sub-folder of images for each class."
        )
    if format_name is None:
        raise SordinoError(
            f'{path} is of no known format; save a table as .csv or .parquet (spreadsheets have that under "save as"), arrays as .npz, '
            "and images in a folder with one sub-folder for each class."
        )
    return KnownSource(name=_name(path), format=format_name, path=path)


def _format_name(path: Path) -> str | None:
    """The first format that accepts a path, ours before those of installed packages."""
    own = next((member.name for member in FORMATS if member.build.accepts(path)), None)
    return own or next((one.name for one in FORMATS.guests() if one.build and one.build.accepts(path)), None)


def _name(path: Path) -> str:
    return path.name if path.is_dir() else path.name.split(".")[0]
