"""Runs on a real SuperLink and real SuperNodes, with TLS and keys: the same bits as the simulator, and faults that cost one seat."""

import os
import signal
import subprocess

import pytest

from sordino.core import SordinoError
from sordino.engine.reconcile import reconcile
from sordino.engine.run import run_experiment
from sordino.experiment import experiment
from sordino.privacy.ledger import read_lines

STEPS = {"name": "dp-sgd", "batch_size": 16, "local_steps": 2}


def agree(local, run):
    """Both ledgers tell the same, for every node."""
    return [reconcile(run / "ledger.jsonl", local.state(name) / "ledger.jsonl") for name in local.files]


@pytest.mark.parametrize(
    "method", [{"name": "dp-fedavg"}, STEPS, {"name": "centaur"}], ids=lambda method: method["name"]
)
def test_nodes_end_in_the_same_bits_as_the_simulator(method, settings, at_nodes, local, tmp_path):
    far = run_experiment(at_nodes(method=method), tmp_path / "far")
    here = run_experiment(experiment(settings(method=method)), tmp_path / "here")
    bits = [(tmp_path / place / "model.safetensors").read_bytes() for place in ("far", "here")]
    assert bits[0] == bits[1]
    assert far["epsilon"] == here["epsilon"]
    assert far["client_names"] == list(local.files)
    assert [(found["releases"], found["empty_turns"]) for found in agree(local, tmp_path / "far")] == [(2, 0)] * 3


def worker_of(node):
    """The process beside a node's rows."""
    found = subprocess.run(
        ["pgrep", "-f", "-P", str(node.process.pid), "flower.worker"], capture_output=True, text=True, check=True
    )
    return int(found.stdout.split()[0])


def test_a_killed_worker_and_a_killed_superlink_do_not_end_a_run(at_nodes, local, tmp_path):
    """After round 1 a node's worker is killed, after round 2 the SuperLink, which is started again with its database."""

    def watch(moment):
        if moment.stage == "training" and moment.done == 1:
            os.kill(worker_of(local.nodes["node-2"]), signal.SIGKILL)
        if moment.stage == "training" and moment.done == 2:
            local.link.leashed.kill()
            local.start_link()

    summary = run_experiment(at_nodes(rounds=3, method={"name": "centaur"}), tmp_path / "run", watch=watch)
    assert summary["rounds"] == 3
    assert [line.participants for line in read_lines(tmp_path / "run" / "ledger.jsonl")] == [(0, 1, 2)] * 3
    assert all(found["releases"] + found["empty_turns"] == 3 for found in agree(local, tmp_path / "run"))


def test_a_plan_beyond_a_nodes_limits_is_refused_with_its_reason(at_nodes, local, tmp_path):
    page = local.provision.kit("node-3") / "limits.toml"
    before = page.read_text()
    page.write_text("run_epsilon = { public = 0.5 }\n")
    try:
        with pytest.raises(
            SordinoError, match=r"Node node-3 refuses this run: This client's limits allow ε = 0\.5 of one run"
        ):
            run_experiment(at_nodes(seed=5), tmp_path / "run")
    finally:
        page.write_text(before)
    assert not (tmp_path / "run").exists()


def test_what_nodes_keep_comes_back_to_the_same_bits(settings, at_nodes, local, tmp_path):
    """A run is cut off after its first round and goes on: personal models are as they were then."""

    def cut(moment):
        if moment.stage == "training" and moment.done == 1:
            raise KeyboardInterrupt

    changes = {"rounds": 2, "method": {"name": "centaur"}}
    made = at_nodes(**changes)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(made, tmp_path / "cut", watch=cut)
    run_experiment(made, tmp_path / "cut", resume=True)
    run_experiment(experiment(settings(**changes)), tmp_path / "whole")
    bits = [(tmp_path / place / "model.safetensors").read_bytes() for place in ("cut", "whole")]
    assert bits[0] == bits[1]
    assert [found["releases"] for found in agree(local, tmp_path / "cut")] == [2, 2, 2]
