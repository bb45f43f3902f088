"""`prediction.json`: all that a model needs to be used, beside its weights. It is public, and part of a release."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.core import SordinoError
from sordino.data.preparation import Preparation
from sordino.engine.damaged import checked_object, read_json_object
from sordino.engine.record import PREDICTION
from sordino.engine.setup import Setup
from sordino.models import MODELS, Net, build
from sordino.settings import member, validated
from sordino.tuning import TUNINGS, Task, Tuning

SCHEMA, ANY_SEED = 1, 0
"""Weights that are drawn here are replaced by those that are loaded."""
HEADS_AT_HOME = (
    "Heads stay with the clients, so the head of this shared model is as it was drawn and tells nothing; a client's own model is "
    "the one to use."
)
KEYS = {"schema": int, "name": str, "preparation": dict, "model": dict, "tuning": dict, "note": str}


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What is built, and what it is fed: model and tuning as tables with all their defaults, and how rows are prepared.

    Nothing in it depends on the seed, which decides who was drawn and stays with the server.
    """

    name: str
    preparation: Preparation
    model: dict[str, Any]
    tuning: dict[str, Any]
    note: str = ""
    """What whoever uses the model must know; mostly nothing."""

    @staticmethod
    def of(setup: Setup) -> Prediction:
        experiment = setup.experiment
        return Prediction(
            name=experiment.name,
            preparation=Preparation.of(setup.loaded.source),
            model=_with_defaults(experiment.model),
            tuning=setup.resolved.to_json()["tuning"],
            note=HEADS_AT_HOME if setup.method.head_stays_home else "",
        )

    @staticmethod
    def read(folder: Path) -> Prediction:
        path = folder / PREDICTION
        advice = "give the folder of a finished run, its release, or an export"
        content = checked_object(read_json_object(path, KEYS, advice=advice), KEYS, what=str(path), advice=advice)
        if content["schema"] != SCHEMA:
            raise SordinoError(
                f"{path} should have schema {SCHEMA}, but got {content['schema']}; use the sordino that wrote it."
            )
        checked_object(content["model"], {"name": str}, what=f"The model in {path}", advice=advice)
        rest = {key: content[key] for key in ("name", "model", "tuning", "note")}
        return Prediction(preparation=Preparation.from_json(content["preparation"]), **rest)

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **dataclasses.asdict(self)}

    def build(self) -> Net:
        """The model as it is saved, with weights yet to be loaded."""
        tuning: Tuning = member(TUNINGS, self.tuning, where="tuning")
        task = Task(shape=self.preparation.shape, classes=len(self.preparation.classes))
        built_for = tuning.source_task(task)
        net = build(
            **self.model,
            shape=built_for.shape,
            classes=built_for.classes,
            vocabulary=self.preparation.vocabulary,
            seed=ANY_SEED,
        )
        return tuning.finish(tuning.wrap(net, task, seed=ANY_SEED))


def _with_defaults(table: dict[str, Any]) -> dict[str, Any]:
    """A model's table with every setting that it was built with; somebody's own model keeps its table."""
    settings = dict(table)
    name = settings.pop("name")
    if ":" in name:
        return table
    found: Any = validated(MODELS[name], settings, where="model")
    return {"name": name, **dataclasses.asdict(found)}
