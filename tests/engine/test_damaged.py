"""A run record that was damaged gets one sentence, whoever reads it."""

import json
import shutil

import pytest

from sordino.core import SordinoError
from sordino.engine.record import RunRecord, read_summary
from sordino.engine.robustness import open_subject
from sordino.engine.run import run_experiment
from sordino.experiment import experiment


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run whose files are whole."""
    table = {
        "rounds": 2,
        "data": {"source": "digits", "clients": 4},
        "model": "logistic",
        "method": "fedavg",
        "engine": {"schedule": "workers", "workers": 1, "evaluate_every": 1},
    }
    folder = tmp_path_factory.mktemp("whole") / "run"
    run_experiment(experiment(table), folder)
    return folder


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


JUNK = {
    "nothing": b"",
    "an object of nothing": b"{}",
    "a list": b"[]",
    "a number": b"3",
    "half a file": b'{"schema": 1, "fingerp',
    "bytes": b"\xff\xfe\x00\x01",
    "lists without end": b"[" * 100_000,
}


def one_sentence(error):
    assert "\n" not in str(error.value) and len(str(error.value)) < 900


@pytest.mark.parametrize("junk", JUNK)
def test_a_damaged_experiment(run, junk):
    (run / "experiment.json").write_bytes(JUNK[junk])
    for read in (RunRecord(run).read_experiment, lambda: open_subject(run)):
        with pytest.raises(SordinoError, match=r"experiment\.json .*is not a run folder or is damaged") as error:
            read()
        one_sentence(error)


@pytest.mark.parametrize("key", ["fingerprint", "experiment", "facts", "versions"])
def test_an_experiment_without_a_part(run, tiny, key):
    path = run / "experiment.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: None}))
    with pytest.raises(SordinoError, match=f"experiment.json is damaged: its '{key}' is None") as error:
        run_experiment(experiment(tiny()), run, resume=True)
    one_sentence(error)


@pytest.mark.parametrize("junk", JUNK)
def test_a_damaged_summary(run, junk):
    (run / "summary.json").write_bytes(JUNK[junk])
    with pytest.raises(SordinoError, match=r"summary\.json .*restore it from a copy") as error:
        read_summary(run)
    one_sentence(error)


@pytest.mark.parametrize("change", [{"accuracy": "high"}, {"epsilon": {}}, {"epsilon": {"public": 3}}, {"name": None}])
def test_a_summary_of_other_kinds(run, change):
    path = run / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(SordinoError, match=r"summary\.json .*restore it from a copy") as error:
        read_summary(run)
    one_sentence(error)


@pytest.mark.parametrize(
    "line",
    ["garbage", "[]", "{}", '{"round": "1", "accuracy": 0.5, "epsilon": 1}', '{"accuracy": 0.5, "epsilon": 1}', ""],
)
def test_a_damaged_line_of_metrics(run, line):
    path = run / "metrics.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first, line, *rest]) + "\n")
    with pytest.raises(SordinoError, match=r"Line 2 of .*metrics\.jsonl .*; remove that line") as error:
        RunRecord(run).read_metrics()
    one_sentence(error)


def test_a_last_line_of_metrics_that_was_cut_off_does_not_count(run):
    path = run / "metrics.jsonl"
    whole = RunRecord(run).read_metrics()
    with path.open("a") as file:
        file.write('{"round": 2, "accu')
    assert RunRecord(run).read_metrics() == whole
    assert len(whole) == 2


@pytest.mark.parametrize("content", ["{}", "[]", '{"kind": "standard", "shape": [1, 8, 8]}', "{"])
def test_a_damaged_pre_training(run, content):
    (run / "pretrain.json").write_text(content)
    shutil.copy(run / "model.safetensors", run / "weights.safetensors")
    with pytest.raises(SordinoError) as error:
        open_subject(run)
    one_sentence(error)


def test_what_clients_keep_is_refused_room_in_one_sentence(tiny, tmp_path, monkeypatch):
    """The folder for it cannot be made, here because a file has its name; a full disk says the same."""
    from sordino.engine.client.personal_store import PersonalStore

    save = PersonalStore.save

    def save_beside_a_file(store, path):
        path.parent.write_text("in the way")
        save(store, path)

    monkeypatch.setattr(PersonalStore, "save", save_beside_a_file)
    with pytest.raises(SordinoError, match="private-to-each-client cannot be written") as error:
        run_experiment(experiment(tiny(rounds=1, method={"name": "ppsgd"})), tmp_path / "run")
    one_sentence(error)
