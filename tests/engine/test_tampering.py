"""Whatever is changed in a run folder between two sittings is refused with a sentence, and `--verify` finds it too."""

import json
import shutil

import numpy as np
import pytest

import sordino
from sordino.core import SordinoError
from sordino.engine.record import RunRecord
from sordino.engine.run import run_experiment
from sordino.engine.verify import verify
from sordino.experiment import experiment


def stop_after(table, folder, rounds):
    def interrupt(moment):
        if moment.stage == "training" and moment.done == rounds:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment(table), folder, watch=interrupt)


def rows_of(folder):
    return (folder / "ledger.jsonl").read_bytes().splitlines(keepends=True)


def _edit_a_multiplier(folder):
    rows = rows_of(folder)
    row = json.loads(rows[1])
    row["charges"][0]["event"]["event"]["noise_multiplier"] *= 100
    (folder / "ledger.jsonl").write_bytes(rows[0] + json.dumps(row).encode() + b"\n" + b"".join(rows[2:]))


def _remove_a_line(folder):
    rows = rows_of(folder)
    (folder / "ledger.jsonl").write_bytes(b"".join([rows[0], *rows[2:]]))


def _swap_two(folder):
    rows = rows_of(folder)
    (folder / "ledger.jsonl").write_bytes(b"".join([rows[0], rows[2], rows[1], *rows[3:]]))


def _cut(folder):
    (folder / "ledger.jsonl").write_bytes(b"".join(rows_of(folder)[:2]))


def _delete_the_ledger(folder):
    (folder / "ledger.jsonl").unlink()


def _delete_ledger_and_checkpoint(folder):
    _delete_the_ledger(folder)
    (folder / "checkpoint.safetensors").unlink(missing_ok=True)


def _change_a_fact(folder):
    path = folder / "experiment.json"
    content = json.loads(path.read_text())
    content["facts"]["noise_multiplier"] *= 2
    path.write_text(json.dumps(content))


def _another_schema(folder):
    path = folder / "experiment.json"
    path.write_text(path.read_text().replace('"schema": 2', '"schema": 1', 1))


TAMPERINGS = [
    _edit_a_multiplier,
    _remove_a_line,
    _swap_two,
    _cut,
    _delete_the_ledger,
    _delete_ledger_and_checkpoint,
    _change_a_fact,
    _another_schema,
]


@pytest.fixture(scope="module")
def half_and_whole(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    table = tiny(rounds=5)
    stop_after(table, folder / "half", 3)
    sordino.run(table, out=folder / "whole")
    return table, folder


@pytest.mark.parametrize("tamper", TAMPERINGS)
@pytest.mark.parametrize("which", ["half", "whole"])
def test_a_run_folder_shows_tampering(half_and_whole, tmp_path, tamper, which):
    table, folder = half_and_whole
    verify(folder / which)
    shutil.copytree(folder / which, tmp_path / "run")
    tamper(tmp_path / "run")
    with pytest.raises(SordinoError):
        verify(tmp_path / "run")
    if which == "half":
        with pytest.raises(SordinoError):
            sordino.run(table, out=tmp_path / "run", resume=True)


def test_a_summary_that_tells_less_than_the_ledger_is_found(half_and_whole, tmp_path):
    _, folder = half_and_whole
    shutil.copytree(folder / "whole", tmp_path / "run")
    path = tmp_path / "run" / "summary.json"
    content = json.loads(path.read_text())
    content["epsilon"]["public"]["epsilon"] /= 2
    path.write_text(json.dumps(content))
    with pytest.raises(SordinoError, match=r"tells ε = .* in the public view, but the ledger costs"):
        verify(tmp_path / "run")


@pytest.mark.parametrize("schema", [99, None])
def test_a_summary_of_another_schema_is_refused(half_and_whole, tmp_path, schema):
    _, folder = half_and_whole
    shutil.copytree(folder / "whole", tmp_path / "run")
    path = tmp_path / "run" / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": schema}))
    with pytest.raises(SordinoError, match="should have schema"):
        verify(tmp_path / "run")


def test_another_model_is_found(half_and_whole, tmp_path):
    _, folder = half_and_whole
    shutil.copytree(folder / "whole", tmp_path / "run")
    path = tmp_path / "run" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")
    with pytest.raises(SordinoError, match="not the model that this run ended with"):
        verify(tmp_path / "run")


def test_an_edited_checkpoint_is_found(half_and_whole, tmp_path):
    table, folder = half_and_whole
    shutil.copytree(folder / "half", tmp_path / "run")
    path = tmp_path / "run" / "checkpoint.safetensors"
    content = path.read_bytes()
    assert content.count(b'\\"rounds_done\\": 3') == 1
    path.write_bytes(content.replace(b'\\"rounds_done\\": 3', b'\\"rounds_done\\": 1'))
    with pytest.raises(SordinoError, match="checksum does not match"):
        sordino.run(table, out=tmp_path / "run", resume=True)


def test_other_data_under_the_same_name_are_refused(tiny, tmp_path):
    rng = np.random.default_rng(0)

    def save(shift):
        x = rng.normal(size=(200, 5)).astype(np.float32)
        np.savez(
            tmp_path / "rows.npz",
            x_train=x + shift,
            y_train=(x[:, 0] > 0).astype(np.int64),
            x_test=x,
            y_test=(x[:, 0] > 0).astype(np.int64),
        )

    save(0.0)
    table = tiny(data={"source": str(tmp_path / "rows.npz")})
    stop_after(table, tmp_path / "run", 2)
    save(1.0)
    with pytest.raises(SordinoError, match="was begun with data_digest"):
        sordino.run(table, out=tmp_path / "run", resume=True)


def test_verifying_an_honest_run_gives_the_figures_of_both(half_and_whole):
    _, folder = half_and_whole
    found = verify(folder / "whole")
    assert found["finished"]
    assert found["ledger_lines"] == 5
    for entry in found["epsilon"].values():
        assert float(entry["ledger"]) == float(entry["summary"])
    assert not verify(folder / "half")["finished"]
    assert RunRecord(folder / "half").load_checkpoint().ledger_head == verify(folder / "half")["ledger_head"]
