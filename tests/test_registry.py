"""Members are found by name among our own, in installed packages, and by `module:Class`; errors say what is missing."""

import importlib
import subprocess
import sys

import pytest

import sordino
from sordino import outside
from sordino.core import SordinoError
from sordino.data.partition import PARTITIONERS
from sordino.methods import METHODS
from sordino.methods.dp_fedavg import DpFedAvg
from sordino.models import MODELS, build
from sordino.outside import look_beside
from sordino.pretrain import STARTS
from sordino.privacy.mechanisms import MECHANISMS
from sordino.privacy.samplers import SAMPLERS
from sordino.registry import Registry
from sordino.report.catalogue import axes
from sordino.tuning import TUNINGS

MINE = '''
"""A module of a stranger."""
from dataclasses import dataclass
from typing import ClassVar

from sordino.extend import Mechanism, Method
from sordino.methods.dp_fedavg import DpFedAvg


@dataclass(frozen=True, kw_only=True)
class Mine(DpFedAvg):
    """Mine."""

    gain: float = 1.0

    def round(self, number, state, federation):
        after = super().round(number, state, federation)
        return {"model": state["model"] + self.gain * (after["model"] - state["model"])}


class Undecorated(DpFedAvg):
    gain: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Quarter(Method):
    """Says what it hides, and nothing else."""

    unit: ClassVar = "client"


@dataclass
class Loose(Method):
    """Has all that a method needs, and can be changed."""

    unit: ClassVar = "client"
    uses: ClassVar = "sum"
    job: ClassVar = None

    def round(self, number, state, federation):
        return state


@dataclass(frozen=True, kw_only=True)
class Quiet(Mechanism):
    """Does not say its norm."""

    noise: ClassVar = "gaussian"
    divisible: ClassVar = True

    def event(self, noise_multiplier):
        return None

    def draw(self, source, like, wanted):
        return like


@dataclass(frozen=True, kw_only=True)
class Half:
    """Neither a method nor anything else."""

    def plan_facts(self, rounds):
        return {}


def function():
    return None
'''


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A folder for an experiment and what lies beside it; modules from there are forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    look_beside(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    outside._Beside.folder = outside._Beside.on_path = None


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a package with modules and entry points, as pip would."""
    site = tmp_path / "site"

    def install(name, entries, **modules):
        folder = site / f"{name.replace('-', '_')}-1.2.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (folder / "entry_points.txt").write_text(entries)
        for module, text in modules.items():
            (site / f"{module}.py").write_text(text)
        importlib.invalidate_caches()
        outside.entry_points.cache_clear()

    known = set(sys.modules)
    monkeypatch.syspath_prepend(site)
    yield install
    outside.entry_points.cache_clear()
    for module in set(sys.modules) - known:
        if str(getattr(sys.modules[module], "__file__", "")).startswith(str(site)):
            del sys.modules[module]


def test_an_unknown_name_gets_the_nearest_known_one():
    registry: Registry[type] = Registry("colour", "sordino.methods")
    registry.register("crimson")(int)
    with pytest.raises(SordinoError, match="did you mean 'crimson'"):
        registry["crimsom"]


def test_a_member_needs_the_import_of_its_own_module_alone_and_is_found_in_any(tmp_path, monkeypatch):
    package = tmp_path / "colours"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from sordino.registry import Registry\nCOLOURS = Registry('colour', 'colours')\n"
    )
    (package / "dark_red.py").write_text("from colours import COLOURS\nCOLOURS.register('dark-red')(int)\n")
    (package / "sky.py").write_text("from colours import COLOURS\nCOLOURS.register('blue')(float)\n")
    monkeypatch.syspath_prepend(tmp_path)
    colours = importlib.import_module("colours").COLOURS
    assert colours["dark-red"] is int
    assert "colours.sky" not in sys.modules
    assert colours["blue"] is float
    assert [member.name for member in colours] == ["blue", "dark-red"]


def test_a_class_beside_the_experiment_is_found_by_its_path(beside):
    (beside / "mine_a.py").write_text(MINE)
    assert METHODS["mine_a:Mine"].__name__ == "Mine"


def test_a_run_names_it_in_its_record_and_goes_on_with_it(beside, tiny, tmp_path):
    (beside / "mine_b.py").write_text(MINE)
    table = tiny(method={"name": "mine_b:Mine", "gain": 0.5}, engine={"checkpoint_every": 1})
    experiment = beside / "experiment.toml"
    experiment.write_text(toml(table))
    whole = sordino.run(experiment, out=tmp_path / "whole")
    record = (tmp_path / "whole" / "experiment.json").read_text()
    assert '"mine_b:Mine"' in record and '"gain"' in record
    stopped = subprocess.run(
        [sys.executable, "-c", STOPPED, str(experiment), str(tmp_path / "run")], cwd=tmp_path.parent, check=False
    )
    assert stopped.returncode == 3
    resumed = subprocess.run(
        [sys.executable, "-m", "sordino", "run", str(experiment), "--out", str(tmp_path / "run"), "--resume"],
        cwd=tmp_path.parent,
        check=False,
        capture_output=True,
        text=True,
    )
    assert resumed.returncode == 0, resumed.stderr
    same = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("run", "whole")]
    assert same[0] == same[1]
    assert sordino.plan(experiment).to_json()["method"] == whole["method"] == "mine_b:Mine"
    shown = subprocess.run(
        [sys.executable, "-m", "sordino", "show", str(tmp_path / "run"), "--verify", "--json"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr


STOPPED = """
import os, sys
import sordino
from sordino.engine import record
keep = record.RunRecord.save_checkpoint
def once(self, checkpoint):
    keep(self, checkpoint)
    if checkpoint.rounds_done == 2:
        os._exit(3)
record.RunRecord.save_checkpoint = once
sordino.run(sys.argv[1], out=sys.argv[2])
"""


def toml(table, prefix=""):
    """A nested table as TOML text."""
    plain = {key: value for key, value in table.items() if not isinstance(value, dict) and value is not None}
    lines = [
        f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}" for key, value in plain.items()
    ]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += [f"[{prefix}{key}]", toml(value, f"{prefix}{key}.")]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "absent:Mine",
            "needs a module called 'absent', but there is none on Python's path nor in .*beside the experiment",
        ),
        ("absent.deep:Mine", "needs a module called 'absent'"),
        ("mine_c:Mime", "has nothing of that name; did you mean 'Mine'"),
        ("mine_c:Half", r"must inherit Averaging \(or Method\), but Half does not; write class Half\(Averaging\)"),
        ("mine_c:Quarter", "needs job, round, uses, which Quarter lacks; add LocalSgd as a base"),
        ("mine_c:Loose", "must be a frozen dataclass, but Loose can be changed; write @dataclass.frozen=True"),
        ("thawed_c:Mine", r"cannot inherit non-frozen .*; write @dataclass\(frozen=True, kw_only=True\)"),
        (
            "mine_c",
            "There is no method called 'mine_c', but mine_c.py lies beside the experiment; write mine_c:Mine or ",
        ),
        ("mine_c:function", "must be a class, but got function"),
        ("mine_c:", "is named as module:Class, but got 'mine_c:'"),
        ("../mine_c:Mine", "is named as module:Class"),
        ("broken_c:Mine", r"cannot be imported \(SyntaxError"),
        ("failing_c:Mine", r"cannot be imported \(ZeroDivisionError: division by zero\)"),
        ("needy_c:Mine", "needs the module 'not_installed_anywhere', which is not installed"),
    ],
)
def test_what_is_no_member_is_refused_in_one_sentence(beside, name, sentence):
    (beside / "mine_c.py").write_text(MINE)
    (beside / "broken_c.py").write_text("def")
    (beside / "thawed_c.py").write_text(MINE.replace("(frozen=True, kw_only=True)", ""))
    (beside / "failing_c.py").write_text("1 / 0")
    (beside / "needy_c.py").write_text("import not_installed_anywhere")
    with pytest.raises(SordinoError, match=sentence) as refusal:
        METHODS[name]
    assert str(refusal.value).count(". ") == 0


def test_a_class_that_hides_its_settings_is_refused(beside, tiny):
    (beside / "mine_d.py").write_text(MINE)
    with pytest.raises(SordinoError, match="dataclass, whose fields are its settings"):
        sordino.plan(toml_file(beside, tiny(method={"name": "mine_d:Undecorated"})))


def toml_file(folder, table):
    path = folder / "experiment.toml"
    path.write_text(toml(table))
    return path


def test_two_modules_of_one_name_are_told_apart_or_refused(beside, tmp_path):
    (beside / "mine_e.py").write_text(MINE)
    assert METHODS["mine_e:Mine"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine_e.py").write_text(MINE)
    look_beside(other)
    with pytest.raises(SordinoError, match="Python has another 'mine_e'"):
        METHODS["mine_e:Mine"]


def test_nothing_beside_an_experiment_stands_in_for_an_installed_module(beside):
    (beside / "json.py").write_text("raise SystemExit")
    (beside / "mine_f.py").write_text("import json\n" + MINE)
    assert METHODS["mine_f:Mine"]
    with pytest.raises(SordinoError, match="give yours another name"):
        METHODS["json:JSONDecoder"]


OTHER_AXES = '''
from dataclasses import dataclass
from torch import nn
from sordino.data.partition.iid import Iid
from sordino.models.mlp import Mlp
from sordino.pretrain.scratch import Scratch
from sordino.privacy.mechanisms import Gaussian
from sordino.privacy.samplers import Everyone
from sordino.tuning.full import Full

setting = dataclass(frozen=True, kw_only=True)


@setting
class MyIid(Iid):
    """Partitioner."""


@setting
class MyMlp(Mlp):
    """Builder."""


@setting
class MyScratch(Scratch):
    """Start."""


@setting
class MyGaussian(Gaussian):
    """Mechanism."""


@setting
class MyEveryone(Everyone):
    """Sampler."""


@setting
class MyFull(Full):
    """Tuning."""


class Module(nn.Sequential):
    def __init__(self, shape, classes):
        super().__init__(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], classes))
'''


def test_every_axis_takes_a_path(beside, tiny, tmp_path):
    (beside / "axes_a.py").write_text(OTHER_AXES)
    table = tiny(
        rounds=2,
        model={"name": "axes_a:MyMlp", "hidden": [4]},
        start="axes_a:MyScratch",
        tuning="axes_a:MyFull",
        data={"partition": {"name": "axes_a:MyIid"}},
        privacy={"mechanism": {"name": "axes_a:MyGaussian"}, "sampler": "axes_a:MyEveryone", "expected_cohort": 12},
    )
    named = sordino.run(toml_file(beside, table), out=tmp_path / "named")
    ours = tiny(
        rounds=2,
        model={"name": "mlp", "hidden": [4]},
        data={"partition": {"name": "iid"}},
        privacy={"sampler": "everyone", "expected_cohort": 12},
    )
    assert named["epsilon"] == sordino.run(ours, out=tmp_path / "ours")["epsilon"]
    weights = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("named", "ours")]
    assert weights[0] == weights[1]


def test_a_model_may_be_a_function_a_module_or_a_builder(beside):
    (beside / "axes_b.py").write_text(OTHER_AXES)
    for name, settings in (("axes_b:Module", {}), ("axes_b:MyMlp", {"hidden": [3]})):
        assert build(name, shape=(1, 8, 8), classes=3, **settings).parts()["head"]


def test_bases_are_needed_where_an_axis_has_one(beside):
    (beside / "mine_g.py").write_text(MINE)
    for registry in (STARTS, SAMPLERS, TUNINGS, MECHANISMS):
        with pytest.raises(SordinoError, match=f"must inherit {registry.kind.__name__}, but Half does not"):
            registry["mine_g:Half"]
    for registry in (PARTITIONERS, MODELS):
        with pytest.raises(SordinoError, match="which Half lacks"):
            registry["mine_g:Half"]
    with pytest.raises(SordinoError, match=r"needs build, which Half lacks; write build\(inputs, classes\)"):
        build("mine_g:Half", shape=(1, 8, 8), classes=3)
    with pytest.raises(SordinoError, match="needs norm, which Quiet lacks"):
        MECHANISMS["mine_g:Quiet"]


def test_an_installed_package_brings_a_method(installed, tiny, tmp_path):
    installed("acme-dp", "[sordino.methods]\nacme = acme_a:Mine\n", acme_a=MINE)
    assert METHODS["acme"].__name__ == "Mine"
    summary = sordino.run(tiny(rounds=1, method={"name": "acme", "gain": 2.0}), out=tmp_path / "run")
    assert summary["method"] == "acme"
    assert axes()["method"]["acme"] == "Mine. (from acme-dp 1.2)"


def test_ours_cannot_be_taken_over(installed):
    installed("acme-dp", "[sordino.methods]\ndp-fedavg = acme_b:Mine\n", acme_b=MINE)
    assert METHODS["dp-fedavg"] is DpFedAvg
    assert "from acme-dp 1.2" in axes()["method"]["acme_b:Mine"]


def test_a_name_that_two_packages_claim_is_refused(installed):
    for name in ("one", "two"):
        installed(name, f"[sordino.methods]\nacme = {name}_c:Mine\n", **{f"{name}_c": MINE})
    with pytest.raises(SordinoError, match=r"one from each of one 1.2 and two 1.2; .* 'one_c:Mine'"):
        METHODS["acme"]
    assert {"one_c:Mine", "two_c:Mine"} <= set(axes()["method"])


def test_a_package_that_fails_is_named_and_spoils_no_listing(installed):
    installed("acme-dp", "[sordino.methods]\nacme = acme_d:Mine\n", acme_d="import nowhere_to_be_found")
    with pytest.raises(SordinoError, match=r"package acme-dp 1.2 registers 'acme' in sordino.methods .*nowhere_to_be"):
        METHODS["acme"]
    assert "nowhere_to_be_found" in axes()["method"]["acme"]
    with pytest.raises(SordinoError, match="did you mean 'acme'"):
        METHODS["acmee"]


def test_our_own_names_import_nothing_of_installed_packages(installed):
    installed("acme-dp", "[sordino.methods]\nacme = acme_e:Mine\n", acme_e=MINE)
    assert METHODS["dp-fedavg"] and TUNINGS["full"]
    assert outside.entry_points.cache_info().misses == 0
    assert "acme_e" not in sys.modules
