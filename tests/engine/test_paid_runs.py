"""A paid run is never stranded, and what a run settled is read from its record, not worked out again."""

import json
import re

import pytest
from test_tampering import stop_after

import sordino
from sordino.core import SordinoError
from sordino.engine import pricing
from sordino.engine import run as engine
from sordino.engine.run import finish
from sordino.engine.verify import verify
from sordino.privacy.calibration import calibrate
from sordino.privacy.ledger import Ledger, OverBudget, read_lines

SECURE = {"noise_source": "secure", "epsilon": 4.0, "delta": 1e-3, "clip_norm": 0.5, "expected_cohort": 4}


def secure(tiny, **changes):
    table = tiny(rounds=6, **changes)
    table["privacy"] = {**SECURE, **changes.get("privacy", {})}
    table["data"].setdefault("test", "public-split")
    return table


def cut_off_in_round(monkeypatch, table, folder, number, **more):
    """Charge a round and die before it is done."""
    begin = engine.Run.evaluate

    def die(self, at):
        if at == number:
            raise KeyboardInterrupt
        return begin(self, at)

    with monkeypatch.context() as patch:
        patch.setattr(engine.Run, "evaluate", die)
        with pytest.raises(KeyboardInterrupt):
            sordino.run(table, out=folder, **more)


def test_a_secure_run_that_paid_twice_ends_early_and_says_so(tiny, tmp_path, monkeypatch):
    table = secure(tiny)
    cut_off_in_round(monkeypatch, table, tmp_path / "run", 2)
    summary = sordino.run(table, out=tmp_path / "run", resume=True)
    assert summary["rounds"] == 5
    assert summary["rounds_planned"] == 6
    assert "ended after 5 of 6 rounds" in summary["ended_early"]
    assert summary["ended_early"] in summary["warnings"]
    assert summary["epsilon"]["public"]["epsilon"] <= 4.0
    assert [line.round for line in read_lines(tmp_path / "run" / "ledger.jsonl")] == [0, 1, 2, 2, 3, 4]
    found = verify(tmp_path / "run")
    assert found["epsilon"]["public"]["ledger"] == pytest.approx(summary["epsilon"]["public"]["epsilon"], rel=1e-9)
    assert json.loads((tmp_path / "run" / "release" / "summary.json").read_text())["rounds"] == 5


@pytest.mark.parametrize("method", ["dp-fedavg", "dp-sgd"])
def test_spare_rounds_pay_for_rounds_that_were_cut_off(tiny, tmp_path, monkeypatch, method):
    table = secure(tiny, method={"name": method}, privacy={"spare_rounds": 2})
    for number in (2, 4):
        cut_off_in_round(monkeypatch, table, tmp_path / "run", number, resume=number > 2)
    summary = sordino.run(table, out=tmp_path / "run", resume=True)
    assert (summary["rounds"], summary["ended_early"]) == (6, "")
    assert verify(tmp_path / "run")["epsilon"]["public"]["ledger"] <= 4.0


def test_a_plan_offers_spare_rounds_and_says_what_they_cost(tiny):
    without, planned = (sordino.plan(secure(tiny, privacy={"spare_rounds": spare})) for spare in (0, 3))
    assert "spare_rounds = k plans for k of them" in without.to_json()["method_facts"]["spare rounds"]
    assert planned.tariff.noise_multiplier > without.tariff.noise_multiplier
    assert 3.9 < planned.epsilon["public"].epsilon <= 4.0
    told = re.search(r"^3, .* ε = ([0-9.]+) if there is none", planned.to_json()["method_facts"]["spare rounds"])
    assert 2.5 < float(told[1]) < 3.5
    assert "spare rounds" not in sordino.plan(tiny()).to_json()["method_facts"]


def test_a_spare_round_is_priced_as_the_costliest(tiny):
    mechanism = {"name": "noise-schedule", "decay": 0.5}
    table = tiny(privacy={"mechanism": mechanism, "spare_rounds": 2})
    tariff = sordino.plan(table).tariff
    assert sorted(tariff.bill(0, "public").values()) == [1, 1, 1, 3]
    assert tariff.bill(0, "public")[tariff.price(0, 3).in_view("public").event] == 3
    assert tariff.bill(0, "public", until=4).total() == 4


def test_finish_makes_a_model_of_what_was_paid_for_and_charges_nothing(tiny, tmp_path, monkeypatch):
    table = secure(tiny)
    cut_off_in_round(monkeypatch, table, tmp_path / "run", 3)
    before = (tmp_path / "run" / "ledger.jsonl").read_bytes()
    summary = finish(tmp_path / "run")
    assert summary["rounds"] == 3
    assert (tmp_path / "run" / "ledger.jsonl").read_bytes() == before
    assert (tmp_path / "run" / "release" / "model.safetensors").exists()
    verify(tmp_path / "run")


def test_a_seeded_run_can_be_finished_too(tiny, tmp_path):
    stop_after(tiny(), tmp_path / "run", 2)
    assert finish(tmp_path / "run")["rounds"] == 2
    verify(tmp_path / "run")
    assert sordino.run(tiny(rounds=2), out=tmp_path / "short")["accuracy"] == finish_accuracy(tmp_path / "run")


def finish_accuracy(folder):
    return json.loads((folder / "summary.json").read_text())["accuracy"]


def test_an_evaluation_that_cannot_be_paid_leaves_a_model_whose_accuracy_nobody_knows(tiny, tmp_path, monkeypatch):
    table = secure(tiny, data={"test": {"name": "charged", "epsilon": 1.0}})
    cut_off_in_round(monkeypatch, table, tmp_path / "run", 5)
    begin = Ledger._within

    def nothing_left_for_evaluation(self, events, epsilon):
        return begin(self, events, epsilon) and not any(type(event).__name__ == "LaplaceDpEvent" for event in events)

    monkeypatch.setattr(Ledger, "_within", nothing_left_for_evaluation)
    summary = sordino.run(table, out=tmp_path / "run", resume=True)
    assert summary["accuracy"] is None
    assert any("nobody knows it" in warning for warning in summary["warnings"])
    verify(tmp_path / "run")


def test_finish_needs_a_completed_round(tiny, tmp_path, monkeypatch):
    cut_off_in_round(monkeypatch, secure(tiny), tmp_path / "run", 0)
    with pytest.raises(SordinoError, match="no completed round"):
        finish(tmp_path / "run")


def test_a_budget_that_pays_for_no_round_is_an_error(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(Ledger, "_within", lambda self, events, epsilon: False)
    with pytest.raises(OverBudget):
        sordino.run(secure(tiny), out=tmp_path / "run")


def test_a_run_ends_early_where_a_phase_was_to_begin(tiny, tmp_path, monkeypatch):
    table = secure(tiny, tuning={"name": "unified", "head_rounds": 5}, engine={"checkpoint_every": 4})
    cut_off_in_round(monkeypatch, table, tmp_path / "run", 3)
    summary = sordino.run(table, out=tmp_path / "run", resume=True)
    assert summary["rounds"] < 6
    verify(tmp_path / "run")


def test_a_resumed_run_goes_on_with_the_noise_it_was_begun_with(tiny, tmp_path, monkeypatch):
    """Calibration may find another last digit in another process; the record's figure is the one that holds."""
    table = tiny(rounds=6)
    table["privacy"] = {**SECURE, "noise_source": "seeded"}
    sordino.run(table, out=tmp_path / "unbroken")
    cut_off_in_round(monkeypatch, table, tmp_path / "run", 2)
    monkeypatch.setattr(pricing, "calibrate", lambda *args, **kwargs: calibrate(*args, **kwargs) * (1 + 1e-4))
    sordino.run(table, out=tmp_path / "run", resume=True)
    for name in ("model.safetensors", "ledger.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "unbroken" / name).read_bytes()


def test_budgets_of_each_client_are_settled_once_too(tiny, tmp_path, monkeypatch):
    table = tiny(rounds=4, data={"clients": 3})
    table["privacy"] = {
        "client_epsilon": [2.0, 3.0, 4.0], "delta": 1e-3, "clip_norm": 0.5, "expected_cohort": 2, "noise": "local", "view": "server",
    }  # fmt: skip
    sordino.run(table, out=tmp_path / "unbroken")
    cut_off_in_round(monkeypatch, table, tmp_path / "run", 2)
    monkeypatch.setattr(pricing, "calibrate", lambda *args, **kwargs: pytest.fail("calibrated again"))
    sordino.run(table, out=tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "ledger.jsonl").read_bytes() == (tmp_path / "unbroken" / "ledger.jsonl").read_bytes()
