"""What is audited or attacked: an experiment as a file describes it, or as a run was begun with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sordino.audit.planting.known import Declared
from sordino.core import SordinoError
from sordino.engine.record import RunRecord
from sordino.engine.tariff import Multipliers
from sordino.experiment import Experiment, read
from sordino.experiment import experiment as checked


@dataclass(frozen=True, kw_only=True)
class Target:
    """An experiment, where its paths begin, and the noise that a run of it has settled on."""

    experiment: Experiment
    folder: Path
    settled: Multipliers | None = None
    run: Path | None = None
    declared: Declared = ()
    """What real nodes said of their rows when a run of it began."""

    def place(self, room: str) -> Path:
        """Where what is found is written: beside the run, or in a room of its own."""
        return self.run or Path(room) / self.experiment.name


def read_target(path: Path, overrides: tuple[str, ...] = ()) -> Target:
    """From a file with overrides, or from the folder of a run, which takes none."""
    if not path.is_dir():
        return Target(experiment=read(path, overrides), folder=path.resolve().parent)
    if overrides:
        raise SordinoError(
            f"A run was made with its own settings, but got --set {overrides[0]} for {path}; name an experiment file instead."
        )
    begun = RunRecord(path).read_experiment()
    return Target(
        experiment=checked(begun["experiment"]),
        folder=Path(begun["facts"]["folder"]),
        settled=Multipliers.from_json(begun["facts"]),
        run=path,
        declared=tuple(begun["facts"].get("nodes", ())),
    )
