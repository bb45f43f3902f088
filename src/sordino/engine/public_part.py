"""What plans and runs say of a set that is used in part: how many rows are left, who uses the others, and which clients have none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from sordino.data.locate import locate, same_source
from sordino.data.public import public_settings
from sordino.data.settings import PartOfSet, SourceSettings
from sordino.data.source import describe
from sordino.engine.public_sets import ANCHORS
from sordino.engine.resolved import Resolved


class Known(Protocol):
    """What is known of a source, loaded or not."""

    @property
    def part(self) -> PartOfSet | None: ...


def part_facts(resolved: Resolved, source: Known, *, folder: Path) -> dict[str, str]:
    """One line of a plan, where `public_share` or `rows` leaves rows out of the training."""
    part = source.part
    if part is None:
        return {}
    seed = resolved.experiment.seed
    uses = [f"{who} {describe(settings, seed=seed).n_train:,} of them" for who, settings in _users(resolved)]
    uses += ["the start's file was trained on public rows of that set"] if _begins_with(resolved, folder) else []
    sizes = f"{part.rows:,} of {part.rows + part.left_out:,} training rows are {_ours(resolved)}, {part.left_out:,} {_others(resolved)}"
    return {"part of the set": f"{sizes}; {' and '.join(uses) or 'nothing in this experiment learns from them'}"}


def warnings_about_part(resolved: Resolved, source: Known, *, folder: Path) -> list[str]:
    """What must be said where a set is divided: rows that train nobody, and clients that are gone."""
    part, data = source.part, resolved.experiment.data
    if part is None or data.visibility == "public":
        return []
    warnings = []
    key = "rows" if resolved.source.public_share is None else "public_share"
    if not _begins_with(resolved, folder) and next(_users(resolved), None) is None:
        warnings.append(
            f"{part.left_out:,} training rows of {data.source!r} are {_others(resolved)} and train nobody, because neither [start] data "
            f"nor a mechanism uses that set; name it there as public, with {key}, or leave {key} out of [data.options]."
        )
    gone = part.without.get(resolved.source.client_column or "", 0)
    if gone:
        warnings.append(
            f"{gone} of the clients in column {resolved.source.client_column!r} {'has' if gone == 1 else 'have'} no row in the private "
            f"part of {data.source!r}, and {'is' if gone == 1 else 'are'} no client of this run."
        )
    return warnings


def _ours(resolved: Resolved) -> str:
    return resolved.experiment.data.visibility


def _others(resolved: Resolved) -> str:
    """What the rows are that are left out."""
    settings = resolved.source
    if settings.rows is not None:
        return f"outside rows = {list(settings.rows)}"
    return f"{'public' if settings.visibility == 'private' else 'private'} (public_share = {settings.public_share})"


def _begins_with(resolved: Resolved, folder: Path) -> bool:
    """Whether the weights of the start's file say that they were trained on a public set of this name."""
    name = locate(resolved.source.source).name
    return any(one.free and one.name == name for one in resolved.start.lineage(folder))


def _users(resolved: Resolved) -> Iterator[tuple[str, SourceSettings]]:
    """Who learns from another part of the same set."""
    needed = resolved.mechanism.public_examples()
    tables = (
        ("the start learns from", "start.data", resolved.start.public_data),
        ("anchors are drawn from", ANCHORS, None if needed is None else needed.source),
    )
    for who, where, table in tables:
        settings = None if table is None else public_settings(table, shape=(), where=where)
        if settings is not None and same_source(resolved.source.source, settings.source):
            yield who, settings
