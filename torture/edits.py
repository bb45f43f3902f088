"""What somebody may do to a run folder: each edit is a function of the folder and of an earlier state of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

Edit = Callable[[Path, Path], None]
Rows = list[str]
"""Lines of a ledger, as text."""

LEDGER, CHECKPOINT, EXPERIMENT, SUMMARY = "ledger.jsonl", "checkpoint.safetensors", "experiment.json", "summary.json"


def on_rows(change: Callable[[Rows, int], None]) -> Edit:
    """An edit of the ledger's lines; the number is that of the first line that is no header."""

    def edit(out: Path, _: Path) -> None:
        path = out / LEDGER
        rows = path.read_text(encoding="utf-8").splitlines()
        change(rows, int("charges" not in json.loads(rows[0])))
        path.write_text("".join(row + "\n" for row in rows), encoding="utf-8")

    return edit


def on_row(place: int, change: Callable[[dict[str, Any]], None]) -> Edit:
    """An edit of one line, counted after the header, by what it says."""

    def edit(rows: Rows, first: int) -> None:
        row = json.loads(rows[first + place])
        change(row)
        rows[first + place] = json.dumps(row, ensure_ascii=False)

    return on_rows(edit)


def on_json(name: str, change: Callable[[dict[str, Any]], None]) -> Edit:
    def edit(out: Path, _: Path) -> None:
        content = json.loads((out / name).read_text(encoding="utf-8"))
        change(content)
        (out / name).write_text(json.dumps(content, ensure_ascii=False, indent=2), encoding="utf-8")

    return edit


def times_hundred(value: Any) -> None:
    """Every noise multiplier inside, wherever it stands."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "noise_multiplier":
                value[key] = inner * 100
            times_hundred(inner)
    elif isinstance(value, list):
        for inner in value:
            times_hundred(inner)


def _swap(rows: Rows, first: int) -> None:
    rows[first + 1], rows[first + 2] = rows[first + 2], rows[first + 1]


def _remove(place: int) -> Callable[[Rows, int], None]:
    def change(rows: Rows, first: int) -> None:
        del rows[first + place if place >= 0 else place]

    return change


def _repeat(place: int) -> Callable[[Rows, int], None]:
    def change(rows: Rows, first: int) -> None:
        rows.append(rows[first + place if place >= 0 else place])

    return change


def _cut_to_half(rows: Rows, first: int) -> None:
    del rows[first + (len(rows) - first) // 2 :]


def _cut_within_a_line(out: Path, _: Path) -> None:
    content = (out / LEDGER).read_bytes()
    (out / LEDGER).write_bytes(content[: len(content) // 2])


def _empty(out: Path, _: Path) -> None:
    (out / LEDGER).write_bytes(b"")


def _delete(*names: str) -> Edit:
    def edit(out: Path, _: Path) -> None:
        for name in names:
            (out / name).unlink()

    return edit


def _older_ledger(out: Path, early: Path) -> None:
    shutil.copy(early / LEDGER, out / LEDGER)


def _header(out: Path, _: Path) -> None:
    """A looser δ at the head; ledgers without a header have nothing there to edit, so all lines but the last go instead."""
    rows = (out / LEDGER).read_text(encoding="utf-8").splitlines()
    head = json.loads(rows[0])
    if "delta" in head:
        rows[0] = json.dumps({**head, "delta": 0.5}, ensure_ascii=False)
    else:
        del rows[:-1]
    (out / LEDGER).write_text("".join(row + "\n" for row in rows), encoding="utf-8")


def _nobody(row: dict[str, Any]) -> None:
    row["participants"] = row["participants"][1:] if row["participants"] else [0]


def _free(row: dict[str, Any]) -> None:
    for charge in row["charges"]:
        charge["event"] = {"kind": "nothing"}


def _other_schema(content: dict[str, Any]) -> None:
    content["schema"] = 99


def _smaller_epsilon(content: dict[str, Any]) -> None:
    for entry in content["epsilon"].values():
        entry["epsilon"] = 0.5


def _flip_a_bit(out: Path, _: Path) -> None:
    """One bit of the checkpoint's last tensor."""
    content = bytearray((out / CHECKPOINT).read_bytes())
    content[-3] ^= 0x40
    (out / CHECKPOINT).write_bytes(content)


LEDGER_EDITS: dict[str, Edit] = {
    "a multiplier in one line is a hundred times larger": on_row(1, times_hundred),
    "a multiplier in the charges of one line is a hundred times larger": on_row(
        1, lambda row: times_hundred(row["charges"])
    ),
    "one line charges nothing": on_row(1, _free),
    "one line names other participants": on_row(1, _nobody),
    "a line is removed": on_rows(_remove(1)),
    "the first line is removed": on_rows(_remove(0)),
    "two lines are swapped": on_rows(_swap),
    "a copy of the last line is appended": on_rows(_repeat(-1)),
    "a copy of an earlier line is appended": on_rows(_repeat(1)),
    "the ledger is cut after half of its lines": on_rows(_cut_to_half),
    "the ledger is cut within a line": _cut_within_a_line,
    "the ledger is emptied": _empty,
    "the ledger is deleted": _delete(LEDGER),
    "ledger and checkpoint are deleted": _delete(LEDGER, CHECKPOINT),
    "an older ledger of the same run is put in": _older_ledger,
    "the ledger's head is changed": _header,
    "the experiment is of another schema": on_json(EXPERIMENT, _other_schema),
}

HALF_EDITS: dict[str, Edit] = {**LEDGER_EDITS, "a bit of the checkpoint is flipped": _flip_a_bit}

WHOLE_EDITS: dict[str, Edit] = {
    **LEDGER_EDITS,
    "the last line is removed": on_rows(_remove(-1)),
    "the summary is of another schema": on_json(SUMMARY, _other_schema),
    "the summary tells a smaller ε": on_json(SUMMARY, _smaller_epsilon),
}
