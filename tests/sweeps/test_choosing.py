"""Priced tuning: drawn before it is run, priced in each view, and published without what must stay secret."""

import json
import math

import pytest
from safetensors import safe_open

from sordino.core import SordinoError
from sordino.privacy.accounting import rdp_curve, rdp_epsilon, spent
from sordino.sweeps.checks import check
from sordino.sweeps.choice_price import price_choice
from sordino.sweeps.choosing import run_choice
from sordino.sweeps.draws import read_rule, settle_draws
from sordino.sweeps.grid import Sweep
from sordino.sweeps.pool import Here
from sordino.sweeps.running import run_sweep

RATES = {"method.learning_rate": ["0.03", "0.3"]}


@pytest.fixture
def grid(tiny):
    def make(axes=RATES):
        table = tiny(rounds=2, data={"test": "public-split"}, privacy={"noise": "distributed"})
        return Sweep(table=table, axes=axes, seeds=1)

    return make


def candidates(sweep, folder):
    cells = (sweep.cell(one, sweep.first_seed) for one in sweep.configurations())
    return check(cells, folder=folder, by=Here())[0]


def test_the_best_of_the_drawn_runs_is_chosen_and_its_price_is_on_record(grid, tmp_path):
    rule = read_rule("geometric", 4.0)
    results = run_choice(grid(), rule, tmp_path, folder=tmp_path)
    choice = json.loads((tmp_path / "sweep.json").read_text())["choice"]
    found = {name: row["accuracy"] for row in results.rows for name in row["runs"]}
    assert choice["chosen"]["accuracy"] == max(found.values()) == found[choice["chosen"]["run"]]
    alone = choice["chosen"]["epsilon_of_the_run_alone"]
    assert choice["epsilon"]["public"]["epsilon"] > alone["public"]
    assert choice["runs_kept_secret"] == len(json.loads((tmp_path / "draws.json").read_text())["draws"])
    assert f"ε = {choice['epsilon']['public']['epsilon']:.3f}" in choice["sentence"]
    assert not (tmp_path / "release").exists()
    again = run_choice(grid(), rule, tmp_path, folder=tmp_path)
    assert again.choice == results.choice


def test_each_view_pays_for_what_it_sees(grid, tmp_path):
    rule = read_rule("logarithmic", 4.0)
    few = candidates(grid({"privacy.noise_multiplier": ["1.0", "2.0"]}), tmp_path)
    prices = price_choice(few, [few[0], few[1], few[1]], rule.stopping, repeated=False)
    noisier, noisy = (one.plan.tariff for one in reversed(few))
    worst = rdp_curve(noisy.bill(0, "public"), neighbours="zero-out")
    expected = rdp_epsilon(worst[0], rule.stopping.rdp(*worst), delta=1e-3)
    assert prices["public"]["epsilon"] == pytest.approx(expected)
    together = noisy.bill(0, "server") + noisier.bill(0, "server") + noisier.bill(0, "server")
    assert prices["server"]["epsilon"] == pytest.approx(
        spent(together, delta=1e-3, neighbours="zero-out").epsilon, rel=1e-6
    )
    repeated = price_choice(few, few, rule.stopping, repeated=True)
    assert all(price["epsilon"] == math.inf for price in repeated.values())


def test_the_draws_do_not_change_when_a_choice_goes_on(grid, tmp_path):
    found = candidates(grid(), tmp_path)
    draws = settle_draws(found, read_rule("poisson", 20.0), tmp_path)
    assert settle_draws(found, read_rule("poisson", 20.0), tmp_path) == draws
    assert set(draws) == {0, 1}
    with pytest.raises(SordinoError, match="belongs to another choice"):
        settle_draws(found, read_rule("poisson", 21.0), tmp_path)


def test_a_choice_among_known_results_is_refused(grid, tmp_path):
    run_sweep(grid(), tmp_path, folder=tmp_path)
    with pytest.raises(SordinoError, match="results are known already"):
        run_choice(grid(), read_rule("geometric", 2.0), tmp_path, folder=tmp_path)


def test_what_has_no_common_price_is_refused(grid, tmp_path):
    with pytest.raises(SordinoError, match=r"same \[privacy\] delta, but got 0.001, 0.01"):
        run_choice(grid({"privacy.delta": ["1e-3", "1e-2"]}), read_rule("geometric", 2.0), tmp_path, folder=tmp_path)
    with pytest.raises(SordinoError, match="cannot be chosen"):
        run_choice(
            grid({"privacy.expected_cohort": ["4", "99"]}), read_rule("geometric", 2.0), tmp_path, folder=tmp_path
        )


def test_without_noise_nothing_finite_is_claimed(grid, tmp_path):
    bare = candidates(grid({"method.name": ["fedavg", "dp-fedavg"]}), tmp_path)
    prices = price_choice(bare, bare, read_rule("geometric", 2.0).stopping, repeated=False)
    assert prices["public"]["epsilon"] == math.inf


def test_no_run_is_an_outcome_too(grid, tmp_path, monkeypatch):
    monkeypatch.setattr("sordino.sweeps.draws._draw", lambda candidates, rule: [])
    results = run_choice(grid(), read_rule("poisson", 1.0), tmp_path, folder=tmp_path)
    assert results.choice["chosen"] is None
    assert "No run was drawn" in results.choice["sentence"]


def test_a_secure_choice_publishes_the_chosen_run_and_not_how_many_there_were(tiny, tmp_path):
    secure = {"noise": "distributed", "noise_source": "secure"}
    table = tiny(rounds=2, data={"test": "public-split"}, privacy=secure)
    sweep = Sweep(table=table, axes=RATES, seeds=1)
    found = candidates(sweep, tmp_path)
    rule = read_rule("geometric", 3.0)  # a Poisson number can be none, and then nothing is published
    draws = settle_draws(found, rule, tmp_path)
    results = run_choice(sweep, rule, tmp_path, folder=tmp_path)
    assert sum(len(row["runs"]) for row in results.rows) == len(draws)
    released = json.loads((tmp_path / "release" / "summary.json").read_text())
    price = results.choice["epsilon"]["public"]["epsilon"]
    assert released["epsilon"]["public"]["epsilon"] == price
    assert released["epsilon"]["server"]["epsilon"] == released["epsilon"]["client"]["epsilon"] == "inf"
    published = " ".join(path.read_text(errors="replace") for path in (tmp_path / "release").iterdir())
    assert "runs_kept_secret" not in published and "again" not in published
    with safe_open(tmp_path / "release" / "model.safetensors", framework="pt") as file:
        assert json.loads(file.metadata()["sordino-provenance"])[0]["epsilon"] == price
