"""Finished runs as comparisons see them: settings, replicate, ε of each view, and figures that may be shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.core import VIEWS, SordinoError, View
from sordino.engine.record import RunRecord, read_summary
from sordino.engine.record_keys import read_published_file
from sordino.files import to_json
from sordino.methods import METHODS
from sordino.methods.personal import Personalised
from sordino.sweeps.results import FILE as SWEEP
from sordino.sweeps.results import read_results

NOT_A_CHOICE = ("name", "seed", "engine.", "privacy.noise_source")
"""Settings that do not tell one configuration from another."""
PRIVACY_LEVEL = ("privacy.epsilon", "privacy.noise_multiplier", "privacy.client_epsilon")
"""Settings that say how private a run is, and not what it does."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One finished run. Of a secure one, only what may be published."""

    folder: Path
    settings: Mapping[str, Any]
    """Every setting that tells configurations apart, by dotted name."""
    seed: int
    simulated: bool
    personalised: bool
    unit: str
    neighbours: str
    delta: float
    epsilon: Mapping[View, float]
    accuracy: float | None
    """Of the shared model."""
    own_mix: float | None
    """Mean over clients, each tested in its own mix of labels: outside every ε, and known of simulations alone."""
    auroc: float | None
    rmse: float | None
    mae: float | None
    """Of a number, in its own unit."""
    seconds: float | None
    """Time and traffic tell of the cohort, so a secure run does not show them."""
    bytes_up: int | None
    bytes_down: int | None

    @property
    def method(self) -> str:
        return str(self.settings["method.name"])

    @property
    def promises_nothing(self) -> bool:
        return all(value == float("inf") for value in self.epsilon.values())

    @property
    def key(self) -> str:
        """The same for runs that differ in nothing but the seed."""
        return to_json({"settings": self.settings})


def read_view(name: str) -> View:
    """A view by its name."""
    for view in VIEWS:
        if view == name:
            return view
    raise SordinoError(f"--view takes {', '.join(VIEWS)}, but got {name!r}; choose one of them.")


def find_runs(folders: Sequence[Path]) -> list[Run]:
    """The finished runs in these folders: each a run, a sweep, or a folder with runs somewhere below."""
    places = {place.resolve(): place for folder in folders for place in _places(folder)}
    cases = {place: case for folder in folders for place, case in _cases(folder)}
    return [read_run(place, case=cases.get(resolved, "")) for resolved, place in places.items()]


def _cases(folder: Path) -> Iterator[tuple[Path, str]]:
    """The runs of a sweep by the names that its file gives to cases; a run that several share goes by the first."""
    rows = read_results(folder)["rows"] if (folder / SWEEP).exists() else []
    for row in reversed(rows):
        if "case" in row["settings"]:
            yield from (((folder / place).resolve(), row["settings"]["case"]) for place in row["runs"])


def _places(folder: Path) -> Iterator[Path]:
    if (folder / "summary.json").exists():
        yield folder
        return
    found = [path.parent for path in sorted(folder.rglob("summary.json")) if path.parent.name != "release"]
    if not found:
        raise SordinoError(
            f"{folder} holds no finished run, and no folder below it does; give folders that `run` or `sweep` wrote."
        )
    yield from found


def read_run(folder: Path, *, case: str = "") -> Run:
    """A finished run, by the name of its case in a sweep if it has any; of a secure one, the figures of `release/`."""
    record = RunRecord(folder)
    found = record.read_experiment()
    begun = found.get("resolved", found["experiment"])
    simulated = begun["privacy"]["noise_source"] == "seeded"
    summary = read_summary(folder) if simulated else read_published_file(record.release / "summary.json")
    own = summary.get("non_private_diagnostics", {}).get("non_private_clients")
    return Run(
        folder=folder,
        settings={**({"case": case} if case else {}), **_settings(begun)},
        seed=begun["seed"],
        simulated=simulated,
        personalised=_has(begun["method"]["name"], lambda build: issubclass(build, Personalised)),
        unit=summary["unit"],
        neighbours=summary["neighbours"],
        delta=summary["epsilon"]["public"]["delta"],
        epsilon={view: float(summary["epsilon"][view]["epsilon"]) for view in VIEWS},
        accuracy=summary["accuracy"],
        own_mix=own["mean"] if own else None,
        auroc=summary.get("auroc"),
        rmse=summary.get("rmse"),
        mae=summary.get("mae"),
        seconds=summary.get("seconds"),
        bytes_up=summary.get("bytes_up"),
        bytes_down=summary.get("bytes_down"),
    )


def _settings(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """By dotted name; where nothing is noised, without the level of a privacy that is not there."""
    flat = {key: value for key, value in _flat(experiment) if not key.startswith(NOT_A_CHOICE)}
    if _has(experiment["method"]["name"], lambda build: build.protected is False):
        return {key: value for key, value in flat.items() if key not in (*PRIVACY_LEVEL, "privacy.clip_norm")}
    return flat


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _has(method: str, question: Any) -> bool:
    """Whether a method that is known here answers a question about its class with yes."""
    return any(member.name == method and question(member.build) for member in METHODS)
