"""Square brackets in what people and settings are called are told as they are, not taken for markup."""

import io

import pytest
from rich.console import Console

import sordino
from sordino.report.ledger_tables import ledger_table
from sordino.report.terminal import axes_table, plan_table, sources_table
from sordino.report.watch_table import watch_screen

VIEWS = {"public": 1.0, "server": 2.0, "client": 3.0}


def shown(*what):
    out = io.StringIO()
    Console(file=out, width=200).print(*what)
    return out.getvalue()


def ledger():
    row = {
        "name": "trial[b]",
        "run": "0123456789",
        "server": "[dim]fed",
        "unit": "client",
        "delta": 1e-5,
        "releases": 1,
        "epsilon": VIEWS,
    }
    return {
        "runs": [row],
        "delta": 1e-5,
        "lifetime_epsilon": VIEWS,
        "lifetime_limit": VIEWS,
        "ledger": "x",
        "head": "y",
    }


def watched():
    node = {"name": "n[/b]", "state": "here", "last": "", "answered": 1, "missed": 0, "bytes_up": 1, "bytes_down": 1}
    return {
        "name": "run[b]",
        "rounds": 2,
        "rounds_done": 1,
        "epsilon": VIEWS,
        "budget": None,
        "view": "public",
        "accuracy": None,
        "finished": True,
        "ended": "[privacy] epsilon was spent",
        "logged": True,
        "nodes": [node],
    }


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (lambda: ledger_table(ledger())[0], ["trial[b] 01234567", "[dim]fed"]),
        (lambda: watch_screen(watched()), ["run[b]", "n[/b]", "[privacy] epsilon was spent"]),
        (lambda: axes_table({"method": {"mine": "A method; set [method] rate."}}), ["set [method] rate"]),
        (lambda: sources_table([{"name": "a[b]", "format": "npz", "path": "/x/[old]/a.npz"}]), ["a[b]", "/x/[old]"]),
    ],
)
def test_brackets_are_shown(what, told):
    text = shown(what())
    assert all(one in text for one in told), text


def test_a_plan_tells_sections_and_names_with_their_brackets(tiny):
    found = sordino.plan(tiny(name="trial[b]")).to_json()
    found["method_facts"]["evaluation"] = "set [engine] evaluate_every for another pace"
    text = shown(plan_table(found))
    assert "Plan of trial[b]: " in text
    assert "set [engine] evaluate_every" in text
