"""One run, one process; and a folder in which a run was killed before it began is as good as new."""

import multiprocessing
import os

import pytest

import sordino
from sordino.core import SordinoError
from sordino.engine import run as engine
from sordino.engine.record import RunRecord
from sordino.engine.run import run_experiment
from sordino.experiment import experiment
from sordino.privacy.ledger import Ledger


def test_a_second_process_gets_one_sentence_and_changes_nothing(tiny, tmp_path):
    folder, seen = tmp_path / "run", []

    def intrude(moment):
        if moment.done == 2:
            before = (folder / "ledger.jsonl").read_bytes()
            with pytest.raises(SordinoError, match="Another process is working on the run"):
                run_experiment(experiment(tiny()), folder, resume=True)
            seen.append(before == (folder / "ledger.jsonl").read_bytes())

    run_experiment(experiment(tiny()), folder, watch=intrude)
    assert seen == [True]
    assert not (folder / ".lock").exists()


def _race(table, folder, out):
    try:
        out.put(sordino.run(table, out=folder, resume=True)["epsilon"]["public"]["epsilon"])
    except SordinoError as error:
        out.put(str(error))


def test_processes_that_race_for_a_new_folder_leave_one_whole_run(tiny, tmp_path):
    context = multiprocessing.get_context("fork")
    out = context.Queue()
    table = tiny(rounds=12)
    racers = [context.Process(target=_race, args=(table, tmp_path / "run", out)) for _ in range(3)]
    for racer in racers:
        racer.start()
    said = [out.get(timeout=120) for _ in racers]
    for racer in racers:
        racer.join()
    finished = [word for word in said if isinstance(word, float)]
    assert len(finished) == 1
    assert all(
        "Another process" in word or "is complete" in word or "unfinished run" in word
        for word in said
        if word != finished[0]
    )
    sordino.run(table, out=tmp_path / "alone")
    for name in ("ledger.jsonl", "model.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


@pytest.mark.parametrize("dies_in", ["create", "begin"])
def test_a_kill_before_the_run_begins_leaves_a_folder_that_can_be_used_again(tiny, tmp_path, dies_in):
    def child():
        where = Ledger if dies_in == "create" else RunRecord
        setattr(where, dies_in, lambda *args: os._exit(9))
        run_experiment(experiment(tiny()), tmp_path / "run")

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 9
    (tmp_path / "run" / ".experiment.json.77-ab.tmp").write_bytes(b'{"schema"')
    assert sordino.run(tiny(), out=tmp_path / "run")["rounds"] == 4
    assert not list((tmp_path / "run").glob(".*"))


def test_a_run_that_is_refused_leaves_no_folder(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "settle", lambda *args: (_ for _ in ()).throw(SordinoError("Refused.")))
    with pytest.raises(SordinoError, match="Refused"):
        sordino.run(tiny(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
