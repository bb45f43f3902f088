"""Whole runs: what they write, that plan and ledger agree, and that every placement and unit works."""

import json
import math

import numpy as np
import pytest
from safetensors.torch import load_file

import sordino
from sordino.core import SordinoError
from sordino.privacy.ledger import read_lines

STEPS = {"name": "dp-sgd", "local_steps": 2, "batch_size": 32, "learning_rate": 0.5}


def test_a_run_leaves_a_complete_record(tiny, tmp_path):
    summary = sordino.run(tiny(), out=tmp_path / "run")
    folder = tmp_path / "run"
    assert {path.name for path in folder.iterdir()} == {
        "experiment.json",
        "ledger.jsonl",
        "metrics.jsonl",
        "checkpoint.safetensors",
        "model.safetensors",
        "summary.json",
        "prediction.json",
        "private-data-identity.json",
    }
    assert json.loads((folder / "summary.json").read_text())["accuracy"] == summary["accuracy"]
    assert len(read_lines(folder / "ledger.jsonl")) == 4
    assert set(load_file(folder / "model.safetensors")) == {"body.1.weight", "body.1.bias", "head.weight", "head.bias"}
    assert json.loads((folder / "experiment.json").read_text())["versions"]["torch"].startswith("2")
    assert summary["simulation"]
    assert summary["bytes_up"] == summary["bytes_down"] > 0


@pytest.mark.parametrize("noise", ["central", "distributed", "local"])
@pytest.mark.parametrize("sampler", ["poisson", "fixed-size", "everyone"])
def test_every_placement_and_sampler_keeps_its_promise(tiny, tmp_path, noise, sampler):
    view = "public" if noise == "central" else "server"
    table = tiny(
        privacy={
            "epsilon": 20.0,
            "noise_multiplier": None,
            "view": view,
            "noise": noise,
            "sampler": sampler,
            "participation_cap": 2,
        }
    )
    planned = sordino.plan(table)
    summary = sordino.run(table, out=tmp_path / "run")
    reached = summary["epsilon"][view]["epsilon"]
    assert 0 < reached <= 20.0
    assert 19.8 <= planned.epsilon[view].epsilon <= 20.0
    assert math.isinf(summary["epsilon"]["server"]["epsilon"]) == (noise == "central")


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_the_planned_epsilon_is_the_ledgers_at_the_end(tiny, tmp_path, mechanism):
    table = tiny(privacy={"mechanism": mechanism, "noise_multiplier": 2.0})
    planned = sordino.plan(table)
    summary = sordino.run(table, out=tmp_path / "run")
    assert planned.epsilon["public"].epsilon == summary["epsilon"]["public"]["epsilon"]


def test_noisy_steps_inside_clients_price_every_client_by_its_own_size(tiny, tmp_path):
    table = tiny(
        data={"clients": 3, "partition": {"name": "quantity", "ratios": [6, 2, 1]}},
        method=STEPS,
        privacy={"sampler": "everyone", "expected_cohort": None},
    )
    planned = sordino.plan(table)
    summary = sordino.run(table, out=tmp_path / "run")
    each = summary["epsilon"]["server"]["per_client"]
    assert (
        each["0"]
        < each["1"]
        < each["2"]
        == summary["epsilon"]["server"]["epsilon"]
        == planned.epsilon["server"].epsilon
    )
    assert summary["unit"] == "example"


def test_noisy_steps_in_one_place_are_bare_to_the_server(tiny, tmp_path):
    summary = sordino.run(tiny(method={**STEPS, "where": "one-place"}), out=tmp_path / "run")
    assert math.isinf(summary["epsilon"]["server"]["epsilon"])
    assert summary["epsilon"]["public"]["epsilon"] < 10
    assert summary["clients"] == 1


def test_without_privacy_every_view_is_infinite(tiny, tmp_path):
    summary = sordino.run(tiny(method={"name": "fedavg", "epochs": 3}), out=tmp_path / "run")
    assert all(math.isinf(entry["epsilon"]) for entry in summary["epsilon"].values())
    assert summary["accuracy"] > 0.5


def test_clients_with_budgets_of_their_own_retire_when_theirs_is_spent(tiny, tmp_path):
    budgets = [2.0 if client % 2 else 50.0 for client in range(12)]
    table = tiny(
        rounds=6,
        privacy={
            "client_epsilon": budgets,
            "view": "server",
            "noise": "local",
            "sampler": "everyone",
            "noise_multiplier": 3.0,
            "expected_cohort": None,
        },
    )
    summary = sordino.run(table, out=tmp_path / "run")
    each = {int(client): epsilon for client, epsilon in summary["epsilon"]["server"]["per_client"].items()}
    assert all(each[client] <= budgets[client] for client in each)
    lines = read_lines(tmp_path / "run" / "ledger.jsonl")
    assert set(lines[-1].participants) == {0, 2, 4, 6, 8, 10}
    assert set(lines[0].participants) == set(range(12))


def test_each_client_draws_its_own_noise_for_its_own_budget(tiny, tmp_path):
    budgets = [5.0 + 5 * (client % 2) for client in range(12)]
    table = tiny(
        privacy={
            "client_epsilon": budgets,
            "view": "server",
            "noise": "local",
            "noise_multiplier": None,
            "sampler": "everyone",
            "expected_cohort": None,
        }
    )
    summary = sordino.run(table, out=tmp_path / "run")
    each = {int(client): epsilon for client, epsilon in summary["epsilon"]["server"]["per_client"].items()}
    assert all(0.99 * budgets[client] <= each[client] <= budgets[client] for client in each)


def test_the_same_seed_gives_the_same_bits_with_any_number_of_workers(tiny, tmp_path):
    models = []
    for workers in (1, 3):
        sordino.run(tiny(engine={"workers": workers}), out=tmp_path / str(workers))
        models.append((tmp_path / str(workers) / "model.safetensors").read_bytes())
    assert models[0] == models[1]


def test_stacked_clients_agree_with_workers_to_float_tolerance(tiny, tmp_path):
    models = []
    for schedule in ("workers", "stacked"):
        table = tiny(
            model={"name": "mlp", "hidden": [8], "dropout": 0.3},
            method={"momentum": 0.9},
            engine={"schedule": schedule},
        )
        sordino.run(table, out=tmp_path / schedule)
        models.append(load_file(tmp_path / schedule / "model.safetensors"))
    for name, value in models[0].items():
        assert (value - models[1][name]).abs().max() < 1e-5


def test_secure_noise_is_not_a_simulation(tiny, tmp_path):
    summary = sordino.run(tiny(data={"test": "public-split"}, privacy={"noise_source": "secure"}), out=tmp_path / "run")
    assert not summary["simulation"]
    assert summary["noise_source"] == "secure"
    assert summary["non_private_diagnostics"] == {}


def test_head_tuning_trains_on_cached_features_and_leaves_the_body_alone(tiny, tmp_path):
    images = np.random.default_rng(0).integers(256, size=(120, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "public.npz", x_train=images, y_train=np.arange(120) % 10)
    public = {
        "source": str(tmp_path / "public.npz"),
        "visibility": "public",
        "clients": 4,
        "partition": {"name": "iid"},
    }
    sordino.run(tiny(method={"name": "fedavg"}, data=public), out=tmp_path / "first")
    table = tiny(tuning={"name": "head"}, start={"name": "file", "path": str(tmp_path / "first" / "model.safetensors")})
    summary = sordino.run(table, out=tmp_path / "second")
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "second"))
    assert (before["body.1.weight"] == after["body.1.weight"]).all()
    assert (before["head.weight"] != after["head.weight"]).any()
    assert summary["trained_parameters"] == 8 * 10 + 10


def test_budget_is_refused_before_anything_is_released(tiny, tmp_path):
    with pytest.raises(SordinoError, match="No noise can reach"):
        sordino.run(
            tiny(privacy={"epsilon": 1.0, "noise_multiplier": None, "view": "server", "noise": "central"}),
            out=tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()


def test_contributions_that_are_not_finite_are_counted_and_left_out(tiny, tmp_path, monkeypatch):
    from sordino.methods.local_sgd import LocalSgd

    honest = LocalSgd.run

    def broken(self, start, examples, context):
        update = honest(self, start, examples, context)
        return update * float("nan") if context.client == 3 else update

    monkeypatch.setattr(LocalSgd, "run", broken)
    summary = sordino.run(tiny(privacy={"sampler": "everyone", "expected_cohort": None}), out=tmp_path / "run")
    assert summary["non_private_diagnostics"]["non_finite_contributions_since_start_or_resume"] == 4
    assert all(value.isfinite().all() for value in load_file(tmp_path / "run" / "model.safetensors").values())


@pytest.mark.parametrize(("where", "drawn"), [("clients", "local"), ("one-place", "central")])
def test_noisy_steps_say_who_draws_their_noise(tiny, where, drawn):
    assert sordino.plan(tiny(method={**STEPS, "where": where})).to_json()["noise"] == drawn
