"""Sweeps: checked first, run once, side by side with the same bits, and going on past what fails."""

import json
import statistics

import pytest

from sordino.core import SordinoError
from sordino.experiment import experiment
from sordino.sweeps.cases import Case
from sordino.sweeps.grid import Sweep
from sordino.sweeps.pool import Ended, Job, hands
from sordino.sweeps.progress import Tracker
from sordino.sweeps.running import run_sweep

AXES = {"privacy.noise_multiplier": ["0.5", "2.0"], "method.epochs": ["1", "2"]}


def files(folder, name):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob(name))}


def run_labels(sweep, out, **more):
    """The results of a sweep, and the labels of what was run."""
    ran = []
    results = run_sweep(sweep, out, folder=out, look=lambda progress: ran.append(progress.ended), **more)
    return results, [label for label in ran if label]


def test_a_grid_is_run_once_and_summed_up(tiny, tmp_path):
    grid = Sweep(table=tiny(rounds=2), axes=AXES, seeds=2)
    results, ran = run_labels(grid, tmp_path)
    rows = results.rows
    assert (len(rows), len(ran)) == (4, 8)
    assert all(len(row["accuracies"]) == 2 for row in rows)
    assert rows[0]["spread"] == statistics.stdev(rows[0]["accuracies"])
    assert rows[0]["epsilon"]["public"] > rows[-1]["epsilon"]["public"]
    assert json.loads((tmp_path / "sweep.json").read_text())["configurations_that_touched_private_data"] == 4
    again, ran = run_labels(grid, tmp_path)
    assert (again.rows, ran) == (rows, [])


def test_side_by_side_gives_the_same_bits(tiny, tmp_path):
    grid = Sweep(table=tiny(rounds=2, engine={"workers": 0}), axes=AXES, seeds=1)
    one, ran = run_labels(grid, tmp_path / "one")
    two, ran_too = run_labels(grid, tmp_path / "two", jobs=2)
    assert sorted(ran) == sorted(ran_too) and len(ran) == 4
    for name in ("model.safetensors", "ledger.jsonl", "metrics.jsonl"):
        assert files(tmp_path / "one", name) == files(tmp_path / "two", name)
        assert len(files(tmp_path / "two", name)) == 4
    assert [row["accuracies"] for row in one.rows] == [row["accuracies"] for row in two.rows]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_cell_that_cannot_be_run_is_told_of_before_and_the_rest_goes_on(tiny, tmp_path, jobs):
    grid = Sweep(table=tiny(rounds=1), axes={"privacy.expected_cohort": ["4", "99"]}, seeds=2)
    results, ran = run_labels(grid, tmp_path, jobs=jobs)
    assert len(ran) == 2
    assert [problem.cell.label for problem in results.problems] == [
        "expected_cohort=99, seed 3",
        "expected_cohort=99, seed 4",
    ]
    assert all("at most 12 clients" in problem.sentence for problem in results.problems)
    assert [(len(row["runs"]), row["failed"]) for row in results.rows] == [(2, 0), (0, 2)]
    assert len(json.loads((tmp_path / "sweep.json").read_text())["problems"]) == 2


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_fails_does_not_stop_the_others(tiny, tmp_path, jobs):
    grid = Sweep(table=tiny(rounds=1), axes={"privacy.noise_multiplier": ["1.0", "2.0", "3.0"]}, seeds=1)
    broken = tmp_path / "privacy.noise_multiplier=1.0" / "seed-3"
    broken.mkdir(parents=True)
    (broken / "stranger.txt").write_text("not a run")
    results, ran = run_labels(grid, tmp_path, jobs=jobs)
    assert len(ran) == 3
    (problem,) = results.problems
    assert "holds other files and no run" in problem.sentence
    assert [len(row["runs"]) for row in results.rows] == [0, 1, 1]


def test_a_sweep_of_which_nothing_can_be_run_is_refused_with_nothing_written(tiny, tmp_path):
    grid = Sweep(table=tiny(rounds=1), axes={"privacy.expected_cohort": ["98", "99"]}, seeds=1)
    with pytest.raises(SordinoError, match="at most 12 clients"):
        run_labels(grid, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_finished_run_of_another_experiment_is_not_taken_for_this_one(tiny, tmp_path):
    def swept(**changes):
        grid = Sweep(table=tiny(rounds=1, **changes), axes={"privacy.noise_multiplier": ["1.0"]}, seeds=1)
        return run_sweep(grid, tmp_path, folder=tmp_path)

    swept()
    with pytest.raises(SordinoError, match="finished run of another experiment"):
        swept(privacy={"clip_norm": 0.1})


def test_runs_that_are_the_same_are_run_once(tiny, tmp_path):
    """Without privacy no budget changes a bit; the run of the first cell stands for all, and this is why it may."""
    table = tiny(rounds=2)
    table["privacy"].pop("noise_multiplier")
    cases = [
        Case(name=name, settings={"method": {**table["method"], "name": name}}) for name in ("fedavg", "dp-fedavg")
    ]
    grid = Sweep(table=table, axes={"privacy.epsilon": ["2", "8"]}, seeds=1, cases=cases)
    results, ran = run_labels(grid, tmp_path / "both")
    assert ran == ["fedavg, epsilon=2, seed 3", "dp-fedavg, epsilon=2, seed 3", "dp-fedavg, epsilon=8, seed 3"]
    assert results.rows[0]["runs"] == results.rows[1]["runs"]
    assert results.to_json()["configurations_that_touched_private_data"] == 3
    alone = Sweep(table=table, axes={"privacy.epsilon": ["8"]}, seeds=1, cases=cases[:1])
    run_labels(alone, tmp_path / "alone")
    shared = tmp_path / "both" / results.rows[1]["runs"][0] / "model.safetensors"
    assert list(files(tmp_path / "alone", "model.safetensors").values()) == [shared.read_bytes()]
    wider = Sweep(table=table, axes={"privacy.epsilon": ["1", "2", "8"]}, seeds=1, cases=cases)
    assert run_labels(wider, tmp_path / "both")[1] == ["dp-fedavg, epsilon=1, seed 3"]


def test_a_process_that_dies_is_one_failed_run(tiny, tmp_path, monkeypatch):
    """A model of the user's ends the whole process, as a lack of memory would."""
    (tmp_path / "deadly.py").write_text("import os\ndef model(*arguments, **facts):\n    os._exit(7)\n")
    monkeypatch.syspath_prepend(tmp_path)
    deadly = experiment(tiny(rounds=1, model={"name": "deadly:model"}))
    healthy = [experiment(tiny(rounds=1, seed=seed)) for seed in range(3)]
    jobs = [Job(experiment=one, out=tmp_path / str(n), folder=tmp_path) for n, one in enumerate([deadly, *healthy])]
    ended = {}
    with hands(2) as by:
        by.do(jobs, lambda number, news: ended.update({number: news}))
    assert {number: news.problem for number, news in ended.items() if number} == {1: "", 2: "", 3: ""}
    assert "ended with exit code 7" in ended[0].problem


def test_no_jobs_at_all_is_refused():
    with pytest.raises(SordinoError, match="--jobs should be at least 1"), hands(0):
        pass


def test_an_interrupted_sweep_keeps_what_it_found(tiny, tmp_path):
    grid = Sweep(table=tiny(rounds=1), axes={"privacy.noise_multiplier": ["1.0", "2.0"]}, seeds=1)

    def stop(progress):
        if progress.ended:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(grid, tmp_path, folder=tmp_path, look=stop)
    assert [len(row["runs"]) for row in json.loads((tmp_path / "sweep.json").read_text())["rows"]] == [1, 0]
    assert run_labels(grid, tmp_path)[1] == ["noise_multiplier=2.0, seed 3"]


def test_the_rest_is_guessed_from_what_plans_said(monkeypatch):
    clock = iter([0.0, 10.0, 20.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    seen = []
    tracker = Tracker(["short", "long"], [1.0, 4.0], seen.append)
    tracker(0, Ended(""))
    tracker(1, Ended("broken"))
    assert seen[0].seconds_left == pytest.approx(40.0)
    assert (seen[1].seconds_left, seen[1].done, seen[1].failed, seen[1].problem) == (0.0, 1, 1, "broken")
