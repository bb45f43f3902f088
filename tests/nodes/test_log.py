"""Logs hold events and fields of a fixed list, and never stop what they tell of."""

import ast
import json
import os
from pathlib import Path

import pytest

import sordino
from sordino.engine.overseen import nodes_seen
from sordino.nodes.log import EVENTS, JsonLog, read_log


def test_events_are_lines_of_json(tmp_path):
    log = JsonLog(tmp_path / "deep" / "log.jsonl")
    log.write("answered", node="north", round=3, kind="update", seconds=1.5, bytes_up=80, bytes_down=90)
    log.write("missing", node="south", round=3, kind="update", because="it did\nnot answer " + "x" * 999)
    rows = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [row["event"] for row in rows] == ["answered", "missing"]
    assert rows[1]["because"].startswith("it did not answer x") and len(rows[1]["because"]) == 400
    assert read_log(log.path) == rows


@pytest.mark.parametrize("facts", [{"update": 1.0}, {"node": [0.1, 0.2]}, {"node": object()}])
def test_what_is_not_on_the_list_is_not_written(tmp_path, facts):
    log = JsonLog(tmp_path / "log.jsonl")
    with pytest.raises(ValueError, match="log"):
        log.write("answered", **facts)
    assert not log.path.exists()


def written():
    """Every call in our code that writes an event of a log: its name, and the names of its fields."""
    for path in Path(sordino.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and "log" in ast.unparse(node.func).lower() and node.args:
                event = getattr(node.args[0], "value", None)
                if isinstance(event, str) and node.keywords:
                    yield event, {keyword.arg for keyword in node.keywords}


def test_every_event_that_our_code_writes_is_on_the_list():
    found = list(written())
    assert {"too_few", "released", "seen", "round"} <= {event for event, _ in found}
    assert [event for event, fields in found if not fields <= EVENTS.get(event, set())] == []


def test_a_full_disk_loses_lines_and_nothing_else(tmp_path):
    log = JsonLog(tmp_path / "log.jsonl")
    os.symlink("/dev/full", log.path)
    log.write("stopped", because="nothing")


def test_a_line_that_was_cut_short_is_left_out(tmp_path):
    log = JsonLog(tmp_path / "log.jsonl")
    log.write("seen", node="north", status="online")
    with log.path.open("ab") as file:
        file.write(b'{"event": "se\n{"time": "x", "event": "seen"')
    assert [row["node"] for row in read_log(log.path)] == ["north"]


def test_a_log_tells_how_each_node_does(tmp_path):
    log = JsonLog(tmp_path / "log.jsonl")
    for number in range(2):
        log.write("answered", node="north", round=number, kind="update", seconds=1.0, bytes_up=8, bytes_down=16)
    log.write("missing", node="south", round=1, kind="update", because="it is offline")
    north, south = nodes_seen(read_log(log.path)).values()
    assert (north.answered, north.bytes_up, north.bytes_down, north.state) == (2, 16, 32, "answered round 2")
    assert (south.missed, south.last, south.state) == (1, "", "missed round 2: it is offline")
