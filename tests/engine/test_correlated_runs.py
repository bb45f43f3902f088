"""Runs with correlated noise: the ledger of independent noise, the same bits after a crash, and a memory that stays secret."""

import dataclasses

import pytest
import torch

import sordino
from sordino.engine.record import RunRecord
from sordino.engine.run import run_experiment
from sordino.engine.verify import verify
from sordino.experiment import experiment
from sordino.privacy.correlated_noise import RECENT
from sordino.privacy.ledger import read_lines

ROUNDS = 9
BEGUN = 4
"""Where in the memory's last row the round stands at which its block began."""


@pytest.fixture
def table(tiny):
    def of(mechanism="banded", *, checkpoint_every=1, **changes):
        privacy = {"mechanism": mechanism, "participation_cap": 3, "expected_cohort": 3}
        engine = {"checkpoint_every": checkpoint_every}
        return tiny(rounds=ROUNDS, privacy={**privacy, **changes}, engine=engine, data={"test": "public-split"})

    return of


def stop_after(rounds, settings, folder, *, resume=False):
    def interrupt(moment):
        if moment.stage == "training" and moment.done == rounds:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment(settings), folder, resume=resume, watch=interrupt)


def memory(folder):
    state = RunRecord(folder).load_checkpoint().state
    return {key: value for key, value in state.items() if "noise" in key}


def begun(folder):
    (last,) = (value for key, value in memory(folder).items() if value.dtype == torch.float64)
    return int(last[BEGUN])


def rounds_charged(folder):
    return [line.round for line in read_lines(folder / "ledger.jsonl")]


def test_the_ledger_charges_what_it_charges_for_independent_noise(table, tmp_path):
    lines = {}
    for mechanism in ("banded", "gaussian"):
        summary = sordino.run(table(mechanism), out=tmp_path / mechanism)
        lines[mechanism] = read_lines(tmp_path / mechanism / "ledger.jsonl")
        assert verify(tmp_path / mechanism)["epsilon"]["public"]["ledger"] == summary["epsilon"]["public"]["epsilon"]
    assert [dataclasses.replace(line, mechanism="gaussian") for line in lines["banded"]] == lines["gaussian"]
    assert {line.mechanism for line in lines["banded"]} == {"banded"}
    assert (tmp_path / "banded/model.safetensors").read_bytes() != (
        tmp_path / "gaussian/model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize(("stop", "checkpoint_every"), [(1, 1), (4, 1), (8, 1), (5, 3), (2, 3)])
def test_a_seeded_run_is_resumed_to_the_same_bits(table, tmp_path, stop, checkpoint_every):
    settings = table(checkpoint_every=checkpoint_every)
    stop_after(stop, settings, tmp_path / "broken")
    sordino.run(settings, out=tmp_path / "broken", resume=True)
    sordino.run(settings, out=tmp_path / "whole")
    for name in ("model.safetensors", "ledger.jsonl"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_secure_run_that_lost_rounds_pays_again_and_begins_a_new_block(table, tmp_path):
    settings = table(noise_source="secure", checkpoint_every=2)
    stop_after(5, settings, tmp_path / "run")
    assert begun(tmp_path / "run") == 0
    stop_after(7, settings, tmp_path / "run", resume=True)
    assert rounds_charged(tmp_path / "run") == [0, 1, 2, 3, 4, 4, 5, 6]
    assert begun(tmp_path / "run") == 4
    summary = sordino.run(settings, out=tmp_path / "run", resume=True)
    assert rounds_charged(tmp_path / "run") == [0, 1, 2, 3, 4, 4, 5, 6, 6, 7, 8]
    assert verify(tmp_path / "run")["epsilon"]["public"]["ledger"] == summary["epsilon"]["public"]["epsilon"]


def test_a_secure_run_that_lost_nothing_goes_on_in_its_block(table, tmp_path):
    settings = table(noise_source="secure")
    stop_after(4, settings, tmp_path / "run")
    before = memory(tmp_path / "run")
    stop_after(5, settings, tmp_path / "run", resume=True)
    after = memory(tmp_path / "run")
    assert begun(tmp_path / "run") == 0
    (recent,) = (key for key, value in before.items() if value.dtype == torch.float32)
    assert torch.equal(before[recent][1], after[recent][1])
    assert not torch.equal(before[recent][0], after[recent][0])


def test_the_memory_is_in_no_release_and_gone_when_all_is_done(table, tmp_path):
    settings = table(noise_source="secure")
    stop_after(4, settings, tmp_path / "run")
    assert len(memory(tmp_path / "run")) == 2
    assert RECENT.encode() in (tmp_path / "run/checkpoint.safetensors").read_bytes()
    sordino.run(settings, out=tmp_path / "run", resume=True)
    assert not memory(tmp_path / "run")
    published = [path for path in (tmp_path / "run/release").rglob("*") if path.is_file()]
    assert "model.safetensors" in {path.name for path in published}
    assert not any(RECENT.encode() in path.read_bytes() for path in published)
