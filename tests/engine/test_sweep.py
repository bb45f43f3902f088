"""Sweeps: the whole grid, skipping what is done, with mean and spread."""

import json
import statistics

import pytest

from sordino.core import SordinoError
from sordino.engine import sweep as module
from sordino.engine.sweep import Sweep, read_axes, run_sweep


def test_a_grid_is_run_once_and_summed_up(tiny, tmp_path, monkeypatch):
    grid = Sweep(
        table=tiny(rounds=2), axes={"privacy.noise_multiplier": ["0.5", "2.0"], "method.epochs": ["1", "2"]}, seeds=2
    )
    rows = run_sweep(grid, tmp_path, folder=tmp_path, watch=lambda moment: None)
    assert len(rows) == 4
    assert all(len(row["accuracies"]) == 2 for row in rows)
    assert rows[0]["spread"] == statistics.stdev(rows[0]["accuracies"])
    assert rows[0]["epsilon"]["public"] > rows[-1]["epsilon"]["public"]
    assert json.loads((tmp_path / "sweep.json").read_text())["configurations_that_touched_private_data"] == 4
    monkeypatch.setattr(module, "simulate", lambda *args, **kwargs: pytest.fail("a finished run was run again"))
    assert run_sweep(grid, tmp_path, folder=tmp_path, watch=lambda moment: None) == rows


def test_a_finished_run_of_another_experiment_is_not_taken_for_this_one(tiny, tmp_path):
    def swept(**changes):
        grid = Sweep(table=tiny(rounds=1, **changes), axes={"privacy.noise_multiplier": ["1.0"]}, seeds=1)
        return run_sweep(grid, tmp_path, folder=tmp_path, watch=lambda moment: None)

    swept()
    with pytest.raises(SordinoError, match="finished run of another experiment"):
        swept(privacy={"clip_norm": 0.1})


def test_settings_that_differ_only_in_signs_have_folders_of_their_own():
    points = [("tuning={name='a,b'}",), ("tuning={name='a;b'}",), ("x=" + "1" * 300,), ("x=" + "1" * 301,)]
    assert len({module._folder_name(point) for point in points}) == len(points)


def test_axes_are_split_at_outer_commas_only():
    assert read_axes(["a=1,2", "b=[1,2],[3]", "c={x='p,q'},z"]) == {
        "a": ["1", "2"],
        "b": ["[1,2]", "[3]"],
        "c": ["{x='p,q'}", "z"],
    }


@pytest.mark.parametrize("bad", ["a", "=1", "a="])
def test_a_bad_axis_is_refused(bad):
    with pytest.raises(SordinoError, match="--over"):
        read_axes([bad])


def test_a_sweep_needs_a_seed(tiny):
    with pytest.raises(SordinoError, match="at least one seed"):
        Sweep(table=tiny(), axes={}, seeds=0)


def test_configurations_that_differ_late_in_a_long_name_get_folders_of_their_own():
    from sordino.engine.sweep import _folder_name

    points = [(f"start={{name='standard', data='{'x' * 200}'}}", f"privacy.epsilon={value}") for value in (1, 4)]
    assert len({_folder_name(point) for point in points}) == 2
    assert all(len(_folder_name(point)) < 200 for point in points)
    assert _folder_name(("privacy.epsilon=1",)) == "privacy.epsilon=1"
