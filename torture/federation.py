"""Faults of a real federation, each on real processes: SIGKILL, a cut network, wrong keys, spoilt uploads, a full disk.

After each: every round is charged as planned, the server's ledger and the nodes' own agree, and the run ends or stops with one
sentence. Flower takes a minute to notice a node that is gone, so this takes about ten.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from sordino.core import SordinoError
from sordino.engine.flower.leash import Leashed
from sordino.engine.flower.supernode import node_arguments, start_node
from sordino.engine.moment import Moment
from sordino.engine.reconcile import reconcile
from sordino.nodes.authority import Authority
from sordino.nodes.keys import NodeKey
from torture.federation_scene import Proxy, Scene, changed_kit
from torture.ground import Ground
from torture.report import Outcome
from torture.rogue_node import MODES
from torture.toml import to_toml

FULL_ROUNDS = 20
"""More than the rows that still fit into the last page of a ledger on a file system that is full."""

Case = Callable[[Scene], str | None]


def federation(ground: Ground, outcome: Outcome) -> None:
    cases: dict[str, Case] = {
        "SIGKILL of a node": killed_node,
        "SIGKILL of a node's worker": killed_worker,
        "SIGKILL of the SuperLink": killed_link,
        "a cut network": cut_network,
        "a node with another key": another_key,
        "a node without a key": no_key,
        "an expired server certificate": expired_certificate,
        "a disk that is full at a node": full_disk,
        "a plan beyond a node's limits": beyond_limits,
        "too few answers, repeated": lambda scene: too_few(scene, "repeat"),
        "too few answers, left out": lambda scene: too_few(scene, "skip"),
        "SIGKILL of the server's run": killed_run,
        "a node's state from an older copy": older_copy,
        **{f"an upload that is {mode}": lambda scene, mode=mode: spoilt(scene, mode) for mode in MODES},
    }
    cases = ground.chosen(cases)
    outcome.planned = len(cases)
    with Scene.made(ground.tree.scratch / "federation") as scene:
        for name, case in cases.items():
            begin = time.monotonic()
            try:
                why = case(scene)
            except SordinoError as error:
                why = f"it stopped: {error}"
            outcome.judge(
                why, case=name, reproduction=f"python -m torture federation --case '{name}'", folder=scene.folder
            )
            outcome.note(f"{name}: {time.monotonic() - begin:.0f} s{'' if why is None else ', FAILED: ' + why}")
            scene.local.wait()


def after_round(done: int, act: Callable[[], object]) -> Callable[[Moment], None]:
    def watch(moment: Moment) -> None:
        if moment.stage == "training" and moment.done == done and not moment.note:
            act()

    return watch


def killed_node(scene: Scene) -> str | None:
    """A SuperNode is killed after the first round, and started again after the run, as its operator would."""
    watch = after_round(1, scene.local.nodes["node-2"].kill)
    out, summary = scene.run("killed-node", watch)
    scene.local.start_node("node-2")
    missed = summary["missing"].get("1", {}).get("times", 0)
    return scene.complaint(out, summary) or (None if missed == 2 else f"node-2 missed {missed} turns, not 2")


def killed_worker(scene: Scene) -> str | None:
    out, summary = scene.run("killed-worker", after_round(1, lambda: kill_worker(scene, "node-2")))
    return scene.complaint(out, summary)


def kill_worker(scene: Scene, name: str) -> None:
    node = scene.local.nodes[name].process.pid
    found = subprocess.run(["pgrep", "-P", str(node)], capture_output=True, text=True, check=False).stdout.split()
    for worker in found:
        os.kill(int(worker), signal.SIGKILL)


def killed_link(scene: Scene) -> str | None:
    def again() -> None:
        scene.local.link.leashed.kill()
        scene.local.start_link()

    out, summary = scene.run("killed-link", after_round(1, again))
    return scene.complaint(out, summary)


def older_copy(scene: Scene) -> str | None:
    """After the first round a node gets its state of before the run: it puts the whole run down again, and forgets one release."""
    local, copy = scene.local, scene.folder / "copy"
    state = local.state("node-2")
    shutil.copytree(state, copy)

    def restore() -> None:
        local.nodes["node-2"].stop()
        shutil.rmtree(state)
        shutil.copytree(copy, state)
        local.start_node("node-2")
        local.wait()

    out, summary = scene.run("older-copy", after_round(1, restore))
    found = reconcile(out / "ledger.jsonl", state / "ledger.jsonl")
    if found["empty_turns"] < 1 or found["epsilon"]["server"]["client"] < found["epsilon"]["server"]["server"]:
        return f"the restored ledger tells of {found['releases']} releases at {found['epsilon']}"
    try:
        reconcile(out / "ledger.jsonl", copy / "ledger.jsonl")
    except SordinoError as error:
        forgot = "knows nothing of the run" in str(error)
        return scene.complaint(out, summary) if forgot else f"the copy's ledger was refused otherwise: {error}"
    return "the copy's ledger agrees with a run that it cannot know"


def killed_run(scene: Scene) -> str | None:
    """`sordino run` is killed in its second round, and goes on with --resume; personal models come back too."""
    file, out = scene.folder / "killed-run.toml", scene.folder / "runs" / "killed-run"
    made = scene.experiment(seed=77, method={"name": "centaur"}, rounds=4).model_copy(update={"name": "killed-run"})
    file.write_text(to_toml(made.model_dump(mode="json", exclude_none=True)))
    command = [sys.executable, "-m", "sordino", "run", str(file), "--out", str(out)]
    begun = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ledger, end = out / "ledger.jsonl", time.monotonic() + 120
    while time.monotonic() < end and not (ledger.exists() and len(ledger.read_bytes().splitlines()) >= 3):
        time.sleep(0.1)
    begun.kill()
    begun.wait()
    done = subprocess.run([*command, "--resume", "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"--resume ended with {done.returncode}: {done.stderr[-300:]}"
    import json

    return scene.complaint(out, json.loads(done.stdout), rounds=4)


def cut_network(scene: Scene) -> str | None:
    """A node is reached through a proxy that drops everything after the first round, and heals after the second."""
    local, name = scene.local, "node-3"
    proxy = Proxy(local.provision.facts.port)
    local.nodes[name].stop()
    with changed_kit(scene, name, lambda facts: dataclasses.replace(facts, port=proxy.port)):
        local.start_node(name)
        local.wait()

        def watch(moment: Moment) -> None:
            if moment.stage == "training" and not moment.note:
                {1: proxy.dropping.set, 2: proxy.dropping.clear}.get(moment.done, lambda: None)()

        out, summary = scene.run("cut-network", watch, rounds=4)
        local.nodes[name].stop()
    proxy.close()
    local.start_node(name)
    missed = summary["missing"].get("2", {}).get("times", 0)
    return scene.complaint(out, summary, rounds=4) or (None if missed else "nobody was missed")


def another_key(scene: Scene) -> str | None:
    """A kit whose key nobody registered does not come in, and the others work on."""
    kit = scene.local.provision.kit("node-1")
    stranger = scene.folder / "stranger"
    stranger.mkdir()
    for file in ("ca.crt", "limits.toml"):
        (stranger / file).write_bytes((kit / file).read_bytes())
    text = (kit / "node.toml").read_text()
    (stranger / "node.toml").write_text(
        "\n".join("local_port = 29999" if line.startswith("local_port") else line for line in text.splitlines())
    )
    NodeKey.new().write(stranger / "node.key", stranger / "node.pub")
    before = len(scene.local.control.nodes())
    node = start_node(stranger, data=scene.local.files["node-1"], state=scene.folder / "stranger-state")
    time.sleep(12)
    node.stop()
    if len(scene.local.control.nodes()) != before:
        return "a node with an unknown key is on the SuperLink's list"
    return None if "not let this node in" in node.log.read_text() else f"it said {node.last_words!r}"


def no_key(scene: Scene) -> str | None:
    bare = scene.folder / "bare"
    bare.mkdir()
    kit = scene.local.provision.kit("node-1")
    for file in ("ca.crt", "limits.toml", "node.toml"):
        (bare / file).write_bytes((kit / file).read_bytes())
    node = start_node(bare, data=scene.local.files["node-1"], state=scene.folder / "bare-state")
    node.process.wait(timeout=60)
    return None if "node.key is missing" in node.last_words else f"it said {node.last_words!r}"


def expired_certificate(scene: Scene) -> str | None:
    """The SuperLink comes back with a certificate that has run out: no run begins, and it says why."""
    local = scene.local
    folder = local.folder
    Authority.read(folder / "authority").write_server(["127.0.0.1"], local.provision.server, days=-1)
    local.link.leashed.stop()
    try:
        from sordino.engine.flower.superlink import SuperLink

        state, port = folder / "server" / "state", local.provision.facts.port
        local.link = SuperLink.start(local.provision.server, state=state, host="127.0.0.1", port=port)
        time.sleep(6)
        try:
            scene.run("expired")
        except SordinoError as refused:
            said = str(refused)
        else:
            said = "nothing"
    finally:
        Authority.read(folder / "authority").write_server(["127.0.0.1"], local.provision.server)
        local.link.leashed.stop()
        local.start_link()
    return None if "certificate" in said else f"it said {said!r}"


def full_disk(scene: Scene) -> str | None:
    """A node's state lies on a file system without room for its ledger: it releases nothing it cannot put down."""
    local, name = scene.local, "node-2"
    place = scene.folder / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        return "a small file system could not be mounted; run as root"
    local.nodes[name].stop()
    arguments = node_arguments(local.provision.kit(name), data=local.files[name], state=place / "state", rehearsal=True)
    module = "sordino.engine.flower.supernode_process"
    (place / "state").mkdir()
    local.nodes[name] = Leashed.start(
        module, arguments, log=scene.folder / "small.log", home=scene.folder / "small-home"
    )
    filler = place / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 512)
            except OSError:
                return

    try:
        local.wait()
        out, summary = scene.run("full-disk", after_round(1, fill), rounds=FULL_ROUNDS)
        filler.unlink()
        local.nodes[name].stop()
        from sordino.engine.reconcile import reconcile

        found = reconcile(out / "ledger.jsonl", place / "state" / "ledger.jsonl")
    finally:
        local.nodes[name].stop()
        subprocess.run(["umount", str(place)], check=False)
        local.start_node(name)
    if not found["empty_turns"] or found["releases"] + found["empty_turns"] != FULL_ROUNDS:
        return f"{found['releases']} releases and {found['empty_turns']} empty turns, of {FULL_ROUNDS}"
    return None if summary["rounds"] == FULL_ROUNDS else f"only {summary['rounds']} rounds"


def beyond_limits(scene: Scene) -> str | None:
    page = scene.local.provision.kit("node-3") / "limits.toml"
    before = page.read_text()
    page.write_text("run_epsilon = { public = 0.5 }\n")
    try:
        scene.run("beyond-limits")
    except SordinoError as refused:
        return None if "Node node-3 refuses this run" in str(refused) else f"it said {refused}"
    finally:
        page.write_text(before)
    return "a node agreed to a plan beyond its limits"


def too_few(scene: Scene, what: str) -> str | None:
    """One worker is killed just before a round of a run that needs everybody."""

    def watch(moment: Moment) -> None:
        if moment.stage == "training" and moment.done == 1 and not moment.note:
            pause_worker(scene, "node-2", seconds=14)

    engine = {"minimum_cohort": 3, "too_few": what, "client_seconds": 8}
    out, summary = scene.run(f"too-few-{what}", watch, engine=engine, privacy={"spare_rounds": 5})
    missed = summary["missing"].get("1", {}).get("times", 0)
    return scene.complaint(out, summary) or (None if missed else "nobody was missed")


def pause_worker(scene: Scene, name: str, *, seconds: float) -> None:
    """Stop a node's process for a while, as a machine that swaps would."""
    import threading

    node = scene.local.nodes[name].process.pid
    os.kill(node, signal.SIGSTOP)
    threading.Timer(seconds, os.kill, (node, signal.SIGCONT)).start()


def spoilt(scene: Scene, mode: str) -> str | None:
    """A node with a good key answers with what was not asked for: it costs its seat, and the run goes on."""
    local, name = scene.local, "node-3"
    local.nodes[name].stop()
    kit, state = local.provision.kit(name), local.state(name)
    arguments = [mode, *node_arguments(kit, data=local.files[name], state=state, rehearsal=True)]
    local.nodes[name] = Leashed.start("torture.rogue_node", arguments, log=state / f"{mode}.log", home=state / "flower")
    try:
        local.wait()
        out, summary = scene.run(f"spoilt-{mode}")
    finally:
        local.nodes[name].stop()
        local.start_node(name)
    expected = 2 if mode == "replayed" else 3
    missed = summary["missing"].get("2", {}).get("times", 0)
    return scene.complaint(out, summary) or (
        None if missed == expected else f"{missed} turns were missed, not {expected}"
    )
