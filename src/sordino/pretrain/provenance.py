"""Where weights come from: what a run writes into its model's file, and what a start must read there.

A model that was trained on private data is private data, made public at the ε of its run. Whoever starts from it spends that ε
again, and no ledger but that run's knows of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from sordino.core import SordinoError
from sordino.data.locate import identity, locate
from sordino.data.settings import SourceSettings
from sordino.files import to_json, write_whole

KEY = "sordino-provenance"
PUBLIC = ("name", "visibility", "unit", "epsilon", "delta")
IDENTITY_FILE = "private-data-identity.json"
"""Beside a run's model and never in it: a digest of private rows would tell anybody who guesses them that the guess is right."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """One training that went into a model. All but `place` and `digest` is public, and these are known only where the run's folder is."""

    name: str
    visibility: str
    unit: str
    epsilon: float
    """In the public view."""
    delta: float
    place: str = ""
    """What the data set is wherever its name leads: an embedded name, or a path."""
    digest: str = ""

    @property
    def free(self) -> bool:
        return self.visibility == "public"


@dataclass(frozen=True, kw_only=True)
class PrivateData:
    """What a start may know of the private set: its settings, and where rows have been loaded a digest of them."""

    settings: SourceSettings
    digest: Callable[[], str] | None = None

    def is_that_of(self, other: Provenance) -> bool:
        """By place or by rows, or by name where neither is known."""
        return self.is_known_as(other) if other.place else self.name == other.name

    def is_known_as(self, other: Provenance) -> bool:
        """By place or by rows, which are known only where the other run's folder is."""
        if other.place and identity(self.settings.source) == other.place:
            return True
        return bool(other.digest) and self.digest is not None and self.digest() == other.digest

    @property
    def name(self) -> str:
        return locate(self.settings.source).name


def provenance(
    data: SourceSettings, *, unit: str, epsilon: float, delta: float, ancestors: Sequence[Provenance] = ()
) -> dict[str, str]:
    """What the file of a model that was trained on these data is to carry, with all that its start came from."""
    name = locate(data.source).name
    own = Provenance(name=name, visibility=data.visibility, unit=unit, epsilon=epsilon, delta=delta)
    return {KEY: to_json([{key: getattr(one, key) for key in PUBLIC} for one in (own, *ancestors)])}


def keep_identity(folder: Path, data: SourceSettings, digest: str) -> None:
    """Leave in a run's folder which rows it was, for whoever starts another run from there."""
    content = {"place": identity(data.source), "digest": digest}
    write_whole(folder / IDENTITY_FILE, to_json(content, indent=2).encode())


def start_provenance(path: Path) -> tuple[Provenance, ...]:
    """What the weights in a file were trained on, last training first; nothing where nobody can tell.

    It is read in the file itself, or in the run folder that the file lies in.
    """
    path = path.resolve()
    found = _in_file(path) or _in_folder(_run_folder(path))
    if not found:
        return ()
    place, digest = _identity(_run_folder(path))
    return (replace(found[0], place=place, digest=digest), *found[1:])


def lineage_warnings(path: Path, lineage: Iterable[Provenance], private: PrivateData) -> list[str]:
    """What must be said of a start from this file.

    Formal guarantee: refuses weights that were trained on this run's private data, or on any private data without a finite ε.
    What is left was trained on public data, or on other private data at an ε that is named here.
    """
    warnings = []
    for one in lineage:
        if one.free:
            _refuse_two_minds(path, one, private)
            continue
        if not math.isfinite(one.epsilon):
            raise SordinoError(
                f"The start {path} was trained on private data ({one.name!r}) without a finite ε in the public view, so nothing that "
                "begins there is private; use a public start, or train it again with noise."
            )
        if private.is_that_of(one):
            raise SordinoError(
                f"The start {path} was trained on the same rows as this run ({one.name!r}), at ε = {one.epsilon:.4g} in the public view; "
                "that cost is not in this run's ledger; use a public start."
            )
        price = f"ε = {one.epsilon:.4g}, δ = {one.delta:g} for each {one.unit} in the public view"
        warnings.append(
            f"The start {path} was trained on private data ({one.name!r}) at {price}. That cost is not in this run's ledger: whoever "
            "is in both sets pays both."
        )
    return warnings


def _refuse_two_minds(path: Path, one: Provenance, private: PrivateData) -> None:
    """Rows cannot be public in one run and private in the next that begins with its model."""
    if private.settings.visibility == "private" and private.is_known_as(one):
        raise SordinoError(
            f"The start {path} was trained on the same rows as this run ({one.name!r}), where they were declared public; they are "
            "private here, so use another start, or set [data] visibility = 'public'."
        )


def _in_file(path: Path) -> tuple[Provenance, ...]:
    if path.suffix != ".safetensors" or not path.is_file():
        return ()
    with _readable(path):
        with safe_open(path, framework="pt") as file:
            written = (file.metadata() or {}).get(KEY)
        return tuple(_read(entry) for entry in json.loads(written)) if written else ()


def _run_folder(path: Path) -> Path:
    """Where the record of the run lies: beside the model, or around the part of it that may be published."""
    return path.parent.parent if path.parent.name == "release" else path.parent


def _in_folder(folder: Path) -> tuple[Provenance, ...]:
    """The run that this folder records; one without a summary has no ε that could be named."""
    if not (folder / "experiment.json").is_file():
        return ()
    with _readable(folder):
        data = _json(folder / "experiment.json")["experiment"]["data"]
        summary = _json(folder / "summary.json") if (folder / "summary.json").is_file() else {}
        public = summary.get("epsilon", {}).get("public", {})
        entry = {
            "name": Path(data["source"]).name.split(".")[0],
            "visibility": data["visibility"],
            "unit": summary.get("unit", "unit"),
            "epsilon": public.get("epsilon", "inf"),
            "delta": public.get("delta", 0.0),
        }
        return (_read(entry),)


def _identity(folder: Path) -> tuple[str, str]:
    if not (folder / IDENTITY_FILE).is_file():
        return "", ""
    with _readable(folder):
        content = _json(folder / IDENTITY_FILE)
        return str(content["place"]), str(content["digest"])


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def _readable(place: Path) -> Iterator[None]:
    """A record that cannot be read is not a record of public data."""
    try:
        yield
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise SordinoError(
            f"What the weights in {place} were trained on cannot be read ({error}), so what they cost is unknown; use a public start."
        ) from error


def _read(entry: dict[str, Any]) -> Provenance:
    texts = {key: str(entry[key]) for key in ("name", "visibility", "unit")}
    epsilon = float(entry["epsilon"])
    return Provenance(**texts, epsilon=epsilon if epsilon >= 0 else math.inf, delta=float(entry["delta"]))
