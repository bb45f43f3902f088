"""Compositions that no paper tried: each is one line in an experiment file, runs, and pays what its parts cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sordino.engine.run import run_experiment
from sordino.experiment import read

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "combinations"
SMALL = ("data.options.limit=400", "rounds=2", "start.epochs=1", "engine.workers=1", "engine.schedule=workers")


def run(name: str, out: Path, *changes: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    summary = run_experiment(read(FOLDER / f"{name}.toml", (*SMALL, *changes)), out)
    lines = [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()[1:]]
    return summary, lines


def test_personal_heads_from_a_robust_start(tmp_path: Path) -> None:
    summary, lines = run("dpadapter-start-with-dp-pfeddsu", tmp_path, "method.head_epochs=1", "method.epochs=1")
    assert summary["epsilon"]["public"]["epsilon"] == pytest.approx(2.0, rel=0.01)
    assert summary["epsilon"]["public"]["epsilon"] <= 2.0
    assert {line["label"] for line in lines} == {"update"}


def test_auto_tuning_with_fedceo_pays_for_the_statistics_first(tmp_path: Path) -> None:
    summary, lines = run("auto-tuning-with-fedceo", tmp_path)
    assert 3.9 < summary["epsilon"]["server"]["epsilon"] <= 4.0
    steps = [number for number, line in enumerate(lines) if line["label"] == "steps"]
    statistics = [number for number, line in enumerate(lines) if line["label"] == "statistic"]
    assert len(statistics) == 2 * 10 and max(statistics) < min(steps)
    assert summary["choice"]["strategy"] in ("HT", "FT")


def test_a_personal_output_map_never_leaves_and_the_border_pays(tmp_path: Path) -> None:
    summary, _ = run("reprogramming-with-personal-output", tmp_path, "method.head_epochs=1")
    border = 32 * 32
    assert summary["trained_parameters"] == border
    assert 1.9 < summary["epsilon"]["public"]["epsilon"] <= 2.0
    assert summary["non_private_diagnostics"]["non_private_clients"]["clients"] == 10
