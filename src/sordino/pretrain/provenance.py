"""Where weights come from: what runs and pre-trainings write into a model's file, and what a start must read there.

A model that was trained on private data is private data, made public at the ε of its run. Whoever starts from it spends that ε
again, and no ledger but that run's knows of it. A model that was trained on public data is free, unless these data are private
where it is used; so its file says which rows they were. Of private rows it says nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from sordino.core import SordinoError
from sordino.data.held import is_held
from sordino.data.locate import AT_NODES, identity, locate
from sordino.data.raw import Array
from sordino.data.row_fingerprints import from_text, shared
from sordino.data.row_pool import parts_of_one_set
from sordino.data.settings import SourceSettings
from sordino.data.source import Source
from sordino.files import to_json, write_whole
from sordino.pretrain.kept_fingerprints import kept_fingerprints
from sordino.pretrain.store import RECORD

KEY = "sordino-provenance"
PUBLIC = ("name", "visibility", "unit", "epsilon", "delta")
OF_PUBLIC_ROWS = ("place", "public_share", "row_range", "rows")
IDENTITY_FILE = "private-data-identity.json"
"""Beside a run's model and never in it: a digest of private rows would tell anybody who guesses them that the guess is right."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """One training that went into a model.

    Of private data all but `place` and `digest` is public, and these are known only where the run's folder is. Of public data
    everything is, and is written into the model's file.
    """

    name: str
    visibility: str
    unit: str
    epsilon: float
    """In the public view."""
    delta: float
    place: str = ""
    """A digest of what the data set is wherever its name leads, an embedded name or a path: paths of a machine are its owner's."""
    digest: str = ""
    public_share: float | None = None
    row_range: tuple[int, int] | None = None
    """Which part of the set it was, as `public_share` and `rows` in [data.options] say it."""
    rows: str = field(default="", repr=False)
    """Fingerprints of public rows."""

    @property
    def free(self) -> bool:
        return self.visibility == "public"

    def to_json(self) -> dict[str, Any]:
        written = {key: getattr(self, key) for key in PUBLIC}
        if self.free:
            written.update({key: getattr(self, key) for key in OF_PUBLIC_ROWS if getattr(self, key) not in ("", None)})
        return written


@dataclass(frozen=True, kw_only=True)
class PrivateData:
    """What a start may know of the private set: its settings, and where rows have been loaded digests of them."""

    settings: SourceSettings
    digest: Callable[[], str] | None = None
    fingerprints: Callable[[], Array] | None = None
    """Of all rows that no public set may hold."""

    def is_that_of(self, other: Provenance) -> bool:
        """By place or by rows, or by name where neither is known."""
        return self.is_known_as(other) if other.place or other.rows else self.name == other.name

    def is_known_as(self, other: Provenance) -> bool:
        """By place or by a digest of all rows, which of private rows are known only where the other run's folder is."""
        if other.place and _digest_of_place(identity(self.settings.source)) == other.place:
            return True
        return bool(other.digest) and self.digest is not None and self.digest() == other.digest

    def is_apart_from(self, other: Provenance) -> bool:
        """Whether both say which part of one set they are about, so that no row is in both."""
        part = replace(
            self.settings, visibility="public", public_share=other.public_share, rows=other.row_range, limit=None
        )
        return parts_of_one_set(self.settings, part)

    def shares_rows_with(self, other: Provenance) -> bool:
        """Whether a single row is in both, to the last bit."""
        if not other.rows or self.fingerprints is None:
            return False
        return shared(self.fingerprints(), from_text(other.rows))

    @property
    def name(self) -> str:
        return locate(self.settings.source).name


def provenance(
    data: SourceSettings,
    *,
    unit: str,
    epsilon: float,
    delta: float,
    source: Source | None = None,
    ancestors: Sequence[Provenance] = (),
) -> dict[str, str]:
    """What the file of a model that was trained on these data is to carry, with all that its start came from.

    Rows are looked at in `source` if they are public.
    """
    own = Provenance(name=locate(data.source).name, visibility=data.visibility, unit=unit, epsilon=epsilon, delta=delta)
    if own.free:
        own = replace(
            own,
            place=_digest_of_place(_lasting_identity(data.source)),
            public_share=data.public_share,
            row_range=data.rows,
            rows="" if source is None else kept_fingerprints(source),
        )
    return as_metadata((own, *ancestors))


def public_training(source: Source) -> Provenance:
    """What is known of weights that were trained on this public set."""
    known = Provenance(
        name=source.name,
        visibility="public",
        unit="example",
        epsilon=math.inf,
        delta=0.0,
        rows=kept_fingerprints(source),
    )
    if source.origin is None:
        return known
    data = source.origin.settings
    place = _digest_of_place(_lasting_identity(data.source))
    return replace(known, place=place, public_share=data.public_share, row_range=data.rows)


def as_metadata(lineage: Iterable[Provenance]) -> dict[str, str]:
    """What the file of a model with these trainings is to carry."""
    return {KEY: to_json([one.to_json() for one in lineage])}


def keep_identity(folder: Path, data: SourceSettings, digest: str) -> None:
    """Leave in a run's folder which rows it was, for whoever starts another run from there."""
    content = {"place": identity(data.source), "digest": digest}
    write_whole(folder / IDENTITY_FILE, to_json(content, indent=2).encode())


def start_provenance(path: Path) -> tuple[Provenance, ...]:
    """What the weights in a file were trained on, last training first; nothing where nobody can tell.

    It is read in the file itself, or in the folder of a run or a pre-training that the file lies in.
    """
    path = path.resolve()
    found = _in_file(path) or _in_folder(_run_folder(path))
    if not found:
        return ()
    return (replace(found[0], **_identity(_run_folder(path))), *found[1:])


def lineage_warnings(path: Path, lineage: Iterable[Provenance], private: PrivateData) -> list[str]:
    """What must be said of a start from this file.

    Formal guarantee: refuses weights that were trained on this run's private data, whoever called them public, or on any private
    data without a finite ε. What is left was trained on public data, or on other private data at an ε that is named here.
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
    """Rows cannot be public in one training and private in the next that begins with its model."""
    if private.settings.visibility == "public":
        return
    if private.is_that_of(one) and not private.is_apart_from(one):
        raise SordinoError(
            f"The start {path} was trained on the same rows as this run ({one.name!r}), where they were declared public; they are "
            f"private here, so {_INSTEAD}."
        )
    if private.shares_rows_with(one):
        raise SordinoError(
            f"The start {path} was trained on rows of {one.name!r}, where they were declared public, that are also rows of this run's "
            f"private set {private.name!r}; {_INSTEAD}."
        )


_INSTEAD = (
    "name other weights in [start] path, divide the set with the same public_share, or with rows, in both places, or set [data] "
    "visibility = 'public'"
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
    """The run or the pre-training that this folder records; a run without a summary has no ε that could be named."""
    if (folder / RECORD).is_file():
        return _in_pretraining(folder)
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
            **_part(data.get("options") or {}),
        }
        return (_read(entry),)


def _in_pretraining(folder: Path) -> tuple[Provenance, ...]:
    """The public set that this folder's record names; of what came before it nothing is known."""
    with _readable(folder):
        data = _json(folder / RECORD)["settings"]["data"]
        source = str(data["source"])
        entry = {"name": Path(source).name.split(".")[0], "visibility": data["visibility"], "unit": "example"}
        found = _read({**entry, "epsilon": "inf", "delta": 0.0, **_part(data)})
    try:
        return (replace(found, place=_digest_of_place(_lasting_identity(source))),)
    except SordinoError:
        return (found,)


def _part(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"public_share": data.get("public_share"), "row_range": data.get("rows")}


def _identity(folder: Path) -> dict[str, Any]:
    if not (folder / IDENTITY_FILE).is_file():
        return {}
    with _readable(folder):
        content = _json(folder / IDENTITY_FILE)
        return {"place": _digest_of_place(str(content["place"])), "digest": str(content["digest"])}


def _lasting_identity(source: str) -> str:
    """What a data set is for anybody who looks for it later; nothing where its name means something for this process alone."""
    return "" if is_held(source) or source == AT_NODES else identity(source)


def _digest_of_place(place: str) -> str:
    return blake2b(place.encode(), digest_size=16).hexdigest() if place else ""


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
    texts |= {key: str(entry.get(key, "")) for key in ("place", "rows")}
    from_text(texts["rows"])
    share, span = entry.get("public_share"), entry.get("row_range")
    epsilon = float(entry["epsilon"])
    return Provenance(
        **texts,
        epsilon=epsilon if epsilon >= 0 else math.inf,
        delta=float(entry["delta"]),
        public_share=None if share is None else float(share),
        row_range=None if span is None else (int(span[0]), int(span[1])),
    )
