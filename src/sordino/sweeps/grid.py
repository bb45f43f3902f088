"""The grid: every case with every combination of values, each with several seeds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sordino.core import SordinoError
from sordino.experiment import Table, override, read_table
from sordino.privacy.streams import stream_id
from sordino.sentences import shown
from sordino.sweeps.axes import read_axes
from sordino.sweeps.cases import Case, merged, take_cases

Point = tuple[str, ...]
"""The `key=value` settings that tell one configuration from another."""


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """A case, where there are cases, and a value on every axis."""

    case: str
    point: Point

    @property
    def settings(self) -> dict[str, str]:
        """What tells this configuration from others, by name."""
        return {**({"case": self.case} if self.case else {}), **dict(one.split("=", 1) for one in self.point)}

    @property
    def label(self) -> str:
        """For a person: `dp-fedavg, epsilon=2`."""
        values = (f"{key.rpartition('.')[2]}={value}" for key, value in self.settings.items() if key != "case")
        return ", ".join([*([self.case] if self.case else []), *values]) or "all"

    @property
    def folder_name(self) -> str:
        """The settings as a folder's name; long ones are cut, and told apart by a digest of the whole."""
        plain = "__".join([*([self.case] if self.case else []), *self.point]) or "all"
        safe = "".join(one if one.isalnum() or one in "._=-" else "-" for one in plain)[:120]
        return safe if safe == plain and set(safe) != {"."} else f"{safe}-{stream_id(plain):x}"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of a sweep, not yet checked."""

    configuration: Configuration
    seed: int
    table: Table
    again: int = 0
    """How often the same run comes before this one, where that makes another run."""

    @property
    def label(self) -> str:
        return f"{self.configuration.label}, seed {self.seed}"

    @property
    def folder(self) -> Path:
        """Where the run lies, below the sweep's folder."""
        again = f"-again-{self.again}" if self.again else ""
        return Path(self.configuration.folder_name) / f"seed-{self.seed}{again}"


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Every case with every combination of the listed values, each with the file's seed, the next one, ...

    Example: `Sweep(table=table, axes={"privacy.epsilon": ["1", "4"]}, seeds=3)` has six cells.
    """

    table: Table
    axes: Mapping[str, Sequence[str]]
    seeds: int
    cases: Sequence[Case] = ()

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise SordinoError(f"A sweep needs at least one seed, but got {self.seeds}; three show the spread.")

    @property
    def first_seed(self) -> int:
        first = self.table.get("seed", 0)
        if not isinstance(first, int):
            raise SordinoError(f"At the top of the file, seed should be a valid integer, but got {shown(first)}.")
        return first

    def configurations(self) -> list[Configuration]:
        points = itertools.product(*([f"{key}={value}" for value in values] for key, values in self.axes.items()))
        names = [case.name for case in self.cases] or [""]
        return [Configuration(case=name, point=point) for name, point in itertools.product(names, points)]

    def cells(self) -> Iterator[Cell]:
        """All runs, seed by seed, so that an interrupted sweep has whole columns."""
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        for seed, configuration in itertools.product(seeds, self.configurations()):
            yield self.cell(configuration, seed)

    def cell(self, configuration: Configuration, seed: int) -> Cell:
        table = {**self.table, "seed": seed}
        for case in self.cases:
            if case.name == configuration.case:
                table = merged(table, case.settings)
        for setting in configuration.point:
            override(table, setting)
        return Cell(configuration=configuration, seed=seed, table=table)


def read_sweep(path: Path, overrides: tuple[str, ...], *, over: Sequence[str], seeds: int) -> Sweep:
    """A sweep from an experiment file, its `[[case]]` tables and `--over` texts."""
    table = read_table(path, overrides)
    cases = take_cases(table)
    return Sweep(table=table, axes=read_axes(over), seeds=seeds, cases=cases)
