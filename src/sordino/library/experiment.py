"""An experiment as an object: the same fields as the file, with data and models that a program holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from sordino.core import SordinoError
from sordino.data.held import holding as holding_data
from sordino.engine.plan import Plan, make_plan
from sordino.engine.run import run_experiment
from sordino.experiment import EngineSection, PrivacySection, read_table
from sordino.experiment import Experiment as Checked
from sordino.experiment import experiment as checked
from sordino.library.callbacks import OnRound, watching
from sordino.library.data import Data
from sordino.library.result import Result
from sordino.methods import METHODS
from sordino.models import MODELS
from sordino.outside import HELD_MODULE, holding, maker
from sordino.pretrain import STARTS
from sordino.settings import validated
from sordino.tuning import TUNINGS

if TYPE_CHECKING:
    from sordino.registry import Registry


class Privacy(PrivacySection):
    __doc__ = PrivacySection.__doc__

    if not TYPE_CHECKING:  # editors complete the settings of the section

        def __init__(self, **settings: Any) -> None:
            with _sentences(PrivacySection, settings, "privacy"):
                super().__init__(**settings)


class Engine(EngineSection):
    __doc__ = EngineSection.__doc__

    if not TYPE_CHECKING:

        def __init__(self, **settings: Any) -> None:
            with _sentences(EngineSection, settings, "engine"):
                super().__init__(**settings)


@contextmanager
def _sentences(kind: type[BaseModel], settings: Mapping[str, Any], where: str) -> Iterator[None]:
    """What is wrong with a section's settings, in the words that a file gets."""
    try:
        yield
    except ValidationError:
        validated(kind, settings, where=where)
        raise


Part = str | Mapping[str, Any] | object
"""A member of an axis: its name, a table with name and settings, an object of its class, or a class of one's own."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """One private federated run, described whole. `plan()` says what it will promise, `run()` runs it.

    Args:
        rounds: how many rounds there are.
        data: `Data(...)`, the path or name of a data set, or a table as in [data] of a file.
        model: "mlp" and the like, a table, a torch.nn.Module (its weights are the first ones), or a function of (shape, classes).
        method: "dp-sgd" protects examples, "dp-fedavg" clients, "fedavg" nobody; `sordino methods` lists all.
        privacy: `Privacy(epsilon=3.0, delta=1e-5, view="server")`, or a table.
        start, tuning, clients, engine: as in a file.
        name: of the run and of its folder.
        seed: of everything that is drawn, except secure noise.
        folder: where relative paths begin; the current folder where none is given.

    Example:
        `Experiment(rounds=60, data=Data(frame, label="outcome"), privacy=Privacy(epsilon=3.0)).run()`
    """

    rounds: int
    data: Data | str | Mapping[str, Any]
    model: Part = "mlp"
    method: Part = "dp-sgd"
    privacy: PrivacySection | Mapping[str, Any] = field(default_factory=dict)
    start: Part = "scratch"
    tuning: Part = "full"
    clients: Mapping[str, Any] = field(default_factory=dict)
    engine: EngineSection | Mapping[str, Any] = field(default_factory=dict)
    name: str = "experiment"
    seed: int = 0
    folder: str | Path | None = None

    @classmethod
    def from_file(cls, path: str | Path, *overrides: str) -> Experiment:
        """An experiment file as an object; `overrides` are such as "privacy.epsilon=2"."""
        place = Path(path)
        table = checked(read_table(place, overrides)).model_dump(mode="json", exclude_unset=True)
        return cls(**table, folder=place.resolve().parent)

    def replace(self, **changes: Any) -> Experiment:
        """The same with other settings."""
        return dataclasses.replace(self, **changes)

    def checked(self) -> Checked:
        """The experiment as plans and runs take it; what is wrong with a setting is a `SordinoError` that names it."""
        return checked(self.table())

    def table(self) -> dict[str, Any]:
        """All that was said, as a file would have it; objects go by names."""
        return {
            "name": self.name,
            "seed": self.seed,
            "rounds": self.rounds,
            "data": self._data_table(),
            **{axis: _named(registry, getattr(self, axis)) for axis, registry in _AXES.items()},
            "privacy": _section(self.privacy),
            "clients": dict(self.clients),
            "engine": _section(self.engine),
        }

    def plan(self, *, measure: bool = False) -> Plan:
        """Noise and ε per view, worked out of public facts; bad rows are refused as a run refuses them.

        With `measure`, a trial of a few seconds on made-up rows tells time and memory on this machine, as `costs`.
        """
        with self._objects():
            return make_plan(self.checked(), folder=self._folder, measure=measure)

    def run(
        self,
        out: str | Path | None = None,
        *,
        resume: bool = False,
        on_round: OnRound | Sequence[OnRound] = (),
    ) -> Result:
        """Run it into the folder `out` (runs/NAME where none is given), which must be new unless `resume`.

        `on_round` is a function, or several, of `Round(number, rounds, accuracy, epsilon)`.
        """
        folder = Path(out) if out is not None else Path("runs") / self.name
        callbacks = [on_round] if callable(on_round) else list(on_round)
        with self._objects():
            summary = run_experiment(
                self.checked(), folder, resume=resume, folder=self._folder, watch=watching(callbacks)
            )
        return Result(summary, folder, _held(self))

    @property
    def _folder(self) -> Path:
        return Path.cwd() if self.folder is None else Path(self.folder)

    def _data_table(self) -> Any:
        if isinstance(self.data, Data):
            return self.data.table()
        return {"source": self.data} if isinstance(self.data, str) else self.data

    @contextmanager
    def _objects(self) -> Iterator[None]:
        """Inside, everything that a table names and a program holds can be found."""
        held, readers = _held(self), self.data.readers() if isinstance(self.data, Data) else {}
        if held and _section(self.engine).get("name") == "process":
            raise SordinoError(
                "Clients in processes of their own cannot see this program's objects; name classes as module:Class, or leave "
                "[engine] name at 'simulate'."
            )
        with holding(held), holding_data(readers):
            yield


_AXES: dict[str, Registry[Any]] = {"model": MODELS, "start": STARTS, "tuning": TUNINGS, "method": METHODS}


def _section(given: BaseModel | Mapping[str, Any]) -> dict[str, Any]:
    return given.model_dump(mode="json", exclude_unset=True) if isinstance(given, BaseModel) else dict(given)


def _named(registry: Registry[Any], part: Part) -> Any:
    """What a file would say: the name, or a table with name and settings."""
    if isinstance(part, str | Mapping):
        return part
    ours = next((member.name for member in registry if member.build is type(part)), None)
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        name = ours or _held_name(type(part))
        return {
            "name": name,
            **{one.name: _plain(getattr(part, one.name)) for one in dataclasses.fields(part) if one.init},
        }
    return _held_name(part)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value) if one.init}
    return value


def _held_name(part: object) -> str:
    name = (
        part.__name__
        if isinstance(part, type) or (callable(part) and hasattr(part, "__name__"))
        else type(part).__name__
    )
    return f"{HELD_MODULE}:{name if name.isidentifier() else 'function'}"


def _held(experiment: Experiment) -> dict[str, object]:
    """Classes, functions and models of this program, by the names that the table gives them."""
    found: dict[str, object] = {}
    for axis, registry in _AXES.items():
        part = getattr(experiment, axis)
        named = _named(registry, part)
        name = named["name"] if isinstance(named, Mapping) and "name" in named else named
        if isinstance(name, str) and name.startswith(f"{HELD_MODULE}:") and not isinstance(part, str | Mapping):
            found[name] = maker(part) if callable(part) else type(part)
    return found
