"""Clients in processes of their own: the same bits as in one process, and faults that cost one seat each."""

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest
import torch
from scipy.stats import chi2

from sordino.core import SordinoError
from sordino.engine.client.lifetime import LifetimeLedger
from sordino.engine.federation import FederationServer
from sordino.engine.hello import examples_of
from sordino.engine.process.client import begun, serve
from sordino.engine.process.dealt import begin_message, phase_message
from sordino.engine.process.processes import Processes
from sordino.engine.process.transport import Peer, SocketTransport
from sordino.engine.resolved import resolve
from sordino.engine.run import run_experiment
from sordino.engine.setup import prepare
from sordino.engine.wire.frames import receive, send
from sordino.engine.wire.message import Message
from sordino.experiment import experiment
from sordino.methods import METHODS
from sordino.methods.method import Broadcast
from sordino.privacy.door import Door
from sordino.privacy.ledger import Ledger, read_lines
from sordino.privacy.noise import SeededNoise
from sordino.report.terminal import summary_table

CLIENTS = 3
PUBLIC = {"source": "mnist5k", "visibility": "public"}
STEPS = {"name": "dp-sgd", "batch_size": 16, "local_steps": 2}
SETTINGS = {
    "dp-sgd": {"method": {**STEPS, "momentum": 0.5}},
    "dp-pfeddsu": {
        "method": {"name": "dp-pfeddsu", "share": 0.3, "layers": 1},
        "model": {"name": "mlp", "hidden": [8, 6]},
    },
    "fedceo": {"method": {"name": "fedceo", "interval": 1}},
}
OTHERS = {
    "central": {"privacy": {"noise": "central"}},
    "distributed": {"privacy": {"noise": "distributed"}},
    "local masks": {"method": {"name": "dp-pfeddsu", "share": 0.3, "layers": 1, "mask": "local"}},
    "noisy steps of fedceo": {"method": {"name": "fedceo", "interval": 1, "noisy_steps": {"local_steps": 2}}},
    "counts": {"privacy": {"mechanism": "adaptive-clip", "noise": "central"}},
    "counts in steps": {"method": STEPS, "privacy": {"mechanism": "adaptive-clip"}},
    "gep": {"method": STEPS, "privacy": {"mechanism": {"name": "gep", "public": PUBLIC, "anchors": 20, "basis": 4}}},
    "charged accuracy": {"data": {"test": {"name": "charged", "epsilon": 1.0}}},
    "two phases": {"tuning": {"name": "unified", "head_rounds": 1}},
    "a choice by data": {
        "tuning": {"name": "auto", "epsilon": 0.5},
        "method": {"name": "dp-sgd", "batch_size": "full"},
        "privacy": {"noise_multiplier": None, "epsilon": 2.0},
    },
}


@pytest.fixture
def table(tiny):
    def made(**changes):
        base = {
            "rounds": 2,
            "data": {"clients": CLIENTS, "partition": {"name": "iid"}, "options": {"limit": 120, "test_limit": 40}},
            "privacy": {"sampler": "everyone", "expected_cohort": None, "noise": "local"},
        }
        for section, own in changes.items():
            whole = section in ("method", "model", "tuning", "rounds")
            base[section] = own if whole else {**base.get(section, {}), **own}
        found = tiny(**base)
        if "test" in found["data"]:
            found["data"]["options"].pop("test_limit")
        return found

    return made


@pytest.fixture(scope="module")
def three_processes():
    """Client processes that outlive a run: each begins anew where it is told to."""
    ends, running = [], []
    for _ in range(CLIENTS):
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "sordino.engine.process.client", str(theirs.fileno()), "."]
        running.append(
            subprocess.Popen(command, pass_fds=[theirs.fileno()], env={**os.environ, "OMP_NUM_THREADS": "1"})
        )
        theirs.close()
        ends.append(ours)
    yield ends
    for end, process in zip(ends, running, strict=True):
        end.close()
        assert process.wait(timeout=60) == 0


@pytest.fixture
def reused(three_processes, monkeypatch):
    waiting = iter(list(three_processes) * 4)
    monkeypatch.setattr(Processes, "_start", lambda self: next(waiting).dup())


def both(table, tmp_path):
    here, there = experiment(table), experiment({**table, "engine": {**table["engine"], "name": "process"}})
    run_experiment(here, tmp_path / "here")
    run_experiment(there, tmp_path / "there")
    return tmp_path / "here", tmp_path / "there"


@pytest.mark.usefixtures("reused")
@pytest.mark.parametrize("name", [*(member.name for member in METHODS), *OTHERS])
def test_clients_in_processes_end_in_the_same_bits(name, table, tmp_path):
    changes = OTHERS.get(name) or SETTINGS.get(name) or {"method": {"name": name}}
    here, there = both(table(**changes), tmp_path)
    for file in ("model.safetensors", "ledger.jsonl"):
        assert (here / file).read_bytes() == (there / file).read_bytes(), file
    ledgers = sorted((there / "private-to-each-client").glob("client-*/ledger.jsonl"))
    assert len(ledgers) == CLIENTS


def test_a_client_that_is_killed_costs_its_seat_and_nothing_else(table, tmp_path, monkeypatch):
    """Client 1 dies after the first round. Every round is charged as planned, and the run ends with its table."""
    made = []
    begin = Processes.__init__
    monkeypatch.setattr(
        Processes, "__init__", lambda self, *given, **named: made.append(self) or begin(self, *given, **named)
    )

    def watch(moment):
        if moment.stage == "training" and moment.done == 1:
            os.kill(made[0].pids[1], signal.SIGKILL)

    kept = table(rounds=3, method={"name": "centaur"})
    there = experiment({**kept, "engine": {**kept["engine"], "name": "process"}})
    summary = run_experiment(there, tmp_path / "run", watch=watch)
    whole = run_experiment(experiment(kept), tmp_path / "whole")
    assert summary["rounds"] == 3
    assert summary["epsilon"] == whole["epsilon"]
    assert [line.participants for line in read_lines(tmp_path / "run" / "ledger.jsonl")] == [(0, 1, 2)] * 3
    assert "process has ended" in summary["missing"]["1"]["because"]
    assert summary["missing"]["1"]["times"] == 2
    assert "Client 1 missed 2 turns" in str(summary_table([summary]).caption)


def resume_after_a_kill(table, tmp_path):
    def cut(moment):
        if moment.stage == "training" and moment.done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(table, tmp_path / "cut", watch=cut)
    run_experiment(table, tmp_path / "cut", resume=True)
    return tmp_path / "cut"


@pytest.mark.usefixtures("reused")
def test_what_clients_keep_comes_back_to_the_same_bits(table, tmp_path):
    personal = table(rounds=3, method={"name": "centaur"})
    there = experiment({**personal, "engine": {**personal["engine"], "name": "process"}})
    run_experiment(there, tmp_path / "whole")
    cut = resume_after_a_kill(there, tmp_path)
    for file in ("model.safetensors", "ledger.jsonl"):
        assert (cut / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file
    kept = sorted(path.relative_to(cut) for path in cut.rglob("after-*-rounds.safetensors"))
    assert [path.parent.name for path in kept] == ["client-0", "client-1", "client-2"]


class Threads:
    """A federation whose clients answer in threads over real sockets; `spoil` stands between client 2 and its answer."""

    def __init__(self, table, tmp_path, spoil=None, limits=None, run="a run"):
        self.setup = prepare(resolve(experiment(table)), folder=tmp_path, progress=lambda done, total: None)
        self.peers = []
        for client in range(CLIENTS):
            ours, theirs = socket.socketpair()
            work = (serve, (theirs,)) if spoil is None or client != 2 else (rogue, (theirs, spoil))
            threading.Thread(target=work[0], args=work[1], daemon=True).start()
            self.peers.append(Peer(client=client, connection=ours))
            own = tmp_path / f"client-{client}"
            begin = begin_message(self.setup, client, run=run, folder=own, limits=limits or {})
            self.tell(client, begin)
            self.tell(client, phase_message(self.setup, client))
        self.transport = SocketTransport(peers=self.peers, method=self.setup.method, seconds=60.0)
        ledger = Ledger(clients=CLIENTS, delta=1e-3, neighbours="zero-out")
        self.federation = FederationServer(
            roster=self.setup.federated.roster,
            space=self.setup.space,
            tariff=self.setup.tariff,
            door=Door(ledger, SeededNoise(1)),
            transport=self.transport,
        )

    def tell(self, client, message):
        said = self.peers[client].ask(message, seconds=60.0, largest=1 << 20).content
        if said["what"] == "refused":
            raise SordinoError(said["because"])

    def sum(self, number=0):
        model = self.setup.space.read(self.setup.net)
        return self.federation.collect_sum(number, Broadcast.of(model), self.setup.method.job).value


def run_name():
    return Ledger(clients=CLIENTS, delta=1e-3, neighbours="zero-out").run


def rogue(connection, spoil):
    """A client that does its work, and then sends something else."""
    client, old = None, []
    while True:
        try:
            message = receive(connection, largest=1 << 30)
        except (EOFError, OSError):
            return
        if message.content["what"] == "begin":
            client, said = begun(message), Message(content={"what": "done"})
        else:
            said = client.handle(message)
        if said.content["what"] != "answer":
            send(connection, said)
            continue
        old.append(said)
        spoil(connection, said, old)


def with_values(change):
    def spoil(connection, said, old):
        tensors = {name: change(value) for name, value in said.tensors.items()}
        send(connection, dataclasses.replace(said, tensors=tensors))

    return spoil


def raw(data):
    return lambda connection, said, old: connection.sendall(data)


def in_the_name_of_another(connection, said, old):
    send(connection, dataclasses.replace(said, content={**said.content, "client": 0}))


FAULTS = {
    "not finite": (with_values(lambda value: value * float("nan")), "not finite"),
    "wrong shape": (with_values(lambda value: value[:-1]), "has shape"),
    "another type": (with_values(lambda value: value.to(torch.int64)), "numbers of type"),
    "garbage": (raw((8).to_bytes(8, "little") + b"\x00" * 8), "no message"),
    "oversized": (raw((1 << 40).to_bytes(8, "little")), "it was not read"),
    "hung up": (lambda connection, said, old: connection.shutdown(socket.SHUT_RDWR), "process has ended"),
    "another's name": (in_the_name_of_another, "names client 0"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_answer_costs_one_seat(fault, table, tmp_path):
    """The sum is that of the other two, with noise in the third one's place: nothing of the bad answer is in it."""
    spoil, because = FAULTS[fault]
    still = {"name": "dp-fedavg", "learning_rate": 1e-12}
    threads = Threads(table(method=still, privacy={"noise": "distributed"}), tmp_path, spoil, run=run_name())
    total = threads.sum()
    (missing,) = threads.federation.missing
    assert missing.client == 2
    assert because in missing.because
    assert torch.isfinite(total).all()
    statistic = float((total.double() / 0.5).square().sum())
    assert chi2.ppf(1e-4, len(total)) < statistic < chi2.ppf(1 - 1e-4, len(total)), "noise of three shares"


def test_a_replayed_answer_is_dropped(table, tmp_path):
    def spoil(connection, said, old):
        send(connection, old[0])
        if len(old) > 1:
            send(connection, said)

    threads = Threads(table(), tmp_path, spoil, run=run_name())
    first, second = threads.sum(0), threads.sum(1)
    assert not threads.federation.missing
    assert not torch.equal(first, second)


def test_an_update_longer_than_its_bound_is_not_added(table, tmp_path):
    """Where the server adds the noise, it checks what clients say is bounded."""
    threads = Threads(
        table(privacy={"noise": "central"}), tmp_path, with_values(lambda value: value + 1.0), run=run_name()
    )
    threads.sum()
    assert "longer than its bound of 0.5" in threads.federation.missing[0].because


def test_a_client_gets_its_own_rows_and_nobody_elses(table, tmp_path):
    setup = prepare(resolve(experiment(table())), folder=tmp_path, progress=lambda done, total: None)
    source, dealt = setup.federated.source, setup.federated.partition
    for client in range(CLIENTS):
        message = Message.from_bytes(phase_message(setup, client).to_bytes())
        rows = examples_of(message, "rows")
        assert torch.equal(rows.inputs, source.train.inputs[torch.from_numpy(dealt.of(client))])
        numbers = sum(value.numel() for name, value in message.tensors.items() if not name.startswith("model."))
        assert numbers == rows.inputs.numel() + rows.labels.numel()


@pytest.mark.parametrize(
    ("limits", "changes", "sentence"),
    [
        ({"run_epsilon": {"server": 0.1}}, {}, "allow ε = 0.1 of one run in the server view"),
        ({"lifetime_epsilon": {"public": 0.1}}, {}, "allow ε = 0.1 over all runs in the public view"),
        ({"methods": ["dp-sgd"]}, {}, "allow the methods dp-sgd, but the plan uses 'dp-fedavg'"),
        ({"central": False}, {"privacy": {"noise": "central"}}, "allow no noise = 'central'"),
        ({"placements": ["distributed"]}, {}, "allow noise = 'distributed', but the plan has 'local'"),
        ({"least_noise": 1.5}, {}, "multiplier of at least 1.5 on everything it releases, but the plan has 1;"),
    ],
)
def test_a_client_refuses_a_plan_beyond_its_limits(limits, changes, sentence, table, tmp_path):
    with pytest.raises(SordinoError, match=sentence):
        Threads(table(**changes), tmp_path, limits=limits, run=run_name())
    assert not (tmp_path / "client-0" / "ledger.jsonl").exists()


def test_a_client_adds_up_what_runs_cost_over_its_life(table, tmp_path):
    """One run fits into the limit and so does the same run again; another does not."""
    planned = Threads(table(), tmp_path / "plan", run="first").setup.tariff.worst
    epsilon = planned(experiment(table()).privacy, all_accountants=False)["server"].epsilon
    limits = {"lifetime_epsilon": {"server": 1.1 * epsilon}}
    Threads(table(), tmp_path, limits=limits, run="first")
    Threads(table(), tmp_path, limits=limits, run="first")
    with pytest.raises(SordinoError, match="over all runs in the server view"):
        Threads(table(), tmp_path, limits=limits, run="second")


def test_a_request_with_less_noise_than_planned_is_not_answered(table, tmp_path):
    """The client works out the plan itself, so a server that asks for less noise gets nothing."""
    threads = Threads(table(), tmp_path, run=run_name())
    threads.federation.tariff = dataclasses.replace(threads.federation.tariff, noise_multiplier=0.5)
    with pytest.raises(SordinoError, match=r"noise multiplier of 1 in round 0, but the request has 0\.5"):
        threads.sum()


def test_more_than_was_planned_is_charged_besides_and_kept_within_limits(table, tmp_path):
    """Two rounds were planned and agreed to; a third is charged on top, which this client's limit does not allow."""
    epsilon = Threads(table(), tmp_path / "plan", run="x").setup.tariff.worst(
        experiment(table()).privacy, all_accountants=False
    )
    limits = {"lifetime_epsilon": {"server": 1.1 * epsilon["server"].epsilon}}
    threads = Threads(table(), tmp_path, limits=limits, run=run_name())
    threads.sum(0)
    threads.sum(1)
    with pytest.raises(SordinoError, match="over all runs in the server view"):
        threads.sum(1)


def test_a_grant_is_spent_once_also_after_a_restart(table, tmp_path):
    """With secure noise the same request again releases nothing; the client's ledger remembers it."""
    secure = table(privacy={"noise_source": "secure"}, data={"test": "public-split"})
    Threads(secure, tmp_path, run=run_name()).sum()
    again = Threads(secure, tmp_path, run=run_name())
    with pytest.raises(SordinoError, match="spent before"):
        again.sum()
    assert len(again.federation.missing) == CLIENTS
    Threads(secure, tmp_path / "elsewhere", run=run_name()).sum()


@pytest.mark.parametrize("edit", ["remove", "swap", "change"])
def test_an_edited_ledger_of_a_client_is_found_out(edit, table, tmp_path):
    Threads(table(), tmp_path, run=run_name()).sum()
    path = tmp_path / "client-0" / "ledger.jsonl"
    rows = path.read_bytes().splitlines(keepends=True)
    assert len(rows) == 3
    if edit == "change":
        rows[1] = rows[1].replace(b'"tiny"', b'"tony"')
    path.write_bytes(b"".join({"remove": rows[1:], "swap": rows[::-1], "change": rows}[edit]))
    with pytest.raises(SordinoError, match="does not follow from the one before"):
        Threads(table(), tmp_path, run=run_name())


def test_a_row_that_was_cut_short_is_dropped(table, tmp_path):
    Threads(table(), tmp_path, run=run_name()).sum()
    path = tmp_path / "client-0" / "ledger.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert not LifetimeLedger(path).releases
    Threads(table(), tmp_path, run=run_name()).sum()
    assert [release.line for release in LifetimeLedger(path).releases[run_name()]] == [0]
