"""compare on planted truths: what is there is found, ties are ties, and nothing stands on an axis where it does not belong."""

import csv
import json
import math

import numpy as np
import pytest
from planted import planter
from rich.console import Console

import sordino
from sordino.core import SordinoError
from sordino.report.comparison.choices import about_choice, comparison_content
from sordino.report.comparison.comparing import compare
from sordino.report.comparison.runs import find_runs, read_view
from sordino.report.comparison.tables import comparison_report
from sordino.report.comparison.tidy import write_csv


@pytest.fixture(scope="module")
def real_run(tmp_path_factory):
    from tests.conftest import TINY, merged

    folder = tmp_path_factory.mktemp("real") / "run"
    sordino.run(merged(TINY, {"rounds": 1}), out=folder)
    return merged(TINY, {"rounds": 1}), folder


@pytest.fixture
def planted(real_run, tmp_path):
    return planter(tmp_path / "planted", *real_run)


def drawn(contests, width):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    for part in comparison_report(contests, about_choice=""):
        console.print(part)
    return console.export_text()


def plant_methods(planted, truth, *, seeds=5, noise=0.004, **facts):
    """Runs of methods with these true accuracies; a seed's own luck is shared by all."""
    random = np.random.default_rng(1)
    luck = random.normal(0, 0.03, seeds)
    for method, mean in truth.items():
        for seed in range(seeds):
            accuracy = float(mean + luck[seed] + random.normal(0, noise))
            planted.plant(method=method, seed=seed, accuracy=accuracy, **facts)


def test_a_planted_winner_is_named(planted):
    plant_methods(planted, {"dp-fedavg": 0.8, "fedceo": 0.75, "udp-fedavg-svt": 0.75})
    (contest,) = compare(find_runs([planted.folder]))
    verdict = contest.verdict
    assert (contest.by, verdict.winner, verdict.budget) == ("method", "dp-fedavg", 2.0)
    assert verdict.sentence.startswith("At ε ≤ 2, dp-fedavg wins: ")
    assert "5 seeds, 3 comparisons corrected for" in verdict.sentence
    by_pair = {frozenset((one.first, one.second)): one for one in verdict.differences}
    assert not by_pair[frozenset(("fedceo", "udp-fedavg-svt"))].more_than_noise


def test_a_planted_tie_is_called_one_and_who_is_worse_is_told_apart(planted):
    plant_methods(planted, {"dp-fedavg": 0.8, "fedceo": 0.8, "udp-fedavg-svt": 0.6})
    (contest,) = compare(find_runs([planted.folder]))
    assert contest.verdict.winner is None
    assert "it is a tie between" in contest.verdict.sentence
    assert "udp-fedavg-svt" not in contest.verdict.sentence.partition("tie between")[2].partition(":")[0]


def test_one_seed_decides_nothing(planted):
    plant_methods(planted, {"dp-fedavg": 0.9, "fedceo": 0.1}, seeds=1)
    (contest,) = compare(find_runs([planted.folder]))
    assert contest.verdict.winner is None
    assert "fewer than two seeds" in contest.verdict.sentence


def test_only_what_keeps_to_the_budget_is_compared(planted):
    for epsilon, truth in {1.0: 0.5, 4.0: 0.7}.items():
        plant_methods(planted, {"dp-fedavg": truth, "fedceo": truth - 0.2}, epsilon=epsilon)
    plant_methods(planted, {"fedavg": 0.95}, epsilon=math.inf)
    runs = find_runs([planted.folder])
    (contest,) = compare(runs, epsilon=3.0)
    assert {entry.epsilon for entry in contest.verdict.compared} == {1.0}
    assert {entry.contestant for entry in contest.verdict.compared} == {"dp-fedavg", "fedceo"}
    (wide,) = compare(runs, epsilon=4.0)
    assert {entry.epsilon for entry in wide.verdict.compared} == {4.0}
    (none,) = compare(runs, epsilon=0.5)
    assert "there is no run, and the smallest ε of any is" in none.verdict.sentence
    front = [entry.label for entry in contest.entries if contest.is_on_front(entry)]
    assert front == ["dp-fedavg", "dp-fedavg", "fedavg"]


def test_the_best_of_many_settings_pays_for_their_number(planted):
    """Of twenty settings one looks best by luck; against one setting of a rival that is no win."""
    random = np.random.default_rng(4)
    for seed in range(3):
        planted.plant(method="fedceo", seed=seed, accuracy=0.8 + random.normal(0, 0.01))
        for epochs in range(1, 21):
            method = {"method": {"name": "dp-fedavg", "epochs": epochs}}
            planted.plant(method="dp-fedavg", seed=seed, accuracy=0.8 + random.normal(0, 0.01), changes=method)
    (contest,) = compare(find_runs([planted.folder]))
    best = contest.verdict.compared[0]
    against = [one for one in contest.verdict.differences if one.first == best.label and one.second == "fedceo"]
    assert contest.verdict.winner is None
    assert len(contest.verdict.differences) == 210
    assert against[0].corrected == 1.0


@pytest.mark.parametrize("facts", [{"unit": "example"}, {"neighbours": "add-remove"}])
def test_other_units_and_neighbours_make_tables_of_their_own(planted, facts):
    plant_methods(planted, {"dp-fedavg": 0.8}, seeds=2)
    plant_methods(planted, {"fedceo": 0.8}, seeds=2, **facts)
    plant_methods(planted, {"fedavg": 0.9}, seeds=2, epsilon=math.inf)
    contests = compare(find_runs([planted.folder]))
    methods = [{entry.contestant for entry in contest.entries} for contest in contests]
    assert methods == [{"dp-fedavg", "fedavg"}, {"fedceo", "fedavg"}]
    assert "cannot stand on one axis" in drawn(contests, 200)


def test_other_data_and_deltas_make_tables_of_their_own(planted):
    planted.plant(method="dp-fedavg", seed=1, accuracy=0.8)
    planted.plant(method="dp-fedavg", seed=1, accuracy=0.8, changes={"data": {"source": "mnist5k", "clients": 12}})
    assert len(compare(find_runs([planted.folder]))) == 2


def test_personalised_methods_are_measured_in_their_clients_own_mix_and_it_is_called_so(planted):
    plant_methods(planted, {"dp-fedavg": 0.8}, seeds=2)
    plant_methods(planted, {"fedceo": 0.7}, seeds=2, own_mix=0.6)
    plant_methods(planted, {"centaur": 0.2}, seeds=2, own_mix=0.9)
    shared, own = compare(find_runs([planted.folder]))
    assert (shared.axis.measure, [entry.label for entry in shared.entries]) == ("accuracy", ["dp-fedavg", "fedceo"])
    assert (own.axis.measure, [entry.label for entry in own.entries]) == ("own-mix accuracy", ["centaur", "fedceo"])
    assert own.entries[0].mean == 0.9
    text = " ".join(drawn([own], 120).split())
    assert "own-mix accuracy by method" in text and "outside every ε" in text


def test_of_secure_runs_only_what_may_be_published_is_shown(planted):
    run = planted.plant(method="dp-fedavg", seed=1, accuracy=0.75, secure=True)
    again = planted.plant(method="dp-fedavg", seed=1, accuracy=0.77, secure=True)
    assert (run.accuracy, run.seconds, run.bytes_up, run.own_mix) == (0.75, None, None, None)
    (contest,) = compare([run, again])
    assert len(contest.entries[0].figures) == 2
    (contest,) = compare([run, planted.plant(method="dp-fedavg", seed=1, accuracy=0.5)])
    assert len(contest.entries[0].figures) == 2


def test_a_simulation_that_was_run_twice_counts_once(planted):
    planted.plant(method="dp-fedavg", seed=1, accuracy=0.75)
    planted.plant(method="dp-fedavg", seed=1, accuracy=0.75)
    (contest,) = compare(find_runs([planted.folder, planted.folder / "run-0"]))
    assert len(contest.entries[0].figures) == 1


def test_without_two_methods_what_differs_is_compared(planted):
    for epochs, accuracy in {1: 0.7, 2: 0.8}.items():
        planted.plant(method="", seed=1, accuracy=accuracy, changes={"method": {"name": "dp-fedavg", "epochs": epochs}})
    runs = find_runs([planted.folder])
    (contest,) = compare(runs)
    assert (contest.by, [entry.label for entry in contest.entries]) == ("method.epochs", ["2", "1"])
    (contest,) = compare(runs, by="method")
    assert [entry.label for entry in contest.entries] == ["dp-fedavg, epochs=2", "dp-fedavg, epochs=1"]
    with pytest.raises(SordinoError, match="--by takes a setting"):
        compare(runs, by="colour")


def test_tables_and_fronts_fit_eighty_columns(planted):
    for epsilon, truth in {1.0: 0.5, 4.0: 0.7}.items():
        plant_methods(planted, {"dp-fedavg": truth, "udp-fedavg-svt": truth - 0.2}, epsilon=epsilon, seeds=3)
    plant_methods(planted, {"fedavg": 0.95}, epsilon=math.inf, seeds=3)
    text = drawn(compare(find_runs([planted.folder])), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "a: dp-fedavg, b: udp-fedavg-svt, c: fedavg" in text
    assert "…" not in text
    axis = next(line for line in text.splitlines() if line.endswith("∞"))
    assert axis.split() == ["1", "4", "∞"]


def test_the_csv_is_tidy(planted, tmp_path):
    plant_methods(planted, {"dp-fedavg": 0.8}, seeds=2)
    plant_methods(planted, {"fedavg": 0.9}, seeds=2, epsilon=math.inf)
    write_csv(find_runs([planted.folder]), tmp_path / "all.csv")
    rows = list(csv.DictReader((tmp_path / "all.csv").open()))
    assert [(row["method"], row["seed"]) for row in rows] == [
        ("dp-fedavg", "0"),
        ("dp-fedavg", "1"),
        ("fedavg", "0"),
        ("fedavg", "1"),
    ]
    assert [float(row["epsilon_public"]) for row in rows] == [2.0, 2.0, math.inf, math.inf]
    assert rows[2]["epsilon_public"] == "inf" and rows[0]["own_mix_accuracy"] == ""
    assert float(rows[0]["accuracy"]) == find_runs([planted.folder])[0].accuracy


def test_everything_is_plain_data_too_and_says_that_the_choice_was_not_paid_for(planted):
    plant_methods(planted, {"dp-fedavg": 0.8, "fedceo": 0.7}, seeds=3)
    content = comparison_content(compare(find_runs([planted.folder])), [planted.folder])
    assert content["configurations_tried"] == 2
    assert "not covered by any ε" in content["about_the_choice"]
    contest = json.loads(json.dumps(content))["contests"][0]
    assert contest["winner"] == "dp-fedavg"
    assert contest["differences"][0]["more_than_noise"] is True
    assert about_choice(1, [planted.folder]) == ""
    assert "and 19 trials on the same data chose their settings before" in about_choice(5, [planted.folder], before=19)


def test_folders_without_runs_and_unknown_views_are_refused(tmp_path):
    with pytest.raises(SordinoError, match="holds no finished run, and no folder below it does"):
        find_runs([tmp_path])
    with pytest.raises(SordinoError, match="--view takes public, server, client"):
        read_view("everyone")


def test_runs_that_promise_nothing_in_a_view_are_told_apart_by_what_was_asked_for(planted):
    for asked in (1.0, 4.0):
        run = planted.plant(method="dp-fedavg", seed=0, accuracy=0.5, epsilon=asked)
        summary = json.loads((run.folder / "summary.json").read_text())
        summary["epsilon"]["server"]["epsilon"] = "inf"
        (run.folder / "summary.json").write_text(json.dumps(summary))
    (contest,) = compare(find_runs([planted.folder]), view="server")
    assert {entry.label for entry in contest.entries} == {
        "dp-fedavg, noise_multiplier=1",
        "dp-fedavg, noise_multiplier=0.25",
    }
    (contest,) = compare(find_runs([planted.folder]), view="public")
    assert {entry.label for entry in contest.entries} == {"dp-fedavg"}
