"""What a secure run publishes tells nothing of who was drawn."""

import json
import shutil

import numpy as np
import pytest
from test_paid_runs import cut_off_in_round, secure

import sordino
from sordino.cli import main
from sordino.engine.class_scores import NAMES
from sordino.engine.verify import verify
from sordino.privacy.noise import SecureNoise, SeededNoise
from sordino.report.terminal import summary_table

COHORT_TELLING = (
    "bytes_up",
    "bytes_down",
    "seconds",
    "per_client",
    "worst_client",
    "median_client",
    "ledger_head",
    "schedule",
)


def published(folder):
    release = folder / "release"
    return {
        "summary": json.loads((release / "summary.json").read_text()),
        "metrics": [json.loads(row) for row in (release / "metrics.jsonl").read_text().splitlines()],
    }


def keys_of(value):
    if isinstance(value, dict):
        return set(value) | {key for item in value.values() for key in keys_of(item)}
    if isinstance(value, list):
        return {key for item in value for key in keys_of(item)}
    return set()


METHODS = {
    "dp-fedavg": {"noise": "distributed"},
    "dp-sgd": {"view": "server"},
    "fedceo": {"noise": "local", "view": "server"},
    "centaur": {"noise": "distributed"},
}


@pytest.mark.parametrize("method", METHODS)
def test_a_release_holds_no_figure_of_the_cohort(tiny, tmp_path, method):
    table = secure(tiny, method={"name": method}, privacy=METHODS[method])
    sordino.run(table, out=tmp_path / "run")
    assert {path.name for path in (tmp_path / "run" / "release").iterdir()} == {
        "model.safetensors",
        "summary.json",
        "metrics.jsonl",
        "prediction.json",
    }
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert not keys_of(published(tmp_path / "run")) & set(COHORT_TELLING)
    assert not [key for key in keys_of(published(tmp_path / "run")) if key.startswith("non_private")]
    verify(tmp_path / "run")


def test_a_release_can_be_shown_by_whoever_gets_it(tiny, tmp_path, capsys, monkeypatch):
    sordino.run(secure(tiny), out=tmp_path / "run")
    shutil.copytree(tmp_path / "run" / "release", tmp_path / "elsewhere" / "release")
    monkeypatch.setattr("sys.argv", ["sordino", "show", str(tmp_path / "elsewhere" / "release"), "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["epsilon"]["public"]["epsilon"] <= 4.0 and len(shown["metrics"]) > 0
    assert summary_table([shown]).row_count == 1


class FixedCohort(SecureNoise):
    """Secure noise that draws the cohort we want: `share` of the clients."""

    share = 0.0

    def uniform(self, size, *, stream):
        coins = SeededNoise(0).uniform(size, stream=stream)
        coins[:] = 1.0
        coins[: round(self.share * size)] = 0.0
        return coins


@pytest.mark.parametrize("method", METHODS)
def test_runs_with_different_cohorts_publish_the_same_figures(tiny, tmp_path, monkeypatch, method):
    """All but the scores, which are the model's."""
    told = []
    for share in (0.1, 0.6):
        monkeypatch.setattr(FixedCohort, "share", share)
        monkeypatch.setattr("sordino.engine.noise_sources.SecureNoise", FixedCohort)
        table = secure(tiny, method={"name": method}, privacy=METHODS[method])
        sordino.run(table, out=tmp_path / f"run-{share}")
        release = published(tmp_path / f"run-{share}")
        for row in (release["summary"], *release["metrics"]):
            for name in ("accuracy", "auroc", "accuracy_epsilon_area", *NAMES):
                row.pop(name, None)
        told.append(release)
    assert told[0] == told[1]


def test_the_published_figure_is_never_below_the_ledger(tiny, tmp_path, monkeypatch):
    table = secure(tiny, method={"name": "dp-sgd"}, privacy={"view": "server"})
    cut_off_in_round(monkeypatch, table, tmp_path / "run", 2)
    cut_off_in_round(monkeypatch, table, tmp_path / "run", 2, resume=True)
    summary = sordino.run(table, out=tmp_path / "run", resume=True)
    release = published(tmp_path / "run")["summary"]
    for view in ("public", "server", "client"):
        assert float(release["epsilon"][view]["epsilon"]) >= float(summary["epsilon"][view]["epsilon"])
    assert release["epsilon"]["server"]["epsilon"] <= 4.0


def test_simulations_publish_nothing(tiny, tmp_path):
    sordino.run(tiny(), out=tmp_path / "run")
    assert not (tmp_path / "run" / "release").exists()
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_the_reason_in_a_summary_is_that_of_the_worst_client(tiny, tmp_path):
    """Clients of unequal size pay for unequal rates; the last to be charged need not be the one that paid most."""
    sizes = [40, 8, 4]
    rng = np.random.default_rng(1)
    x = rng.normal(size=(sum(sizes), 4)).astype(np.float32)
    np.savez(
        tmp_path / "rows.npz",
        x_train=x,
        y_train=(x[:, 0] > 0).astype(np.int64),
        x_test=x,
        y_test=(x[:, 0] > 0).astype(np.int64),
    )
    table = tiny(
        data={
            "source": str(tmp_path / "rows.npz"),
            "clients": 3,
            "partition": {"name": "quantity", "ratios": [1, 2, 10]},
        },
        method={"name": "dp-sgd", "batch_size": 4},
        privacy={"sampler": "everyone", "noise_multiplier": 1.0},
    )
    table["privacy"].pop("expected_cohort")
    summary = sordino.run(table, out=tmp_path / "run")
    worst = summary["epsilon"]["public"]
    assert worst["worst_client"] == 0
    assert "rate 1 " in worst["because"]
