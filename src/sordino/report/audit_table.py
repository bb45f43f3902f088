"""What the terminal shows of an audit: claims beside proofs, and the tests of the noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sordino.report.terminal import VIEWS, epsilon_text

CANNOT = (
    "A bound below the ledger's ε is no proof that the ledger is right: an audit can catch a broken promise, and cannot show a kept "
    "one. Power is the ε it would have proven had every canary been told apart."
)


def audit_report(found: Mapping[str, Any]) -> list[RenderableType]:
    """The table of views, the tests beside it, and the verdict in one sentence."""
    table = Table(
        title=f"Audit of {escape(found['name'])}: {escape(found['method'])}, {found['unit']} level, {found['noise']} noise, "
        f"{found['engine']}",
        box=SIMPLE_HEAD,
        caption=f"{found['runs']} {'run' if found['runs'] == 1 else 'runs'} with canaries in {found['seconds']:.0f} s; confidence "
        f"{found['confidence']:.0%} for the whole audit. {CANNOT}",
    )
    table.add_column("view")
    for column in ("ε by the\nledger", "ε proven", "power", "canaries"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("bound")
    table.add_column("verdict", no_wrap=True)
    for view in VIEWS:
        if view in found["views"]:
            _add(table, view, found["views"][view])
    if "final_model" in found:
        _add(table, "public,\nlast model\nalone", found["final_model"])
    checks = [
        Text.assemble(
            ("  holds  " if check["holds"] else "  ALARM  ", "green" if check["holds"] else "bold red"),
            f"{check['name']}, {check['view']} view: {check['sentence']}",
        )
        for check in found["checks"]
    ]
    return [table, *checks, Text(verdict_sentence(found), style="green" if found["holds"] else "bold red")]


def _add(table: Table, view: str, entry: Mapping[str, Any]) -> None:
    claimed = epsilon_text(entry["claimed_epsilon"])
    if not entry["audited"]:
        table.add_row(view, claimed, "–", "–", "–", unaudited(entry), "–")
        return
    guesses = "" if entry["guesses"] is None else f"\n[dim]{entry['correct']} of {entry['guesses']} guesses right[/dim]"
    table.add_row(
        view,
        claimed,
        epsilon_text(entry["proven_epsilon"]),
        epsilon_text(entry["power"]),
        f"{entry['canaries']:,}",
        f"{entry['bound']}{guesses}",
        "[green]holds[/green]" if entry["holds"] else "[bold red]BEATEN[/bold red]",
    )


def unaudited(entry: Mapping[str, Any]) -> str:
    """Why a view was not audited."""
    promised = math.isfinite(float(entry["claimed_epsilon"]))
    return "too few canaries" if promised else "nothing is promised"


def verdict_sentence(found: Mapping[str, Any]) -> str:
    """The whole audit in one sentence."""
    beaten = [view for view, entry in found["views"].items() if not entry["holds"]]
    if not found.get("final_model", {"holds": True})["holds"] and "public" not in beaten:
        beaten.append("public")
    alarms = sorted({check["name"] for check in found["checks"] if not check["holds"]})
    if beaten:
        return f"The ledger's ε is beaten in the {' and the '.join(beaten)} view: more was proven from outside than it claims."
    if alarms:
        return f"No ε is beaten, but not everything is as charged: {', '.join(alarms)}."
    if not any(entry["audited"] for entry in found["views"].values()):
        why = {unaudited(entry) for entry in found["views"].values()}
        few = "There were too few canaries to prove anything: give the audit a longer --budget."
        return (
            few if "too few canaries" in why else "Nothing is promised in these views, so there was nothing to audit."
        )
    return "Nothing was proven that the ledger does not claim."


def self_test_report(found: Mapping[str, Any]) -> list[RenderableType]:
    """Which audit catches which twin, and that none alarms on the real parts."""
    table = Table(title=f"{found['twins']} broken twins, and what catches them", box=SIMPLE_HEAD)
    for column in ("what is broken", "tried on", "caught by"):
        table.add_column(column, overflow="fold")
    shown = ""
    for one in found["outcomes"]:
        name = "" if one["twin"] == shown else one["twin"]
        shown = one["twin"]
        caught = ", ".join(one["alarms"]) or "nothing"
        table.add_row(name, one["bench"], caught if one["right"] else f"[bold red]{caught}[/bold red]")
    sentence = (
        "Every twin is caught, and nothing alarms on the real parts."
        if found["holds"]
        else "The self-test fails where a line is red: a twin was missed, or a real part alarmed."
    )
    return [table, Text(sentence, style="green" if found["holds"] else "bold red")]


def catalogue_report(found: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """Every method and placement on one table: for each view ε by the ledger, proven, and the power."""
    table = Table(
        title="Every method, placement and view: ε by the ledger / proven / power",
        box=SIMPLE_HEAD,
        caption=f"∞: nothing is promised there. {CANNOT}",
    )
    for column in ("method", "noise", *VIEWS):
        table.add_column(column, justify="right" if column in VIEWS else "left")
    for one in found:
        cells = [_three(one["views"].get(view)) for view in VIEWS] if not one["refused"] else ["refused", "", ""]
        table.add_row(one["method"], one["noise"], *cells)
    return [table, Text(catalogue_sentence(found))]


def catalogue_sentence(found: Sequence[Mapping[str, Any]]) -> str:
    """How many were audited, and how many beaten."""
    audited = [entry for one in found for entry in one["views"].values() if entry["audited"]]
    checks = [check for one in found for check in one["checks"]]
    beaten, alarms = sum(not entry["holds"] for entry in audited), sum(not check["holds"] for check in checks)
    return f"{len(audited)} promises were audited and {beaten} beaten; of {len(checks)} tests beside them {alarms} alarmed."


def catalogue_markdown(found: Sequence[Mapping[str, Any]]) -> str:
    """The same as a page's table."""
    lines = [f"| method | noise | {' | '.join(VIEWS)} |", "|---|---|---|---|---|"]
    for one in found:
        if one["refused"]:
            lines.append(f"| `{one['method']}` | {one['noise']} | refused | | |")
            continue
        cells = " | ".join(_three(one["views"].get(view)) for view in VIEWS)
        lines.append(f"| `{one['method']}` | {one['noise']} | {cells} |")
    return "\n".join([*lines, "", catalogue_sentence(found)])


def _three(entry: Mapping[str, Any] | None) -> str:
    if entry is None or not entry["audited"]:
        return "∞"
    return " / ".join(epsilon_text(entry[key]) for key in ("claimed_epsilon", "proven_epsilon", "power"))
