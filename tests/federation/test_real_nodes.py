"""Runs on a real SuperLink and real SuperNodes, with TLS and keys: the same bits as the simulator, and faults that cost one seat."""

import os
import signal
import subprocess
from pathlib import Path

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


def cut(moment):
    """Somebody presses Ctrl-C after the first round."""
    if moment.stage == "training" and moment.done == 1:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "method", [{"name": "dp-fedavg"}, STEPS, {"name": "centaur"}], ids=lambda method: method["name"]
)
def test_nodes_end_in_the_same_bits_as_the_simulator(method, settings, at_nodes, local, tmp_path):
    """That with personal models is cut off after its first round and goes on: they are as they were then."""
    far, made = tmp_path / "far", at_nodes(method=method)
    resume = method["name"] == "centaur"
    if resume:
        with pytest.raises(KeyboardInterrupt):
            run_experiment(made, far, watch=cut)
    there = run_experiment(made, far, resume=resume)
    here = run_experiment(experiment(settings(method=method)), tmp_path / "here")
    assert (far / "model.safetensors").read_bytes() == (tmp_path / "here" / "model.safetensors").read_bytes()
    assert there["epsilon"] == here["epsilon"]
    assert there["client_names"] == list(local.files)
    assert [(found["releases"], found["empty_turns"]) for found in agree(local, far)] == [(2, 0)] * 2


def worker_of(node):
    """The process beside a node's rows."""
    found = subprocess.run(
        ["pgrep", "-f", "-P", str(node.process.pid), "flower.worker"], capture_output=True, text=True, check=True
    )
    return int(found.stdout.split()[0])


def test_a_killed_worker_and_a_killed_superlink_do_not_end_a_run(at_nodes, local, tmp_path):
    """After round 1 a node's worker is killed, and the SuperLink, which is started again with its database."""

    def watch(moment):
        if moment.stage == "training" and moment.done == 1:
            os.kill(worker_of(local.nodes["node-2"]), signal.SIGKILL)
            local.link.leashed.kill()
            local.start_link()

    summary = run_experiment(at_nodes(method={"name": "centaur"}, seed=6), tmp_path / "run", watch=watch)
    assert summary["rounds"] == 2
    assert [line.participants for line in read_lines(tmp_path / "run" / "ledger.jsonl")] == [(0, 1)] * 2
    assert all(found["releases"] + found["empty_turns"] == 2 for found in agree(local, tmp_path / "run"))


def has_torch(pid):
    return "libtorch" in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs the proc file system")
def test_only_the_process_beside_the_rows_has_torch_in_memory(at_nodes, local, tmp_path):
    run_experiment(at_nodes(rounds=1, seed=7), tmp_path / "run")
    for node in local.nodes.values():
        assert has_torch(worker_of(node))
        assert not has_torch(node.process.pid)


def test_a_plan_beyond_a_nodes_limits_is_refused_with_its_reason(at_nodes, local, tmp_path):
    page = local.provision.kit("node-2") / "limits.toml"
    before = page.read_text()
    page.write_text("run_epsilon = { public = 0.5 }\n")
    try:
        with pytest.raises(
            SordinoError, match=r"Node node-2 refuses this run: This client's limits allow ε = 0\.5 of one run"
        ):
            run_experiment(at_nodes(seed=5), tmp_path / "run")
    finally:
        page.write_text(before)
    assert not (tmp_path / "run").exists()
