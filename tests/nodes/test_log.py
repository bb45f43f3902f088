"""Logs hold events and fields of a fixed list, and never stop what they tell of."""

import json
import os

import pytest

from sordino.engine.overseen import nodes_seen
from sordino.nodes.log import JsonLog, read_log


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
