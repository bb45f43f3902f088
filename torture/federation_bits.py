"""Equality: every method, and settings that go other ways, end in the same model on real nodes, in processes and in the simulator."""

from __future__ import annotations

from typing import Any

from sordino.core import SordinoError
from sordino.engine.run import run_experiment
from sordino.experiment import experiment
from sordino.methods import METHODS
from torture.federation_scene import Scene, table
from torture.ground import Ground
from torture.report import Outcome

STEPS = {"name": "dp-sgd", "batch_size": 16, "local_steps": 2}
SETTINGS: dict[str, dict[str, Any]] = {
    "dp-sgd": {"method": {**STEPS, "momentum": 0.5}},
    "dp-pfeddsu": {
        "method": {"name": "dp-pfeddsu", "share": 0.3, "layers": 1},
        "model": {"name": "mlp", "hidden": [8, 6]},
    },
    "fedceo": {"method": {"name": "fedceo", "interval": 1}},
}
OTHERS: dict[str, dict[str, Any]] = {
    "central noise": {"privacy": {"noise": "central"}},
    "distributed noise": {"privacy": {"noise": "distributed"}},
    "a clip that moves": {"privacy": {"mechanism": "adaptive-clip", "noise": "central"}},
    "two phases": {"tuning": {"name": "unified", "head_rounds": 1}},
}


def federation_bits(ground: Ground, outcome: Outcome) -> None:
    methods = {member.name: SETTINGS.get(member.name, {"method": {"name": member.name}}) for member in METHODS}
    cases = ground.chosen({**methods, **OTHERS})
    outcome.planned = len(cases)
    with Scene.made(ground.tree.scratch / "federation-bits") as scene:
        for name, changes in cases.items():
            why = difference(scene, name.replace(" ", "-"), {"rounds": 2, **changes})
            outcome.judge(
                why, case=name, reproduction=f"python -m torture federation-bits --case '{name}'", folder=scene.folder
            )
            outcome.note(f"{name}: {why or 'the same bits in three engines'}")


def difference(scene: Scene, case: str, changes: dict[str, Any]) -> str | None:
    """Where three engines disagree about a model; nothing where they do not."""
    made = experiment(table(**changes))
    found = {}
    for engine in ("simulate", "process"):
        here = made.model_copy(update={"engine": made.engine.model_copy(update={"name": engine})})
        run_experiment(here, scene.folder / case / engine)
        found[engine] = (scene.folder / case / engine / "model.safetensors").read_bytes()
    try:
        run_experiment(scene.experiment(**changes), scene.folder / case / "flower")
    except SordinoError as refused:
        return None if "has all rows in one place" in str(refused) else f"it stopped: {refused}"
    found["flower"] = (scene.folder / case / "flower" / "model.safetensors").read_bytes()
    others = [engine for engine, bits in found.items() if bits != found["simulate"]]
    return f"{' and '.join(others)} end in other bits than simulate" if others else None
