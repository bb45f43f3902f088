"""A run that goes on, as a screen: rounds, ε of each view, and each node's state, bytes and last sign of life."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sordino.core import VIEWS
from sordino.engine.overseen import seconds_ago

MOST_NODES = 40
"""Rows of the table; of a larger federation those are shown that missed most."""


def watch_screen(content: dict[str, Any]) -> RenderableType:
    rounds, done = content["rounds"], content["rounds_done"]
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(content["name"]), ProgressBar(total=rounds, completed=done, width=30), f"round {done} of {rounds}"
    )
    facts: list[RenderableType] = [head, _privacy(content)]
    if content["accuracy"] is not None:
        facts.append(f"accuracy {100 * content['accuracy']:.2f} %")
    if content["finished"]:
        facts.append(Text(f"Finished: {content['ended'] or 'all rounds are done'}."))
    if not content["logged"]:
        facts.append("This run keeps no log of nodes: its clients are in one process.")
    return Group(*facts, *([_nodes(content["nodes"])] if content["nodes"] else []))


def _privacy(content: dict[str, Any]) -> str:
    figures = [f"{view} {_figure(content['epsilon'][view])}" for view in VIEWS]
    budget = "" if content["budget"] is None else f"  (budget {content['budget']:g} in the {content['view']} view)"
    return f"ε so far: {', '.join(figures)}{budget}"


def _nodes(nodes: list[dict[str, Any]]) -> Table:
    table = Table()
    for column in ("node", "state", "last seen", "answers", "missed", "up", "down"):
        right = column not in ("node", "state")
        table.add_column(column, justify="right" if right else "left", overflow="fold", no_wrap=right)
    shown = sorted(nodes, key=lambda node: -node["missed"])[:MOST_NODES] if len(nodes) > MOST_NODES else nodes
    for node in shown:
        style = "red" if node["state"].startswith(("missed", "offline")) else ""
        counts = (str(node["answered"]), str(node["missed"]), _bytes(node["bytes_up"]), _bytes(node["bytes_down"]))
        table.add_row(Text(node["name"]), Text(node["state"]), _ago(node["last"]), *counts, style=style)
    if len(nodes) > len(shown):
        table.caption = f"and {len(nodes) - len(shown)} more"
    return table


def _ago(time: str) -> str:
    if not time:
        return "never"
    seconds = seconds_ago(time)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.3g} {unit}"
        size /= 1000
    return ""


def _figure(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:.4g}"
