"""Interruptions: a run that is killed and resumed ends in the same bits, with a ledger that has no gap and no double charge."""

import multiprocessing
import os
import random
import time

import pytest

import sordino
from sordino.core import SordinoError
from sordino.engine import record
from sordino.engine.moment import Moment
from sordino.engine.record import RunRecord
from sordino.engine.run import run_experiment
from sordino.experiment import experiment
from sordino.privacy.ledger import read_lines

KILLS = 20
PRELOADED = [
    "sordino.engine.run",
    "sordino.engine.simulate.simulator",
    "sordino.data.embedded",
    "sordino.data.partition.dirichlet",
    "sordino.methods.dp_fedavg",
    "sordino.models.mlp",
    "sordino.pretrain.scratch",
    "sordino.tuning.full",
    "dp_accounting",
    "scipy.stats",
]
"""What a child would import first, which takes longer than its rounds."""
SETTLED = ("model.safetensors", "ledger.jsonl", "metrics.jsonl")


def table(tiny):
    return tiny(rounds=40, engine={"evaluate_every": 1})


def _child(settings, folder):
    run_experiment(experiment(settings), folder, resume=True)


@pytest.fixture(scope="module")
def servers():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def test_twenty_kills_at_random_moments_change_nothing(tiny, tmp_path, servers):
    sordino.run(table(tiny), out=tmp_path / "unbroken")
    moments, kills, runs = random.Random(0), 0, 0
    while kills < KILLS:
        folder = tmp_path / f"broken-{runs}"
        child = servers.Process(target=_child, args=(table(tiny), folder))
        child.start()
        _wait_until_working(folder, child)
        time.sleep(moments.uniform(0.0, 0.12))
        child.kill()
        child.join()
        if (folder / "summary.json").exists():
            _same_as_unbroken(folder, tmp_path / "unbroken")
            runs += 1
        else:
            kills += 1
    if not (folder / "summary.json").exists():
        sordino.run(table(tiny), out=folder, resume=True)
    _same_as_unbroken(folder, tmp_path / "unbroken")


def _same_as_unbroken(folder, unbroken):
    for name in SETTLED:
        assert (folder / name).read_bytes() == (unbroken / name).read_bytes(), name
    assert [line.round for line in read_lines(folder / "ledger.jsonl")] == list(range(40))


def _wait_until_working(folder, child):
    """The child has charged at least one more line than the checkpoint it resumed from, or it is done."""
    ledger = folder / "ledger.jsonl"
    before = ledger.stat().st_mtime_ns if ledger.exists() else 0
    while child.is_alive() and not (ledger.exists() and ledger.stat().st_mtime_ns > before):
        time.sleep(0.002)


def test_ctrl_c_keeps_completed_rounds(tiny, tmp_path):
    def interrupt(moment: Moment) -> None:
        if moment.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment(tiny(rounds=6)), tmp_path / "run", watch=interrupt)
    assert RunRecord(tmp_path / "run").load_checkpoint().rounds_done == 3
    sordino.run(tiny(rounds=6), out=tmp_path / "run", resume=True)
    sordino.run(tiny(rounds=6), out=tmp_path / "other")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tmp_path / "other" / "model.safetensors"
    ).read_bytes()


def test_a_checkpoint_may_be_rarer_than_rounds(tiny, tmp_path):
    def interrupt(moment: Moment) -> None:
        if moment.done == 5:
            raise KeyboardInterrupt

    rare = tiny(rounds=8, engine={"checkpoint_every": 3})
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment(rare), tmp_path / "run", watch=interrupt)
    sordino.run(rare, out=tmp_path / "run", resume=True)
    assert [line.round for line in read_lines(tmp_path / "run" / "ledger.jsonl")] == list(range(8))


def test_a_damaged_checkpoint_is_refused(tiny, tmp_path):
    _stop_after(tiny, tmp_path, 2)
    path = tmp_path / "run" / "checkpoint.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 0x40
    path.write_bytes(content)
    with pytest.raises(SordinoError, match="checksum does not match"):
        sordino.run(tiny(), out=tmp_path / "run", resume=True)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(SordinoError, match="is damaged"):
        sordino.run(tiny(), out=tmp_path / "run", resume=True)


def _stop_after(tiny, tmp_path, rounds):
    def interrupt(moment: Moment) -> None:
        if moment.done == rounds:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment(tiny()), tmp_path / "run", watch=interrupt)


def test_a_folder_is_never_mixed_up(tiny, tmp_path):
    _stop_after(tiny, tmp_path, 2)
    with pytest.raises(SordinoError, match="belongs to another experiment"):
        sordino.run(tiny(seed=4), out=tmp_path / "run", resume=True)
    with pytest.raises(SordinoError, match="add --resume"):
        sordino.run(tiny(), out=tmp_path / "run")
    sordino.run(tiny(), out=tmp_path / "run", resume=True)
    with pytest.raises(SordinoError, match="is complete"):
        sordino.run(tiny(), out=tmp_path / "run", resume=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("precious")
    with pytest.raises(SordinoError, match="holds other files"):
        sordino.run(tiny(), out=tmp_path / "full")


def test_a_full_disk_keeps_the_last_completed_round(tiny, tmp_path, monkeypatch):
    _stop_after(tiny, tmp_path, 2)
    real, calls = os.fsync, []

    def refuse(descriptor):
        calls.append(descriptor)
        if len(calls) > 4:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(SordinoError, match="no room left"):
        sordino.run(tiny(), out=tmp_path / "run", resume=True)
    monkeypatch.undo()
    assert not list((tmp_path / "run").glob("*.tmp"))
    sordino.run(tiny(), out=tmp_path / "run", resume=True)
    sordino.run(tiny(), out=tmp_path / "other")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tmp_path / "other" / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize(
    ("then", "now", "remedy"),
    [(None, "avx2", "SORDINO_KERNELS=off"), ("avx2", None, "SORDINO_KERNELS=avx2, on a processor that has it"),
     ("avx512", "avx2", "SORDINO_KERNELS=avx512, on a processor that has it"), ("other", "avx2", "begin it again")],
)  # fmt: skip
def test_a_run_does_not_change_its_kernels(tiny, tmp_path, monkeypatch, then, now, remedy):
    monkeypatch.setattr(record, "form", lambda: then)
    _stop_after(tiny, tmp_path, 2)
    monkeypatch.setattr(record, "form", lambda: now)
    words = "torch alone" if then is None else f"compiled kernels, {then}"
    with pytest.raises(SordinoError, match=f"begun with {words}, .* {remedy}"):
        sordino.run(tiny(), out=tmp_path / "run", resume=True)
