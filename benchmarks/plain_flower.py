"""Plain Flower beside us: its own FedAvg, its own isolation, and the lightest client there is (numpy, no torch)."""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
import time
from pathlib import Path

from flwr.cli.build import build_fab_from_files
from flwr.common.serde import fab_to_proto
from flwr.proto.control_pb2 import StartRunRequest
from flwr.supercore.fab import Fab

from sordino.engine.flower.leash import Leashed, end_with, stop_all
from sordino.engine.flower.local import HOST, LocalFederation
from sordino.engine.flower.superlink import SuperLink
from sordino.nodes.kit import Kit

_PROJECT = b"""[project]
name = "plain"
version = "1.0.0"
description = "FedAvg"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "bench"

[tool.flwr.app.components]
serverapp = "plain_app:server"
clientapp = "plain_app:client"
"""
_APP = """
import json, time
import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

client, server = ClientApp(), ServerApp()

@client.train()
def train(message, context):
    found = message.content["arrays"].to_numpy_ndarrays()
    chance = np.random.default_rng(context.node_id % 997)
    trained = [value + chance.standard_normal(value.shape).astype(value.dtype) for value in found]
    content = RecordDict({"arrays": ArrayRecord(trained), "metrics": MetricRecord({"num-examples": 1})})
    return Message(content=content, reply_to=message)

@server.main()
def main(grid, context):
    nodes, rounds, size, file = NODES, ROUNDS, SIZE, FILE
    while len(list(grid.get_node_ids())) < nodes:
        time.sleep(0.2)
    times = []
    def note(number, arrays):
        times.append(time.time())
        open(file, "w").write(json.dumps(times))
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
    strategy.start(grid, ArrayRecord([np.zeros(size, np.float32)]), num_rounds=rounds, evaluate_fn=note)
"""


def plain_round_seconds(local: LocalFederation, folder: Path, *, rounds: int, size: int, limit: float) -> list[float]:
    """Seconds of each round of Flower's FedAvg over nodes with the same keys, on a SuperLink of its own kind."""
    nodes, times = list(local.files), folder / "times.json"
    made, state = local.provision, folder / "state"
    link = [
        *("--host", HOST, "--port", str(made.facts.port)),
        *("--ssl-certfile", str(made.server / "server.crt"), "--ssl-keyfile", str(made.server / "server.key")),
        *("--ssl-ca-certfile", str(made.server / "ca.crt"), "--database", str(state / "plain.db")),
        *("--enable-supernode-auth", "--disable-runtime-dependency-installation"),
    ]
    module = "sordino.engine.flower.superlink_process"
    running = [Leashed.start(module, link, log=state / "superlink.log", home=state / "flower")]
    local.link = SuperLink(address=f"{HOST}:{made.facts.port}", server=made.server, leashed=running[0])
    try:
        local.link.wait_until_ready()
        local.control.agree_with({member.name: member.public for member in made.roster.active})
        running += [_start_plain_node(Kit.read(made.kit(name)), state) for name in nodes]
        local.wait(300)
        app = _APP.replace("NODES", str(len(nodes))).replace("ROUNDS", str(rounds))
        app = app.replace("SIZE", str(size)).replace("FILE", json.dumps(str(times)))
        content, _ = build_fab_from_files({"pyproject.toml": _PROJECT, "plain_app.py": app.encode()})
        fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
        with local.control.client() as client:
            client.StartRun(StartRunRequest(fab=fab_to_proto(fab)))
        end = time.monotonic() + limit
        while time.monotonic() < end and (not times.exists() or len(_read(times)) < rounds + 1):
            time.sleep(1)
    finally:
        stop_all(running)
    found = _read(times) if times.exists() else []
    return [later - sooner for sooner, later in itertools.pairwise(found)]


def _read(file: Path) -> list[float]:
    try:
        found: list[float] = json.loads(file.read_text())
    except ValueError:
        return []
    return found


def _start_plain_node(kit: Kit, state: Path) -> Leashed:
    name = kit.facts.name
    arguments = [
        *("--superlink", kit.facts.address, "--root-certificates", str(kit.ca_certificate)),
        *("--auth-supernode-private-key", str(kit.private_key)),
        *("--host", HOST, "--port", str(kit.facts.local_port)),
    ]
    return Leashed.start("benchmarks.plain_flower", arguments, log=state / f"{name}.log", home=state / name)


def main() -> None:
    """A SuperNode as its own command starts it, on a leash."""
    parent, *arguments = sys.argv[1:]
    end_with(int(parent))
    sys.argv = ["flower-supernode", *arguments]
    from flwr.supernode.cli import flower_supernode

    flower_supernode()


if __name__ == "__main__":
    main()
