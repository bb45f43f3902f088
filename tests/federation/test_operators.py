"""What goes wrong at operators' hands, on real processes: keys, forged and replayed requests, full disks, two nodes on one state."""

import os
import re
import resource
import shutil
import subprocess
import sys
import time

import pytest

from sordino.engine.flower.control import ONLINE
from sordino.engine.flower.link import Link
from sordino.engine.flower.mailbox import Mailbox, Outgoing
from sordino.engine.flower.supernode import start_node
from sordino.engine.reconcile import reconcile
from sordino.engine.run import run_experiment
from sordino.engine.wire.message import Message
from sordino.nodes.authority import Authority
from sordino.nodes.keys import NodeKey
from sordino.nodes.log import read_log
from sordino.nodes.state import held
from tests.federation.test_real_nodes import worker_of

SECURE = {"noise_source": "secure"}
MEET = Message(content={"what": "meet", "version": "0", "experiment": {}, "fingerprint": ""})


@pytest.fixture
def ledger(local):
    return lambda name: local.state(name) / "ledger.jsonl"


def test_a_full_disk_at_a_node_costs_its_seats_and_both_ledgers_agree(at_nodes, local, ledger, tmp_path):
    """After round 1 the ledger of node 2 cannot grow any more: it releases nothing, and the run goes on without it."""
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

    def watch(moment):
        if moment.stage == "training" and moment.done == 1:
            full = (ledger("node-2").stat().st_size, resource.RLIM_INFINITY)
            resource.prlimit(worker_of(local.nodes["node-2"]), resource.RLIMIT_FSIZE, full)

    try:
        summary = run_experiment(at_nodes(seed=21), tmp_path / "run", watch=watch)
    finally:
        resource.prlimit(worker_of(local.nodes["node-2"]), resource.RLIMIT_FSIZE, unlimited)
    assert summary["rounds"] == 2
    assert summary["missing"]["1"]["times"] == 1
    assert "no room left" in summary["missing"]["1"]["because"]
    found = reconcile(tmp_path / "run" / "ledger.jsonl", ledger("node-2"))
    assert (found["releases"], found["empty_turns"]) == (1, 1)


def test_a_replayed_request_releases_nothing_though_its_seal_is_good(at_nodes, local, ledger, tmp_path, monkeypatch):
    sent = []
    tell = Link.tell
    monkeypatch.setattr(
        Link, "tell", lambda self, letters, seconds: sent.append(letters) or tell(self, letters, seconds=seconds)
    )
    run_experiment(at_nodes(rounds=1, seed=22, privacy=SECURE), tmp_path / "run")
    asked = next(letters[0] for letters in reversed(sent) if letters[0].messages[-1].content["what"] == "ask")
    before = ledger("node-1").read_bytes()
    link = Link.open(local.folder)
    try:
        (said,) = tell(link, [asked], seconds=60.0).values()
    finally:
        link.close()
    assert said[-1].content["what"] == "refused"
    assert "spent before" in said[-1].content["because"]
    assert ledger("node-1").read_bytes() == before
    assert read_log(local.state("node-1") / "log.jsonl")[-1]["event"] == "refused"


def test_a_request_that_the_server_did_not_sign_is_not_opened(local, ledger, tmp_path):
    """Somebody inside the server's network has everything but its key: the port, the authority's certificate, even the secret."""
    forged = tmp_path / "forged"
    shutil.copytree(local.provision.server, forged, ignore=shutil.ignore_patterns("state"))
    ca = (forged / "ca.crt").read_bytes()
    Authority.new("somebody else").write_server(["127.0.0.1"], forged)
    (forged / "ca.crt").write_bytes(ca)
    number = next(node.number for node in local.control.nodes() if node.name == "node-1")
    mailbox = Mailbox.open(local.link.address, forged)
    try:
        parcel = Outgoing(node=number, name="node-1", letters=[MEET.to_bytes()], largest=1 << 20)
        (said,) = mailbox.exchange([parcel], seconds=60.0).values()
    finally:
        mailbox.close()
    assert "not sealed by the federation's server" in said


def test_a_node_with_a_key_that_is_not_on_the_roster_is_not_let_in(local, tmp_path):
    kit = tmp_path / "kit"
    shutil.copytree(local.provision.kit("node-1"), kit)
    NodeKey.new().write(kit / "node.key", kit / "node.pub")
    (kit / "node.toml").write_text(re.sub(r"local_port = \d+", "local_port = 9797", (kit / "node.toml").read_text()))
    node = start_node(kit, data=local.files["node-1"], state=tmp_path / "state")
    try:
        end = time.monotonic() + 60
        while "does not let this node in" not in node.log.read_text() and time.monotonic() < end:
            time.sleep(0.2)
        assert "does not let this node in" in node.log.read_text()
    finally:
        node.stop()
    assert sum(one.status == ONLINE for one in local.control.nodes()) == 2


def sordino(*arguments):
    command = [sys.executable, "-m", "sordino", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"})


def test_two_node_processes_cannot_use_one_state(local, tmp_path):
    with held(tmp_path / "state"):
        said = sordino(
            "node", local.provision.kit("node-1"), "--data", local.files["node-1"], "--state", tmp_path / "state"
        )
    assert said.returncode == 2
    assert "Another process uses the node's state" in said.stderr


def test_a_node_without_a_key_does_not_start(local, tmp_path):
    kit = tmp_path / "kit"
    shutil.copytree(local.provision.kit("node-1"), kit)
    (kit / "node.key").unlink()
    said = sordino("node", kit, "--data", local.files["node-1"])
    assert said.returncode == 2
    assert "node.key is missing" in said.stderr


def test_rows_that_do_not_fit_are_told_to_their_operator_and_not_to_the_server(at_nodes, local, tmp_path):
    """A row of node 1 has a label that the plan does not have; the server learns nothing of it."""
    narrow = at_nodes(rounds=1, seed=23)
    options = {**narrow.data.options, "classes": narrow.data.options["classes"][:-1]}
    narrow = narrow.model_copy(update={"data": narrow.data.model_copy(update={"options": options})})
    with pytest.raises(Exception, match="The rows of node node-1 do not fit this plan") as told:
        run_experiment(narrow, tmp_path / "run")
    assert "preflight" in str(told.value)
