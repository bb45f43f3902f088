"""The audit command: canaries in an experiment's own rounds, for every kind of method, on every engine."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from sordino.audit import auditing
from sordino.audit.auditing import audit_experiment
from sordino.audit.planting.ground import make_ground
from sordino.audit.planting.rounds import canary_run, promised_views
from sordino.cli import app
from sordino.cli.attacking import read_seconds
from sordino.core import SordinoError
from sordino.experiment import experiment
from sordino.files import to_json
from sordino.privacy.door import Permit

DEEP = {"name": "mlp", "hidden": [16, 8]}
SPARSE = {"name": "dp-pfeddsu", "layers": 1, "share": 0.5, "head_epochs": 1}


def table(method="dp-fedavg", clients=24, rounds=2, model=None, engine=None, **privacy):
    shared = {"noise_multiplier": 1.0, "delta": 1e-4, "clip_norm": 0.5, "expected_cohort": clients / 2}
    return {
        "name": "audited",
        "seed": 5,
        "rounds": rounds,
        "data": {"source": "digits", "clients": clients, "test": "public-split"},
        "model": model or DEEP,
        "method": method if isinstance(method, dict) else {"name": method},
        "privacy": {**shared, **privacy},
        "engine": engine or {},
    }


def seen(tmp_path, given, repeat=0):
    ground = make_ground(experiment(given), scratch=tmp_path)
    return canary_run(ground, repeat=repeat, views=promised_views(ground), scratch=tmp_path)


def noise_forgotten(patch):
    patch.setattr(Permit, "_noise", lambda self, like, scale, verb, part: torch.zeros_like(like))


@pytest.mark.parametrize(
    ("method", "noise", "views"),
    [
        ("dp-fedavg", "central", {"public", "client"}),
        ("dp-fedadam", "distributed", {"public", "server", "client"}),
        ("fedceo", "local", {"public", "server", "client"}),
        ({**SPARSE, "mask": "global"}, "distributed", {"public", "server", "client"}),
        ({**SPARSE, "mask": "local"}, "distributed", set()),
        ({"name": "dp-sgd", "batch_size": 20}, "central", {"public", "server", "client"}),
        ({"name": "dp-sgd", "where": "one-place", "batch_size": 100}, "central", {"public", "client"}),
        ("fedavg", "central", set()),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),  # sets have no order of their own
)
def test_without_noise_every_canary_that_was_drawn_is_told_from_those_that_are_out(
    method, noise, views, tmp_path, monkeypatch
):
    """And nothing is looked at where nothing is promised."""
    noise_forgotten(monkeypatch)
    run = seen(tmp_path, table(method, noise=noise, sampler="everyone")) if views else None
    assert (
        set(
            run.sights if run else promised_views(make_ground(experiment(table(method, noise=noise)), scratch=tmp_path))
        )
        == views
    )
    for view in views:
        judged = run.judged(view)
        scores, coins = run.sights[view].scores[judged], run.coins[judged]
        if not isinstance(method, dict) or method["name"] != "dp-sgd":
            assert scores[coins].min() > scores[~coins].max()
        assert scores[coins].mean() > scores[~coins].max()


def test_the_audit_of_a_kept_promise_holds_and_one_without_noise_is_beaten(monkeypatch):
    monkeypatch.setattr(auditing, "ENOUGH", 320)
    given = experiment(table(clients=40, rounds=3, noise="distributed"))
    honest = audit_experiment(given, budget_seconds=60)
    assert honest.holds
    assert all(0 <= verdict.proven <= verdict.claimed < verdict.power * 50 for verdict in honest.verdicts)
    assert {check.name for check in honest.checks} >= {"noise as charged", "noise drawn afresh", "drawn as charged"}
    noise_forgotten(monkeypatch)
    broken = audit_experiment(given, budget_seconds=60)
    assert not broken.holds
    assert not broken.verdicts[0].holds


def test_clients_in_processes_are_seen_as_those_in_this_one(tmp_path):
    one, other = (
        seen(tmp_path, table(clients=2, rounds=2, noise="local", engine={"name": name}))
        for name in ("simulate", "process")
    )
    for view in one.sights:
        np.testing.assert_array_equal(one.sights[view].scores, other.sights[view].scores)


def test_the_command_writes_a_record_and_says_by_its_exit_code_whether_the_ledger_was_beaten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(auditing, "MOST_RUNS", 1)  # as many on any machine, so that the verdict is always the same
    path = tmp_path / "audited.toml"
    path.write_text(
        'rounds = 2\nmodel = "logistic"\nmethod = "dp-fedavg"\ndata = { source = "digits", clients = 30, test = "public-split" }\n'
        'privacy = { noise_multiplier = 1.0, delta = 1e-3, sampler = "everyone" }\n'
    )
    done = CliRunner().invoke(app, ["audit", str(path), "--budget", "1s", "--view", "public"])
    assert done.exit_code == 0, done.output
    assert "holds" in done.output and "power" in done.output
    record = json.loads((tmp_path / "audits" / "audited" / "audit.json").read_text())
    assert record["kind"] == "audit" and record["views"]["public"]["holds"] and list(record["views"]) == ["public"]
    shown = CliRunner().invoke(app, ["show", "audits/audited"])
    assert shown.exit_code == 0 and "power" in shown.output, shown.output
    noise_forgotten(monkeypatch)
    done = CliRunner().invoke(app, ["audit", str(path), "--budget", "1s", "--json"])
    assert done.exit_code == 1
    assert json.loads(done.output)["holds"] is False


def test_an_audit_tells_nothing_of_rows_or_coins(tmp_path):
    text = to_json(audit_experiment(experiment(table(clients=12)), budget_seconds=1).to_json())
    assert "participants" not in text and "scores" not in text and "coins" not in text


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("5m", 300), ("0.5h", 1800), ("12", 12)])
def test_budgets_are_times(text, seconds):
    assert read_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-3m", "0s", "5 days"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(SordinoError, match="takes a time"):
        read_seconds(text)
