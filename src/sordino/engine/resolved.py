"""An experiment with every name found and every default filled in: built once, and read by plan, run and record alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from sordino.core import SordinoError
from sordino.data.evaluation_rows import Charged, EvaluationRows, SetAside, evaluation_rows
from sordino.data.partition import PARTITIONERS, Partitioner
from sordino.data.source import SourceSettings
from sordino.experiment import Experiment, PrivacySection
from sordino.methods import METHODS, Method
from sordino.pretrain import STARTS, Start
from sordino.privacy.mechanisms import MECHANISMS, Mechanism
from sordino.sentences import first_line, shown
from sordino.settings import member, validated
from sordino.tuning import TUNINGS, Tuning


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """The members that an experiment names, as objects: what can be checked before any data are looked at."""

    experiment: Experiment
    method: Method
    start: Start
    tuning: Tuning
    mechanism: Mechanism
    partitioner: Partitioner
    source: SourceSettings
    test_rows: EvaluationRows
    device: torch.device

    @property
    def privacy(self) -> PrivacySection:
        return self.experiment.privacy

    @property
    def budgets(self) -> dict[str, float]:
        """Every ε that the file sets, by the words to call it."""
        own = self.privacy.client_epsilon if isinstance(self.privacy.client_epsilon, tuple) else ()
        found = {f"the budget of client {k}": epsilon for k, epsilon in enumerate(own)}
        if self.privacy.epsilon is not None:
            found["[privacy] epsilon"] = self.privacy.epsilon
        return found

    @property
    def simulated(self) -> bool:
        """Whether numbers outside the guarantee may be kept: never beside a release."""
        return self.privacy.noise_source == "seeded"

    def to_json(self) -> dict[str, Any]:
        """Every setting that the run uses, with the defaults that the file left out."""
        experiment, data = self.experiment.model_dump(mode="json"), self.experiment.data
        return {
            **experiment,
            "method": _table(experiment["method"], self.method),
            "start": _table(experiment["start"], self.start),
            "tuning": _table(experiment["tuning"], self.tuning),
            "privacy": {
                **experiment["privacy"],
                "mechanism": _table(self.privacy.mechanism_table, self.mechanism),
            },
            "data": {
                **experiment["data"],
                "partition": _table(data.partition, self.partitioner),
                "options": _fields(self.source),
                "test": _fields(self.test_rows),
            },
        }


def _refuse_silent_random_source(experiment: Experiment) -> None:
    """A source model that stays frozen is worth what it was trained for: random weights are used where a person says so alone."""
    if experiment.tuning.get("name") == "reprogram" and "start" not in experiment.model_fields_set:
        raise SordinoError(
            "[tuning] name = 'reprogram' trains a border around a source model that stays as it is, and without [start] that is random; "
            "name what it is trained on, as in [start] name = 'standard', or say start = 'scratch' to mean random weights."
        )


def resolve(experiment: Experiment) -> Resolved:
    """Find and build every member that the experiment names; what is wrong with one is a `SordinoError` that says where."""
    _refuse_figures_of_a_release(experiment)
    _refuse_silent_random_source(experiment)
    method: Method = member(METHODS, experiment.method, where="method")
    method = method.for_rounds(experiment.rounds)
    partition = {"name": "iid"} if method.pooled else experiment.data.partition
    return Resolved(
        experiment=experiment,
        device=make_device(experiment.engine.device),
        method=method,
        start=member(STARTS, experiment.start, where="start"),
        tuning=member(TUNINGS, experiment.tuning, where="tuning"),
        mechanism=member(MECHANISMS, experiment.privacy.mechanism_table, where="privacy.mechanism"),
        partitioner=member(PARTITIONERS, partition, where="data.partition"),
        source=_source(experiment),
        test_rows=_test_rows(experiment),
    )


def _source(experiment: Experiment) -> SourceSettings:
    data = experiment.data
    for key in ("source", "visibility"):
        if key in data.options:
            raise SordinoError(f"In [data.options], {key} has no place, because [data] {key} says it; remove it.")
    return validated(
        SourceSettings, {**data.options, "source": data.source, "visibility": data.visibility}, where="data.options"
    )


def _refuse_figures_of_a_release(experiment: Experiment) -> None:
    """Figures of clients' own rows are outside every guarantee: only a simulation in this process shows them."""
    data, engine = experiment.data, experiment.engine
    asked = "[data] client_split" if data.client_split is not None else "[engine] training_loss"
    if data.client_split is None and not engine.training_loss:
        return
    if experiment.privacy.noise_source != "seeded":
        raise SordinoError(
            f"{asked} tells figures of private rows that no ε covers, so a simulation may show them and a secure run may not; leave "
            'it out, or let evaluation be charged (test = { name = "charged", epsilon = 0.5 }).'
        )
    if engine.name != "simulate":
        raise SordinoError(
            f"{asked} is a diagnostic of simulations, but got [engine] name = {engine.name!r}, whose clients keep their rows; "
            "leave it out, or set name = 'simulate'."
        )
    if data.client_split is not None and data.evaluation_is_charged:
        raise SordinoError(
            "[data] client_split and test = { name = 'charged' } both keep rows from training; keep one of them."
        )


def _test_rows(experiment: Experiment) -> EvaluationRows:
    """What the experiment says about its test rows; settings that would go without effect are refused."""
    rows = evaluation_rows(experiment.data.test)
    idle = [key for key in ("test_fraction", "test_limit") if key in experiment.data.options]
    if idle and not isinstance(rows, SetAside):
        instead = "fraction" if isinstance(rows, Charged) else "limit"
        raise SordinoError(
            f"[data.options] {idle[0]} is about a test split of the source itself, but [data] test says otherwise; leave it out, or "
            f"set {instead} in [data] test."
        )
    return rows


def make_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:
        raise SordinoError(
            f"The device {shown(name)} cannot be used here ({first_line(error)}); set [engine] device = 'cpu'."
        ) from error
    return device


def _table(named: Mapping[str, Any], built: object) -> dict[str, Any]:
    return {"name": named["name"], **_fields(built)}


def _fields(built: object) -> dict[str, Any]:
    """The settings of a member, all of them; a member that is no dataclass has none."""
    if not dataclasses.is_dataclass(built) or isinstance(built, type):
        return {}
    return {field.name: _plain(getattr(built, field.name)) for field in dataclasses.fields(built) if field.init}


def _plain(value: Any) -> Any:
    return _fields(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
