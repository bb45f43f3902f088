"""The command line: one sentence and exit code 2 for each mistake, nothing half-written."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
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
    planned = json.loads(sordino("plan", file, "--no-trial", "--json").stdout)
    assert shown["epsilon"] == summary["epsilon"]
    assert planned["epsilon"]["public"]["epsilon"] == summary["epsilon"]["public"]["epsilon"] <= 5.0
    assert summary["epsilon"]["server"]["epsilon"] == "inf"


def test_tables_and_a_image_are_drawn(sordino, file, tmp_path):
    assert "Accuracy and ε by view" in sordino("run", file).stdout
    shown = sordino("show", "runs/one", "--report", "one.html")
    assert "accuracy over rounds" in shown.stdout
    assert "What was promised" in (tmp_path / "one.html").read_text()
    planned = sordino("plan", file).stdout
    assert "multiplier" in planned and "at the peak of the process" in planned
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
    "wrong image size": (["--set", "model={name='alexnet'}"], "alexnet"),
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


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_plan_refuses_it_too(sordino, mistake, file):
    arguments, sentence = MISTAKES[mistake]
    result = sordino("plan", file, *arguments)
    assert (result.returncode, sentence in result.stderr) == (2, True), result.stderr


BAD_CALLS = {
    "an experiment that is a folder": (["run", "."], "Is a directory"),
    "an experiment of nothing": (["plan", "empty.toml"], "The experiment needs rounds"),
    "an experiment that is not text": (["plan", "bytes.toml"], "is not valid TOML in UTF-8"),
    "an integer without end": (["plan", "digits.toml"], "is not valid TOML in UTF-8"),
    "lists without end": (["plan", "deep.toml"], "is not valid TOML in UTF-8"),
    "a run folder whose name is too long": (["run", "one.toml", "--out", "x" * 300], "File name too long"),
    "a run folder that cannot be": (["run", "one.toml", "--out", "/dev/null/run"], "cannot be"),
    "no run to show": (["show", "nowhere"], "There is no folder 'nowhere'; give that of a run or a sweep"),
    "a run that is not finished": (["show", "."], "holds no finished run"),
    "a line that is no setting": (["plan", "comma.toml"], "Line 2 of 'comma.toml', 'epsilon = 3,0', is not valid TOML in UTF-8 (Expected"),
    "a setting twice": (["plan", "twice.toml"], "Line 2 of 'twice.toml', 'rounds = 4', is not valid TOML in UTF-8 (Cannot overwrite"),
    "a damaged run to show": (["show", "damaged"], "summary.json should hold a JSON object, but got []"),
    "a damaged run to go on with": (["run", "one.toml", "--out", "damaged", "--resume"], "experiment.json is damaged"),
    "a damaged run to measure": (["robustness", "damaged"], "experiment.json is damaged"),
    "no run to measure": (["robustness", "nowhere"], "experiment.json cannot be read"),
    "a sweep from no seed": (["sweep", "one.toml", "--over", "rounds=1", "--set", "seed=x"], "seed should be a valid integer"),
    "a sweep that leaves its folder": (["sweep", "one.toml", "--over", "rounds=1", "--set", "name=../x"], "name should be usable"),
    "nothing to pre-train": (["pretrain", "one.toml"], "which trains nothing"),
    "nothing to draw": (["data", "show", "one.toml", "--set", "data.clients=0"], "In [data], clients should be"),
}  # fmt: skip


def test_a_command_misspelt_gets_one_suggestion(sordino):
    result = sordino("rum", "one.toml")
    assert result.returncode == 2 and result.stderr.count("Did you mean 'run'?") == 1


@pytest.mark.parametrize("mistake", BAD_CALLS)
def test_a_wrong_file_or_folder_gets_one_sentence(sordino, mistake, file, tmp_path):
    (tmp_path / "empty.toml").write_bytes(b"")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "comma.toml").write_text("[privacy]\nepsilon = 3,0\n")
    (tmp_path / "twice.toml").write_text("rounds = 3\nrounds = 4\n")
    (tmp_path / "digits.toml").write_text(f"seed = {'9' * 5000}")
    (tmp_path / "deep.toml").write_text(f"seed = {'[' * 5000}")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "experiment.json").write_text("{}")
    (tmp_path / "damaged" / "summary.json").write_text("[]")
    arguments, sentence = BAD_CALLS[mistake]
    result = sordino(*arguments)
    assert (result.returncode, sentence in result.stderr) == (2, True), result.stderr
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr


def test_a_sweep_goes_on_past_what_fails_and_says_so_at_the_end(sordino, file):
    swept = sordino("sweep", file, "--over", "privacy.expected_cohort=3,99", "--seeds", "2")
    assert swept.returncode == 1
    assert "2 runs failed or could not be run" in swept.stdout
    assert "2/2 expected_cohort=3, seed 2: done" in swept.stderr
    assert "expected_cohort=99, seed 1; privacy.expected_cohort=99, seed 2)" in swept.stdout
    assert "2 of 4 runs cannot be run, the others go on." in swept.stderr
    content = json.loads(sordino("show", "sweeps/one", "--json").stdout)
    assert [len(row["runs"]) for row in content["rows"]] == [2, 0]
    assert "report.html" in {path.name for path in Path("sweeps/one").iterdir()}


def test_sweeps_and_several_runs_are_shown_and_compared(sordino, file):
    cases = '[[case]]\nmethod = "fedavg"\n[[case]]\nmethod = "dp-fedavg"\n'
    file.write_text(file.read_text() + cases)
    swept = sordino("sweep", file, "--over", "privacy.epsilon=5,50", "--seeds", "2", "--jobs", "2")
    assert swept.returncode == 0, swept.stderr
    assert "fedavg" in swept.stdout and "epsilon=5, 50" in swept.stdout
    assert "The choice among them is not covered" in swept.stdout.replace("\n", " ")
    compared = sordino("compare", "sweeps/one", "--csv", "all.csv", "--epsilon", "50")
    assert "there is one case alone, dp-fedavg" in compared.stdout
    assert "accuracy over ε (public view); a: dp-fedavg, b: fedavg" in compared.stdout
    assert len(Path("all.csv").read_text().splitlines()) == 7
    found = json.loads(sordino("compare", "sweeps/one", "--json").stdout)
    assert found["configurations_tried"] == 3
    runs = sorted(Path("sweeps/one").glob("*/seed-1"))
    shown = sordino("show", "sweeps/one", *runs)
    assert "3 configurations, accuracy over seeds" in shown.stdout and str(runs[0]) in shown.stdout
    assert len(json.loads(sordino("show", *runs, "--json").stdout)) == 3
    assert sordino("show", *runs, "--verify").stdout.count("ledger lines, unbroken") == 3


def test_a_choice_is_priced(sordino, file):
    chosen = sordino(
        "sweep", file, "--over", "method.epochs=1,2", "--choose", "geometric", "--expected-runs", "2", "--json"
    )
    choice = json.loads(chosen.stdout)["choice"]
    assert choice["epsilon"]["public"]["epsilon"] > 5.0 > choice["chosen"]["epsilon_of_the_run_alone"]["public"]
    assert "covers the choice too" in sordino("compare", "sweeps/one").stdout.replace("\n", " ")
    assert sordino("sweep", file, "--choose", "uniform").returncode == 2


def test_colours_can_be_turned_off_anywhere(sordino, file, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    cyan = "36m"
    assert cyan in sordino("run", "--help").stdout
    for arguments in (["--no-color", "run", "--help"], ["run", "--no-color", "--help"]):
        monkeypatch.delenv("NO_COLOR", raising=False)
        assert cyan not in sordino(*arguments).stdout


def test_a_reader_that_goes_away_hears_no_more(file, tmp_path):
    command = f"{sys.executable} -m sordino methods | head -1"
    result = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert (result.stderr, len(result.stdout.splitlines())) == ("", 1)


def test_a_large_delta_is_a_warning(sordino, file, tmp_path):
    planned = json.loads(sordino("plan", file, "--no-trial", "--set", "privacy.delta=0.2", "--json").stdout)
    assert any("not below 1/6" in warning for warning in planned["warnings"])


def test_a_run_says_so_too(sordino, file):
    assert "not below 1/6" in sordino("run", file, "--set", "privacy.delta=0.2").stdout.replace("\n", " ")


def test_mistakes_are_json_too(sordino, file, tmp_path):
    result = sordino("run", file, "--set", "privacy.epsilon=0", "--json")
    assert "greater than 0" in json.loads(result.stderr)["error"]


def test_predict_and_export_use_the_finished_run(sordino, file, tmp_path):
    assert sordino("run", file, "--out", "run").returncode == 0
    np.save("images.npy", np.zeros((3, 8, 8), np.uint8))
    rows = json.loads(sordino("predict", "run", "images.npy", "--out", "told.csv", "--json").stdout)
    assert [row["row"] for row in rows] == [1, 2, 3]
    assert all(sum(row["probabilities"].values()) == pytest.approx(1) for row in rows)
    assert (tmp_path / "told.csv").read_text().startswith("row,prediction,probability 0,")
    assert "Predictions for 3 rows" in sordino("predict", "run", "images.npy").stdout
    found = json.loads(sordino("export", "run", "--to", "safetensors", "--json").stdout)
    assert found == {"folder": "run/export-safetensors", "files": ["model.safetensors", "prediction.json", "README.md"]}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("predict", "nowhere", "x.npy"), "nowhere/prediction.json cannot be read"),
        (("predict", "run", "x.npy"), "A file to predict was expected at x.npy, but there is none"),
        (("predict", "run", "wide.npy"), "takes images of 8 x 8 pixels|takes uint8 images"),
        (("predict", "run", "images.npy", "--keep", "name"), "--keep takes columns of a table"),
        (("predict", "run", "images.npy", "--client", "0"), "gives all clients one model; leave the client out"),
        (("export", "run", "--out", "."), "holds other files, and an export needs a folder of its own"),
    ],
)
def test_mistakes_with_a_model_get_one_sentence(sordino, file, arguments, sentence):
    sordino("run", file, "--out", "run", "--set", "rounds=1")
    np.save("images.npy", np.zeros((3, 8, 8), np.uint8))
    np.save("wide.npy", np.zeros((3, 8, 8)))
    result = sordino(*arguments)
    assert result.returncode == 2
    assert re.search(sentence, result.stderr) and result.stderr.count("\n") == 1


def test_help_does_not_import_torch():
    code = "import sys; from sordino.cli import app; assert not {'torch', 'numpy', 'dp_accounting', 'pydantic'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.toml")), ids=lambda path: path.name)
def test_every_example_is_a_valid_experiment(path):
    from sordino.engine.resolved import resolve
    from sordino.experiment import read
    from sordino.models import MODELS
    from sordino.outside import look_beside
    from sordino.settings import member

    look_beside(path.parent)
    experiment = read(path)
    resolve(experiment).tuning.check_start(experiment.start["name"])
    member(MODELS, experiment.model, where="model")
