"""`python -m sordino.engine.flower.supernode_process PARENT --kit ...`: a node, which waits without torch in its memory.

Flower's SuperNode runs in the main thread, our attendant in another. Where the SuperLink does not let the node in, because the
session of a former process has not run out, or because it is away, the process begins again after a while, which grows: a
node that was removed must not keep a core busy with asking.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import threading
import time
from pathlib import Path

from sordino.engine.flower.leash import end_with
from sordino.startup import quick_imports

with quick_imports():
    import flwr.supernode.main  # noqa: F401  what Flower's own main imports when it is called
    from flwr.supernode.cli import flower_supernode

    from sordino.engine.flower.attendant import Attendant, Worker
    from sordino.engine.flower.pace import Bell, set_pace
    from sordino.engine.flower.parcel import SealReader
    from sordino.files import SECRET_FILE, make_folder, write_whole
    from sordino.nodes.kit import Kit

AGAIN_SECONDS = 2.0
"""Less than the five seconds after which Flower ends a process that wanted to end."""
LONGEST_SECONDS = 30.0
SETTLED_SECONDS = 60.0
"""A process that lived for longer had been let in: the next one waits no longer than the first."""
TRIES = "SORDINO_NODE_TRIES"
"""How often this node was turned away in a row: a process tells it to the one that takes over. What is no number counts as none."""
_SECRET = "processes.secret"


def main() -> None:
    given = _arguments()
    end_with(given.parent)
    told = os.environ.get(TRIES, "")
    tries = int(told) if told.isascii() and told.isdigit() else 0
    time.sleep(max(0.0, _seconds_before(tries) - AGAIN_SECONDS))
    begun = time.monotonic()
    set_pace(bell := Bell())
    kit = Kit.read(given.kit)
    make_folder(given.state)
    secret = secrets.token_bytes(32)
    write_whole(given.state / _SECRET, secret, mode=SECRET_FILE)
    attendant = _attendant(kit, secret, given, bell)
    threading.Thread(target=attendant.serve, daemon=True).start()
    _run_supernode(kit, given.state / _SECRET)
    attendant.worker.stop()
    tries = tries + 1 if time.monotonic() - begun < SETTLED_SECONDS else 1
    waits = f"trying again in {_seconds_before(tries):g} s"
    _say(f"The SuperLink at {kit.facts.address} does not let this node in yet; {waits}.")
    time.sleep(AGAIN_SECONDS)
    os.environ[TRIES] = str(tries)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _seconds_before(tries: int) -> float:
    """How long a process waits that was turned away so many times in a row: twice as long each time from the third on."""
    return 0.0 if tries == 0 else min(AGAIN_SECONDS * 2.0 ** max(0, min(tries, 9) - 3), LONGEST_SECONDS)


def _run_supernode(kit: Kit, secret: Path) -> None:
    """Flower's own main, until it gives up: by `SystemExit`, or by returning, as where the SuperLink's certificate has run out.

    Its other threads would go on then, without a connection. Where somebody ends the process in good order, that is not caught.
    """
    sys.argv = [
        "flower-supernode",
        *("--superlink", kit.facts.address),
        *("--root-certificates", str(kit.ca_certificate)),
        *("--auth-supernode-private-key", str(kit.private_key)),
        *("--host", "127.0.0.1"),
        *("--port", str(kit.facts.local_port)),
        *("--isolation", "process"),
        *("--superexec-auth-secret-file", str(secret)),
    ]
    try:
        flower_supernode()
    except SystemExit as ended:
        if not ended.code:
            raise


def _attendant(kit: Kit, secret: bytes, given: argparse.Namespace, bell: Bell) -> Attendant:
    command = [
        *(sys.executable, "-m", "sordino.engine.flower.worker_process", str(os.getpid())),
        *("--name", kit.facts.name),
        *("--server", kit.facts.address),
        *("--limits", str(kit.limits)),
        *("--data", str(given.data)),
        *("--state", str(given.state)),
        *(["--rehearsal"] if given.rehearsal else []),
        "--socket",
    ]
    return Attendant(
        address=f"127.0.0.1:{kit.facts.local_port}",
        secret=secret,
        seals=SealReader.of(kit.folder, kit.facts.name),
        worker=Worker(command=command, idle_seconds=given.idle_seconds),
        log=_say,
        bell=bell,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("parent", type=int)
    for name in ("--kit", "--data", "--state"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--rehearsal", action="store_true")
    parser.add_argument("--idle-seconds", type=float, default=300.0)
    return parser.parse_args()


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
