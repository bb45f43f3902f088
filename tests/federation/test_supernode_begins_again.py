"""A node whose SuperNode gives up begins again, however Flower says so; one that its operator ends does not."""

import sys

import pytest

from sordino.engine.flower import supernode_process
from sordino.nodes.provision import FederationFacts, Provision


class Again(Exception):
    """In place of the process that would take over."""


slept = []


@pytest.fixture
def node(tmp_path, monkeypatch):
    """`node(ends)`: what becomes of a node's process whose SuperNode ends like this."""
    kit = Provision.new(tmp_path / "f", FederationFacts(addresses=("127.0.0.1",))).add("north")

    def take_over(program, arguments):
        raise Again(program, arguments)

    def run(ends):
        places = [f"--{name}={tmp_path / name}" for name in ("data", "state")]
        monkeypatch.setattr(sys, "argv", ["node", "0", f"--kit={kit.folder}", *places])
        monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "some.module", "0"])
        monkeypatch.setattr(supernode_process, "set_pace", lambda bell: None)
        slept.clear()
        monkeypatch.setattr(supernode_process.time, "sleep", slept.append)
        monkeypatch.setattr(supernode_process, "flower_supernode", ends)
        monkeypatch.setattr(supernode_process.os, "execv", take_over)
        supernode_process.main()

    return run


@pytest.fixture(autouse=True)
def first_try(monkeypatch):
    monkeypatch.setenv(supernode_process.TRIES, "0")


def exits(code):
    def ends():
        raise SystemExit(code)

    return ends


@pytest.mark.parametrize("ends", [lambda: None, exits(1)], ids=["it returns", "it exits with an error"])
def test_a_supernode_that_gives_up_is_begun_again_as_it_was(node, ends, capsys):
    with pytest.raises(Again) as again:
        node(ends)
    assert again.value.args == (sys.executable, [sys.executable, "-m", "some.module", "0"])
    assert "does not let this node in yet" in capsys.readouterr().err


def test_a_supernode_that_its_operator_ends_is_not_begun_again(node):
    with pytest.raises(SystemExit):
        node(exits(0))


def test_a_node_that_is_turned_away_again_and_again_asks_less_often(node):
    waits = []
    for _ in range(9):
        with pytest.raises(Again):
            node(exits(1))
        waits.append(sum(slept))
    assert waits[:3] == [2, 2, 2]
    assert waits == sorted(waits)
    assert waits[-1] == supernode_process.LONGEST_SECONDS


def test_a_node_that_had_been_let_in_does_not_wait_longer_for_it(node, monkeypatch):
    monkeypatch.setenv(supernode_process.TRIES, "7")
    monkeypatch.setattr(supernode_process, "SETTLED_SECONDS", 0.0)
    with pytest.raises(Again):
        node(exits(1))
    assert supernode_process.os.environ[supernode_process.TRIES] == "1"


@pytest.mark.parametrize("junk", ["", "many", "-3", "²"])
def test_tries_that_are_no_number_count_as_none(node, monkeypatch, junk):
    monkeypatch.setenv(supernode_process.TRIES, junk)
    with pytest.raises(Again):
        node(exits(1))
    assert supernode_process.os.environ[supernode_process.TRIES] == "1"
