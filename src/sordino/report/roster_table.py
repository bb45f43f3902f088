"""The roster of a federation as JSON and as a table: who is there, who was, and until when the certificate holds."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from sordino.nodes.authority import SERVER_CERTIFICATE, read_certificate
from sordino.nodes.provision import Provision
from sordino.nodes.roster import Member


def roster_content(made: Provision) -> dict[str, Any]:
    certificate = read_certificate(made.server / SERVER_CERTIFICATE)
    return {
        "federation": made.facts.name,
        "folder": str(made.folder),
        "server": list(made.facts.addresses),
        "port": made.facts.port,
        "certificate_until": certificate.not_valid_after_utc.isoformat(timespec="seconds"),
        "nodes": [_row(made, member) for member in made.roster.active],
        "former": [_row(made, member) for member in made.roster.everybody if member.removed],
    }


def _row(made: Provision, member: Member) -> dict[str, Any]:
    kit = made.kit(member.name)
    return {
        "name": member.name,
        "since": member.since,
        "key_since": member.key_since,
        "until": member.removed or None,
        "fingerprint": member.fingerprint,
        "kit": str(kit) if kit.is_dir() and not member.removed else None,
    }


def roster_table(content: dict[str, Any]) -> list[Any]:
    table = Table(title=f"{content['federation']} at {content['server'][0]}:{content['port']}", title_justify="left")
    for column in ("node", "since", "until", "key"):
        table.add_column(column, overflow="fold")
    for row in [*content["nodes"], *content["former"]]:
        until = _day(row["until"]) if row["until"] else ""
        key = row["fingerprint"].removeprefix("SHA256:")[:16] + "…"
        table.add_row(row["name"], _day(row["key_since"]), until, key, style="dim" if until else "")
    lines = [f"The server's certificate holds until {_day(content['certificate_until'])}."]
    kits = [row["kit"] for row in content["nodes"] if row["kit"]]
    if kits:
        lines.append(
            f"Hand each operator their own kit over a safe way ({kits[0]}, …), and delete it here: it holds the node's private key."
        )
    return [table, *lines]


def _day(time: str) -> str:
    return time[:16].replace("T", " ")
