"""Clients go by the names in their data, and columns that were not declared are noted, in plans and runs alike."""

import io

import pytest
from rich.console import Console

import sordino
from sordino.report.terminal import plan_table, summary_table

SITES = {"north": 40, "south": 20, "Żary": 60}
NOTED = ("Columns used as they stand, without public bounds: age", "Columns whose words were taken from the data")


@pytest.fixture
def table(tiny, tmp_path):
    rows = [f"{at % 90},{site},{'yes' if at % 2 else 'no'}" for site, count in SITES.items() for at in range(count)]
    (tmp_path / "t.csv").write_text("\n".join(["age,site,label", *rows]) + "\n", encoding="utf-8")

    def make(**changes):
        options = {"client_column": "site", **changes.pop("options", {})}
        data = {"source": str(tmp_path / "t.csv"), "partition": "column", "test": "public-split", "options": options}
        privacy = {"noise_multiplier": 2.0, "delta": 1e-3, "sampler": "everyone"}
        method = {"name": "dp-sgd", "batch_size": 8, **changes.pop("method", {})}
        return {**tiny(rounds=2, **changes), "data": data, "privacy": privacy, "method": method}

    return make


def drawn(renderable) -> str:
    console = Console(width=300, file=io.StringIO(), record=True)
    console.print(renderable)
    return console.export_text()


def test_plans_and_summaries_list_epsilon_by_name(table, tmp_path):
    planned = sordino.plan(table()).to_json()
    summary = sordino.run(table(), out=tmp_path / "run")
    assert planned["client_names"] == summary["client_names"] == ["north", "south", "Żary"]
    each = summary["epsilon"]["public"]["per_client"]
    assert len(set(each.values())) == 3
    for text in (drawn(plan_table(planned)), drawn(summary_table([summary]))):
        assert "of each client: north " in text and ", south " in text and ", Żary " in text


def test_whoever_names_the_column_of_clients_means_it(table):
    """Without a partition there was one client with everybody's rows."""
    said = table()
    del said["data"]["partition"]
    assert sordino.plan(said).to_json()["client_names"] == ["north", "south", "Żary"]
    said["data"]["clients"] = 7
    with pytest.raises(
        sordino.SordinoError, match=r"\[data\] clients = 7, but the client column 'site' holds 3 different"
    ):
        sordino.plan(said)
    said["data"]["partition"] = "iid"
    assert sordino.plan(said).to_json()["client_names"] == []


def test_one_place_for_all_has_no_names(table):
    assert sordino.plan(table(method={"where": "one-place"})).to_json()["client_names"] == []


def test_undeclared_columns_are_noted_in_plans_and_runs(table, tmp_path):
    planned, summary = sordino.plan(table()).to_json(), sordino.run(table(), out=tmp_path / "run")
    for note in NOTED:
        assert any(warning.startswith(note) for warning in planned["warnings"])
        assert any(warning.startswith(note) for warning in summary["warnings"])


def test_declared_columns_are_not_noted(table):
    options = {"columns": {"age": {"kind": "number", "low": 0, "high": 90}}, "classes": ["no", "yes"]}
    warnings = sordino.plan(table(options=options)).to_json()["warnings"]
    assert not [warning for warning in warnings if warning.startswith("Columns")]


def test_relative_paths_begin_at_the_experiment_file(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "t.csv").write_text("a,label\n" + "1,0\n2,1\n" * 10)
    text = 'rounds = 1\nmodel = "mlp"\nmethod = "fedavg"\n[data]\nsource = "t.csv"\nclients = 2\n'
    (tmp_path / "here" / "x.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert sordino.run("here/x.toml", out="run")["clients"] == 2
    assert sordino.plan("here/x.toml").to_json()["clients"] == 2
