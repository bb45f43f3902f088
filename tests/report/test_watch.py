"""`sordino watch` on a real run with clients in processes, and `sordino reconcile` on what it left."""

import json
import shutil

from typer.testing import CliRunner

from sordino.cli import app, watching
from sordino.engine.run import run_experiment
from sordino.experiment import experiment


def test_a_run_is_watched_and_its_ledgers_agree(tiny, tmp_path, monkeypatch):
    seen = []

    def look(moment):
        if moment.stage == "training":
            said = CliRunner().invoke(app, ["watch", str(tmp_path / "run"), "--once", "--json"])
            seen.append(json.loads(said.stdout))

    table = tiny(
        rounds=2,
        data={"clients": 2, "partition": {"name": "iid"}, "options": {"limit": 60, "test_limit": 20}},
        privacy={"sampler": "everyone", "expected_cohort": None, "noise": "local"},
        engine={"name": "process"},
    )
    run_experiment(experiment(table), tmp_path / "run", watch=look)
    assert [one["rounds_done"] for one in seen] == [1, 2]
    assert seen[0]["epsilon"]["server"] < seen[1]["epsilon"]["server"]
    assert [(node["name"], node["answered"], node["missed"]) for node in seen[1]["nodes"]] == [
        ("client 0", 2, 0),
        ("client 1", 2, 0),
    ]
    shown = CliRunner().invoke(app, ["watch", str(tmp_path / "run")])
    assert "round 2 of 2" in shown.stdout and "client 1" in shown.stdout and "all rounds are done" in shown.stdout
    monkeypatch.setattr(watching.time, "sleep", lambda seconds: shutil.copytree(tmp_path / "run", tmp_path / "later"))
    waited = CliRunner().invoke(app, ["watch", str(tmp_path / "later")])
    assert waited.output.startswith("Waiting for a run to begin in ") and "round 2 of 2" in waited.output
    assert CliRunner().invoke(app, ["watch", str(tmp_path / "never"), "--once"]).exit_code != 0
    own = [str(tmp_path / "run" / "private-to-each-client" / f"client-{client}") for client in range(2)]
    agreed = CliRunner().invoke(app, ["reconcile", str(tmp_path / "run"), *own, "--json"])
    assert [(row["client"], row["releases"], row["empty_turns"]) for row in json.loads(agreed.stdout)] == [
        (0, 2, 0),
        (1, 2, 0),
    ]
