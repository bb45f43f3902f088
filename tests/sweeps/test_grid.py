"""The grid: cases, axes and seeds, and the folders that runs lie in."""

import pytest

from sordino.core import SordinoError
from sordino.sweeps.axes import read_axes
from sordino.sweeps.cases import merged, take_cases
from sordino.sweeps.grid import Configuration, Sweep, read_sweep


def folder_name(*point, case=""):
    return Configuration(case=case, point=point).folder_name


def test_settings_that_differ_only_in_signs_have_folders_of_their_own():
    names = [folder_name("tuning={name='a,b'}"), folder_name("tuning={name='a;b'}")]
    names += [
        folder_name("x=" + "1" * 300),
        folder_name("x=" + "1" * 301),
        folder_name(case="a/b"),
        folder_name(case=".."),
    ]
    assert len(set(names)) == len(names)
    assert not any("/" in name or name == ".." for name in names)


def test_configurations_that_differ_late_in_a_long_name_get_folders_of_their_own():
    long = f"start={{name='standard', data='{'x' * 200}'}}"
    names = [folder_name(long, f"privacy.epsilon={value}") for value in (1, 4)]
    assert len(set(names)) == 2
    assert all(len(name) < 200 for name in names)
    assert folder_name("privacy.epsilon=1", case="fedavg") == "fedavg__privacy.epsilon=1"


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


def test_a_case_joins_tables_and_replaces_what_has_a_name():
    base = {
        "method": {"name": "dp-fedavg", "epochs": 2},
        "privacy": {"clip_norm": 1.0, "delta": 1e-3},
        "tuning": "full",
    }
    changes = {"method": {"name": "fedceo"}, "privacy": {"clip_norm": 0.5}, "tuning": {"clip": "joint"}}
    assert merged(base, changes) == {
        "method": {"name": "fedceo"},
        "privacy": {"clip_norm": 0.5, "delta": 1e-3},
        "tuning": {"name": "full", "clip": "joint"},
    }
    assert merged(base, {"method": {"epochs": 1}})["method"] == {"name": "dp-fedavg", "epochs": 1}
    assert base["method"]["epochs"] == 2


def test_cases_and_axes_and_seeds_make_cells(tmp_path):
    path = tmp_path / "two.toml"
    path.write_text(
        'rounds = 2\nseed = 5\n[privacy]\nepsilon = 1\n[[case]]\nmethod = "fedavg"\n'
        '[[case]]\nname = "ours"\nrounds = 3\nmethod.name = "dp-fedavg"\n'
    )
    sweep = read_sweep(path, ("privacy.delta=0.01",), over=["privacy.epsilon=2,4"], seeds=2)
    cells = list(sweep.cells())
    assert [cell.label for cell in cells[:4]] == [
        "fedavg, epsilon=2, seed 5",
        "fedavg, epsilon=4, seed 5",
        "ours, epsilon=2, seed 5",
        "ours, epsilon=4, seed 5",
    ]
    last = cells[-1].table
    assert (last["seed"], last["rounds"], last["privacy"]) == (6, 3, {"epsilon": 4, "delta": 0.01})
    assert sweep.table["privacy"]["epsilon"] == 1
    assert len({cell.folder for cell in cells}) == 8


@pytest.mark.parametrize(
    ("cases", "sentence"),
    [
        ([{"rounds": 2}], "number 1 needs a name or a method"),
        ([{"method": "fedavg"}, {"method": {"name": "fedavg"}}], "2 .* tables are called 'fedavg'"),
        ({"method": "fedavg"}, "should be tables of settings"),
    ],
)
def test_a_bad_case_is_refused(cases, sentence):
    with pytest.raises(SordinoError, match=sentence):
        take_cases({"case": cases})
