"""Everything that can be wrong with a node before anything is trained, each as one sentence.

Nothing is sent but a TLS hand-shake; rows and limits are looked at here, on the node's own machine.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sordino import __version__
from sordino.core import SordinoError
from sordino.engine.client.lifetime import LifetimeLedger
from sordino.engine.client.limits import Limits, read_limits
from sordino.nodes.kit import Kit
from sordino.nodes.state import LEDGER, held, other_states
from sordino.operating.connection import connection_findings
from sordino.operating.finding import Finding, checked
from sordino.operating.rehearsal import plan_findings

LEAST_FREE_BYTES = 200 << 20
FLOWER = "flwr"


def preflight(kit_folder: Path, *, state: Path, data: Path | None, experiment: Path | None) -> Iterator[Finding]:
    """Look at everything in turn; where the kit itself is damaged, there is nothing more to look at.

    Args:
        kit_folder: of `sordino provision`.
        state: the node's state folder.
        data: the node's own rows.
        experiment: the plan that is to be run.
    """
    try:
        kit = Kit.read(kit_folder)
    except SordinoError as error:
        yield Finding(what="kit", level="wrong", sentence=str(error))
        return
    yield checked("kit", lambda: _key(kit))
    yield checked("versions", _versions)
    yield from connection_findings(kit)
    yield checked("port", lambda: _local_port(kit))
    yield from _state_findings(state)
    limits: Limits | None = None
    try:
        limits = read_limits(kit.limits)
        yield Finding(what="limits", level="ok", sentence=_about_limits(limits))
    except SordinoError as error:
        yield Finding(what="limits", level="wrong", sentence=str(error))
    if experiment is None:
        sentence = "No experiment was given, so rows and limits were not held against a plan; add --experiment FILE."
        yield Finding(what="plan", level="note", sentence=sentence)
    elif limits is not None:
        yield from plan_findings(experiment, data, limits=limits, ledger=state / LEDGER)


def _key(kit: Kit) -> str:
    key = kit.node_key()
    if kit.public_key.is_file() and kit.public_key.read_bytes().split()[:2] != key.public.split()[:2]:
        raise SordinoError(
            f"{kit.public_key} is not the public half of {kit.private_key}; copy the kit again, so that both are of one pair."
        )
    return f"Node {kit.facts.name}, key {key.fingerprint}; the server's roster must show the same."


def _versions() -> str:
    wanted = [one for one in importlib.metadata.requires("sordino") or () if one.startswith(FLOWER) and "flower" in one]
    try:
        found = importlib.metadata.version(FLOWER)
    except importlib.metadata.PackageNotFoundError as error:
        raise SordinoError("Flower is not installed here; use `pip install sordino[flower]`.") from error
    exact = wanted[0].partition("==")[2].partition(";")[0].strip() if wanted and "==" in wanted[0] else found
    if found != exact:
        raise SordinoError(
            f"Flower {exact} was expected, but got {found}; use `pip install sordino[flower]`, the same at the server."
        )
    python = ".".join(map(str, sys.version_info[:3]))
    return f"sordino {__version__}, Flower {found}, Python {python}; the server refuses another version of sordino by name."


def _local_port(kit: Kit) -> str:
    port = kit.facts.local_port
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            raise SordinoError(
                f"Port {port} of this machine's loopback is taken ({error.strerror}): the node may be running already; else set another "
                "local_port in node.toml."
            ) from error
    return f"Port {port} on loopback is free."


def _state_findings(state: Path) -> Iterator[Finding]:
    ledger = state / LEDGER
    if not ledger.exists():
        others = ", ".join(str(path) for path in other_states(state))
        sentence = f"{state} has no ledger yet: this node has spent nothing so far."
        if others:
            sentence += (
                f" Others are at {others}; if one is about the same rows, use it with --state, because their ε add up."
            )
        yield Finding(what="ledger", level="note", sentence=sentence)
    else:
        yield checked("ledger", lambda: _ledger(ledger))
    yield checked("state", lambda: _room(state))


def _ledger(path: Path) -> str:
    own = LifetimeLedger(path, readonly=True)
    return f"{path} is whole: {len(own.agreements)} runs, head {own.head[:12]}…"


def _room(state: Path) -> str:
    with held(state):
        free = shutil.disk_usage(state).free
    with suppress(OSError):
        state.rmdir()  # made for the trial, if there was nothing
    if free < LEAST_FREE_BYTES:
        raise SordinoError(
            f"{state} has {free >> 20} MB left, but the ledger must be written before anything leaves; free at least "
            f"{LEAST_FREE_BYTES >> 20} MB."
        )
    return f"{state} can be written, and nobody else uses it."


def _about_limits(limits: Limits) -> str:
    life = ", ".join(f"{view} {epsilon:g}" for view, epsilon in limits.lifetime_epsilon.items()) or "without limit"
    bare = (
        "values may leave without noise of this node" if limits.central else "nothing leaves without this node's noise"
    )
    return f"ε over its life: {life}; {bare}."
