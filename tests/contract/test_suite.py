"""The contract suite: it finds the axis of a part, catches faults on every axis, and runs from outside by pytest."""

import inspect
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import broken_members
import pytest

import sordino
from sordino.core import SordinoError
from sordino.methods import METHODS
from sordino.testing import CHECKS, Broken, axis_of
from sordino.testing.mechanisms import check_the_event, check_the_noise, check_the_parts, check_the_streams
from sordino.testing.models import check_the_memory, check_the_model_parts
from sordino.testing.partitioners import check_the_coins, check_the_owners
from sordino.testing.samplers import check_the_draw, check_the_sampling_event
from sordino.testing.starts import check_the_weights
from sordino.testing.tunings import check_the_phases, check_what_is_trained

pytest_plugins = ["pytester"]

CAUGHT = {
    broken_members.LessNoise: (check_the_noise, "mean size"),
    broken_members.OneStream: (check_the_streams, "correlated"),
    broken_members.CheaperEvent: (check_the_event, "says 2.6"),
    broken_members.WiderPart: (check_the_parts, "the update's bound 1"),
    broken_members.OftenDrawn: (check_the_sampling_event, "drawn at rate 0.167"),
    broken_members.AlwaysDrawn: (check_the_sampling_event, "drawn in 300 of 300"),
    broken_members.Unordered: (check_the_draw, "in order"),
    broken_members.BatchNormed: (check_the_model_parts, "batch statistics mix examples"),
    broken_members.WithMemory: (check_the_memory, "head.last"),
    broken_members.ImagesWithMemory: (check_the_model_parts, "must not store anything of the examples it sees"),
    broken_members.NoParts: (check_the_model_parts, "should return a Net, but returned a Sequential; write Net"),
    broken_members.OneLogitTooMany: (check_the_model_parts, "Logits should have shape"),
    broken_members.RowsTwice: (check_the_owners, "no owner, or more than one"),
    broken_members.OwnCoins: (check_the_coins, "another partition"),
    broken_members.NoSuchParameter: (check_what_is_trained, "tail.weight"),
    broken_members.Backwards: (check_the_phases, "not any more from round 5 on"),
    broken_members.DrawnAnew: (check_the_weights, "other weights the second time"),
}


@pytest.mark.parametrize("kind", CAUGHT, ids=lambda kind: kind.__name__)
def test_a_fault_is_caught_on_its_axis(kind):
    check, sentence = CAUGHT[kind]
    path = f"broken_members:{kind.__name__}"
    assert check in CHECKS[axis_of(path)]
    with pytest.raises((Broken, SordinoError), match=sentence):
        check({"name": path})


def test_every_fault_is_looked_at():
    found = {
        one for _, one in inspect.getmembers(broken_members, inspect.isclass) if one.__module__ == "broken_members"
    }
    of_no_axis = {broken_members.Nothing, broken_members.Jobless}
    assert found - {broken_members.Remembering} - of_no_axis == set(CAUGHT)


@pytest.mark.parametrize(
    ("name", "axis"),
    [("dp-sgd", "method"), ("head", "tuning"), ("cnn", "model"), ("gaussian", "mechanism"), ("poisson", "sampler"),
     ("shards", "partitioner"), ("file", "start"), ("broken_members:setting", "model")],
)  # fmt: skip
def test_the_axis_of_a_part_is_found(name, axis):
    assert axis_of(name) == axis


def test_a_part_of_no_axis_or_of_two_is_refused():
    with pytest.raises(SordinoError, match="start and tuning; say which with --axis"):
        axis_of("scratch")
    with pytest.raises(SordinoError, match="no part called 'nothing' on any axis"):
        axis_of("nothing")
    with pytest.raises(
        SordinoError, match=r"Averaging \(or Method\) for a method, .*a model needs build\(inputs, classes\)"
    ):
        axis_of("broken_members:Nothing")
    with pytest.raises(SordinoError, match="needs job, which Jobless lacks; add LocalSgd as a base"):
        axis_of("broken_members:Jobless")


MINE = '''
from dataclasses import dataclass
from sordino.methods.dp_fedavg import DpFedAvg
from sordino.testing import CHECKS

LEFT = []


@dataclass(frozen=True, kw_only=True)
class Mine(DpFedAvg):
    """Leaves its rows to the next client, if told to."""

    leaks: bool = False

    def run(self, start, examples, context):
        update = super().run(start, examples, context)
        LEFT.append(examples.inputs.float().mean())
        return update + LEFT[-2:][0] if self.leaks else update
'''


CALL = ("-p", "sordino.testing_options", "-p", "no:cacheprovider", "--pyargs", "sordino.testing")


def suite(folder, *options):
    """What pytest prints of the suite in a stranger's folder, and its exit code."""
    paths = {"PYTHONPATH": str(Path(sordino.__file__).parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    found = subprocess.run(
        [sys.executable, "-m", "pytest", *CALL, *options],
        cwd=folder, env={**os.environ, **paths}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return found.returncode, found.stdout


@pytest.fixture
def suite_here(pytester, monkeypatch):
    """The same in this process, which has imported everything already."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.syspath_prepend(pytester.path)
    pytester.makepyfile(mine=MINE)

    def called(*options):
        found = pytester.runpytest_inprocess(*CALL, *options)
        return found.ret, found.stdout.str()

    return called


def test_a_stranger_runs_it_on_a_part_of_their_own(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    code, printed = suite(tmp_path, "--member", "mine:Mine", "-v")
    assert code == 0, printed
    assert printed.count("PASSED") == len(CHECKS["method"])


def test_a_fault_of_a_stranger_is_told_without_its_code(suite_here):
    code, printed = suite_here("--member", "mine:Mine", "--set", "leaks=true", "-k", "rows")
    assert code == 1
    assert "depends on the rows of client 0" in printed
    assert "Traceback" not in printed
    assert "raise" not in printed


MISTAKES = {
    ("--member", "mine"): "write mine:Mine.",
    ("--member", "mine:Mine", "--axis", "methods"): "There is no axis called 'methods'; did you mean 'method'?",
    (): "name it with --member",
}


@pytest.mark.parametrize("options", MISTAKES, ids=" ".join)
def test_a_mistake_in_the_call_is_one_sentence(options, suite_here):
    code, printed = suite_here(*options)
    assert code != 0
    assert MISTAKES[options] in printed
    assert "Error:" not in printed


def test_a_mistake_in_a_call_from_the_shell_is_one_sentence(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    code, printed = suite(tmp_path, "--member", "mine")
    assert code != 0
    assert "write mine:Mine." in printed
    assert "Error:" not in printed


def test_the_options_are_installed_with_the_package():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"sordino": "sordino.testing_options"}
    assert METHODS.group == "sordino.methods"
