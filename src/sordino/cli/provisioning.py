"""The command that makes a federation: authority, server certificate, roster, and one kit for each node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sordino.cli.application import AsJson, app
from sordino.cli.output import show_value
from sordino.core import SordinoError

Names = list[str] | None


@app.command()
def provision(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the federation, at its operator.")],
    server: Annotated[
        Names, typer.Option("--server", metavar="HOST", help="Where nodes reach the server; repeat for more names.")
    ] = None,
    port: Annotated[int, typer.Option("--port", help="Of the server, for a new federation.")] = 9092,
    node: Annotated[Names, typer.Option("--node", metavar="NAME", help="Add a node; repeat for more.")] = None,
    public_key: Annotated[
        Path | None,
        typer.Option("--public-key", metavar="FILE", help="Of the one node to add or rotate, if it made its own key."),
    ] = None,
    rotate: Annotated[Names, typer.Option("--rotate", metavar="NAME", help="Give a node another key.")] = None,
    remove: Annotated[Names, typer.Option("--remove", metavar="NAME", help="Strike a node off the roster.")] = None,
    limits: Annotated[
        Path | None, typer.Option("--limits", metavar="FILE", help="Proposed limits for the kits of new nodes.")
    ] = None,
    renew: Annotated[bool, typer.Option("--renew", help="Make a new server certificate; kits stay good.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a federation's authority, server certificate and one start kit per node; add, rotate, remove nodes; show the roster."""
    from sordino.nodes.provision import FederationFacts, Provision
    from sordino.nodes.roster import check_name
    from sordino.report.roster_table import roster_content, roster_table

    _refuse_many_owners(public_key, [*(node or ()), *(rotate or ())])
    for name in node or ():
        check_name(name)
    if server:
        facts = FederationFacts(name=folder.resolve().name, addresses=tuple(server), port=port)
        made = Provision.new(folder, facts)
    else:
        made = Provision(folder)
    proposed: dict[str, Any] = {} if limits is None else {"limits": _checked_limits(limits)}
    for name in remove or ():
        made.remove(name)
    for name in node or ():
        made.add(name, public=public_key, **proposed)
    for name in rotate or ():
        made.rotate(name, public=public_key)
    if renew:
        made.renew_server()
    content = roster_content(made)
    show_value(content, as_json, lambda: roster_table(content))


def _refuse_many_owners(public_key: Path | None, names: list[str]) -> None:
    if public_key is not None and len(names) != 1:
        raise SordinoError(
            f"--public-key is the key of one node, but got {len(names)} nodes to add or rotate; do them one by one."
        )


def _checked_limits(path: Path) -> str:
    from sordino.engine.client.limits import read_limits

    read_limits(path)
    return path.read_text(encoding="utf-8")
