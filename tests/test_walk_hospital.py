"""docs/data.md followed word by word: from files on disk to predictions and a card, with no step that is not in it."""

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas
import pytest

import sordino
from sordino.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "data.md").read_text()
BLOCKS = re.findall(r"^```(.*)\n((?:.*\n)*?)^```$", PAGE, flags=re.MULTILINE)


def done(command: str) -> tuple[int, str]:
    """A line of the page as a shell would do it: its exit code, and what it printed. `sordino` runs in this process."""
    words = shlex.split(command)
    if words[0] != "sordino":
        program = sys.executable if words[0] == "python" else words[0]
        result = subprocess.run([program, *words[1:]], text=True, capture_output=True, check=False)
        return result.returncode, result.stdout + result.stderr
    printed, code = io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(printed):
        patch.setattr(sys, "argv", words)
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, printed.getvalue()


def follow(kind: str, text: str, told: str) -> str:
    """Do what a block says, or check that what it shows was printed by the one before; returns what was printed."""
    if kind.startswith("bash"):
        found = [(line, *done(line)) for line in text.splitlines()]
        for line, code, printed in found:
            assert code == (2 if "refused" in kind else 0), f"{line}\n{printed}"
        return "".join(printed for _, _, printed in found)
    if kind == "python":
        exec(compile(text, "docs/data.md", "exec"), {})
    elif kind == "" and told:
        for line in text.splitlines():
            assert line in told, f"the page says {line!r}, but got\n{told}"
    return told


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """The folder in which everything was done that the page says."""
    folder = tmp_path_factory.mktemp("walk")
    copied = shutil.ignore_patterns("*.csv")
    shutil.copytree(ROOT / "examples" / "hospital", folder / "examples" / "hospital", ignore=copied)
    told = ""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "200")
        for kind, text in BLOCKS:
            told = follow(kind, text, told)
    return folder


def test_the_page_has_every_kind_of_step():
    kinds = [kind for kind, _ in BLOCKS]
    assert kinds.count("bash") >= 5 and "python" in kinds and "toml" in kinds and "bash refused" in kinds


def test_the_experiment_on_the_page_is_the_one_in_the_examples():
    assert dict(BLOCKS)["toml"] == (ROOT / "examples" / "hospital" / "hospital.toml").read_text()


def test_the_header_on_the_page_is_the_one_of_the_file(walk):
    assert (walk / "hospital" / "patients.csv").read_text().splitlines()[0] in PAGE


def test_the_walk_ends_in_predictions_and_a_card(walk):
    rows = (walk / "predictions.csv").read_text().splitlines()
    assert rows[0] == "row,patient,prediction,probability home,probability rehab,probability readmitted"
    assert len(rows) == 21 and {row.split(",")[2] for row in rows[1:]} <= {"home", "rehab", "readmitted"}
    card = (walk / "card" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name:") and "| server (the server, which sees every upload) | 2.99" in card


def test_predict_gives_the_numbers_of_the_evaluation(walk):
    test = pandas.read_csv(walk / "hospital" / "test.csv", sep=";", keep_default_na=False)
    summary = json.loads((walk / "runs" / "hospital" / "summary.json").read_text())
    called = sordino.load(walk / "runs" / "hospital").predict(walk / "hospital" / "test.csv")
    assert np.mean(called == test["outcome"].to_numpy()) == pytest.approx(summary["accuracy"], abs=1e-12)
    assert summary["client_names"] == ["Bergen", "Lyon", "Porto", "Turku", "Wien"]
    assert summary["accuracy"] > 0.58, "the majority is half, and a run without privacy reaches 64 %"
