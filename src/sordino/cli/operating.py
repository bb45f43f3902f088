"""Commands of operators: serve, node, preflight."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from sordino.cli.application import AsJson, app
from sordino.cli.output import show_value
from sordino.core import SordinoError

Health = Annotated[int, typer.Option("--health", metavar="PORT", help="Of the health end point on loopback; 0: any.")]
KitFolder = Annotated[Path, typer.Argument(metavar="KIT", help="The kit that `sordino provision` made for this node.")]
StateFolder = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", help="What the node remembers; default by its name in $SORDINO_STATE."),
]
Rows = Annotated[Path | None, typer.Option("--data", metavar="FILE", help="The node's own rows.")]
SOMETHING_WRONG = 1


@app.command()
def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of `sordino provision`.")],
    host: Annotated[
        str | None, typer.Option("--host", help="The address to listen at; default the server's own.")
    ] = None,
    health: Health = 0,
) -> None:
    """Run the server that nodes connect to; runs are started beside it with `sordino run`."""
    _needs_flower()
    from sordino.operating.server import ServerRun

    _stop_on_terminate()
    ServerRun(folder=folder, host=host, say=_say).run(health_port=health)


@app.command()
def node(
    kit: KitFolder,
    data: Rows = None,
    state: StateFolder = None,
    ledger: Annotated[bool, typer.Option("--ledger", help="Show what the node has spent over its life.")] = False,
    where: Annotated[bool, typer.Option("--where", help="Print the node's state folder.")] = False,
    rehearsal: Annotated[
        bool, typer.Option("--rehearsal", help="Also answer runs with seeded noise, which hides nothing.")
    ] = False,
    health: Health = 0,
    as_json: AsJson = False,
) -> None:
    """Run a node beside its rows; or show its own ledger."""
    from sordino.nodes.kit import Kit
    from sordino.nodes.state import state_folder

    found = Kit.read(kit)
    remembered = state or state_folder(found.facts.name)
    if where:
        show_value(str(remembered), as_json, lambda: str(remembered))
    elif ledger:
        _show_ledger(found.limits, remembered, as_json)
    elif data is None:
        raise SordinoError("A node needs its rows; write --data FILE, or --ledger to see what it has spent.")
    else:
        _needs_flower()
        from sordino.operating.node import NodeRun

        _stop_on_terminate()
        NodeRun(kit=found, data=data, state=remembered, say=_say, rehearsal=rehearsal).run(health_port=health)


@app.command()
def preflight(
    kit: KitFolder,
    data: Rows = None,
    experiment: Annotated[
        Path | None, typer.Option("--experiment", metavar="FILE", help="The plan that is to be run.")
    ] = None,
    state: StateFolder = None,
    as_json: AsJson = False,
) -> None:
    """Check a node before anything is trained: kit, address, TLS, clock, versions, rows, and limits against the plan."""
    _needs_flower()
    from sordino.nodes.kit import Kit
    from sordino.nodes.state import state_folder
    from sordino.operating.preflight import preflight as look
    from sordino.report.finding_table import findings_table

    remembered = state or state_folder(Kit.read(kit).facts.name)
    found = list(look(kit, state=remembered, data=data, experiment=experiment))
    content = [vars(one) for one in found]
    show_value(content, as_json, lambda: findings_table(found))
    if any(one.level == "wrong" for one in found):
        raise typer.Exit(SOMETHING_WRONG)


def _show_ledger(limits: Path, state: Path, as_json: bool) -> None:
    from sordino.engine.client.lifetime import LifetimeLedger
    from sordino.engine.client.limits import read_limits
    from sordino.nodes.state import LEDGER
    from sordino.report.ledger_tables import ledger_content, ledger_table

    content = ledger_content(LifetimeLedger(state / LEDGER, readonly=True), read_limits(limits))
    show_value(content, as_json, lambda: ledger_table(content))


def _needs_flower() -> None:
    from sordino.engine.engines import needs_flower

    needs_flower()


def _say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


def _stop_on_terminate() -> None:
    """Whoever supervises processes sends SIGTERM: it ends in good order, as Ctrl-C does."""

    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
