"""The command line: one sentence and exit code 2 for each mistake, nothing half-written."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from sordino.cli import main

ROOT = Path(__file__).parent.parent
EXPERIMENT = """
rounds = 2
seed = 1
[data]
source = "digits"
clients = 6
[model]
name = "mlp"
hidden = [8]
[method]
name = "dp-fedavg"
[privacy]
epsilon = 5.0
delta = 1e-3
expected_cohort = 3
[engine]
schedule = "workers"
workers = 1
"""


@dataclass(frozen=True)
class Result:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def sordino(tmp_path, monkeypatch, capfd):
    """The command as a person calls it, in this process and in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["sordino", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return Result(code, *capfd.readouterr())

    return call


def test_the_installed_command_works_in_a_process_of_its_own(file, tmp_path):
    command = [sys.executable, "-m", "sordino", "run", str(file), "--set", "privacy.epsilon=-1"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 2
    assert result.stderr.startswith("sordino: In [privacy], epsilon should be greater than 0")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "one.toml"
    path.write_text(EXPERIMENT)
    return path


def test_run_and_show_and_plan_agree(sordino, file, tmp_path):
    ran = sordino("run", file, "--json")
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)
    shown = json.loads(sordino("show", tmp_path / "runs" / "one", "--json").stdout)
    planned = json.loads(sordino("plan", file, "--json").stdout)
    assert shown["epsilon"] == summary["epsilon"]
    assert planned["epsilon"]["public"]["epsilon"] == summary["epsilon"]["public"]["epsilon"] <= 5.0
    assert summary["epsilon"]["server"]["epsilon"] == "inf"


def test_tables_and_a_picture_are_drawn(sordino, file, tmp_path):
    assert "ε public" in sordino("run", file).stdout
    shown = sordino("show", "runs/one", "--picture", "one.html")
    assert "accuracy over rounds" in shown.stdout
    assert "plotly" in (tmp_path / "one.html").read_text()[:5_000_000]
    assert "multiplier" in sordino("plan", file).stdout
    assert "client" in sordino("data", "show", file).stdout


def test_catalogues_are_printed(sordino, tmp_path):
    assert "dp-fedavg" in sordino("methods").stdout
    assert {"digits", "mnist5k"} <= {entry["name"] for entry in json.loads(sordino("data", "list", "--json").stdout)}


MISTAKES = {
    "unknown method": (["--set", "method.name=dp-fedavgg"], "did you mean 'dp-fedavg'"),
    "unknown setting of a method": (["--set", "method.epoch=3"], "did you mean 'epochs'"),
    "unknown model": (["--set", "model.name=mpl"], "did you mean 'mlp'"),
    "unknown section key": (["--set", "privacy.epsilonn=3"], "did you mean 'epsilon'"),
    "negative epsilon": (["--set", "privacy.epsilon=-1"], "greater than 0"),
    "unknown data": (["--set", "data.source=digit"], "did you mean 'digits'"),
    "missing file": (["--set", "data.source=./none.npz"], "none.npz"),
    "cohort larger than the roster": (["--set", "privacy.expected_cohort=7"], "at most 6 clients"),
    "wrong picture size": (["--set", "model={name='alexnet'}"], "alexnet"),
    "unknown device": (["--set", "engine.device=cuda:9"], "device"),
    "unknown partition": (["--set", "data.partition={name='dirichle'}"], "did you mean 'dirichlet'"),
    "more clients than rows": (["--set", "data.clients=5000", "--set", "privacy.expected_cohort=3"], "fewer clients"),
    "a view that noise cannot reach": (["--set", "privacy.view=server"], "No noise can reach"),
    "start from private data": (
        ["--set", "start={name='standard', data={source='digits', visibility='private'}}"],
        "marked public",
    ),
    "weights that are not there": (["--set", "start={name='file', path='w.safetensors'}"], "w.safetensors"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence_and_leaves_nothing_behind(sordino, mistake, file, tmp_path):
    arguments, sentence = MISTAKES[mistake]
    result = sordino("run", file, *arguments)
    assert result.returncode == 2, result.stderr
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert not (tmp_path / "runs").exists()


def test_a_large_delta_is_a_warning(sordino, file, tmp_path):
    planned = json.loads(sordino("plan", file, "--set", "privacy.delta=0.2", "--json").stdout)
    assert any("not below 1/6" in warning for warning in planned["warnings"])


def test_a_run_says_so_too(sordino, file):
    assert "not below 1/6" in sordino("run", file, "--set", "privacy.delta=0.2").stdout.replace("\n", " ")


def test_mistakes_are_json_too(sordino, file, tmp_path):
    result = sordino("run", file, "--set", "privacy.epsilon=0", "--json")
    assert "greater than 0" in json.loads(result.stderr)["error"]


def test_help_does_not_import_torch():
    code = "import sys; from sordino.cli import app; assert not {'torch', 'numpy', 'dp_accounting', 'pydantic'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.toml")), ids=lambda path: path.name)
def test_every_example_is_a_valid_experiment(path):
    from sordino.data.partition import PARTITIONERS
    from sordino.engine.setup import make_method, source_settings
    from sordino.experiment import read
    from sordino.models import MODELS
    from sordino.pretrain import STARTS
    from sordino.settings import member
    from sordino.tuning import TUNINGS, bridge_of

    experiment = read(path)
    make_method(experiment)
    source_settings(experiment)
    tuning = member(TUNINGS, experiment.tuning, where="tuning")
    bridge_of(tuning).check_start(experiment.start["name"])
    member(STARTS, experiment.start, where="start")
    member(MODELS, experiment.model, where="model")
    member(PARTITIONERS, experiment.data.partition, where="data.partition")
