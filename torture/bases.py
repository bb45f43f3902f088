"""What mutations start from: the examples of the tree that need no download, made small, and a few with files of the suite's own."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from torture.experiments import small
from torture.toml import Table

EMBEDDED = ("digits", "mnist5k")
PUBLIC = "public.npz"
ROUNDS, CLIENTS, ROWS, TEST_ROWS = 2, 8, 240, 40

SGD = {"name": "dp-fedavg", "epochs": 1, "batch_size": 16, "learning_rate": 0.1}


def bases(data: Path, examples: Path) -> list[Table]:
    """Experiments of less than a second each. Files they need are written into `data`."""
    found = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(examples.rglob("*.toml"))]
    own = _on_own_files(data)
    return [*(shrunk(table, data / PUBLIC) for table in found if _is_embedded(table)), *own]


def _is_embedded(table: Table) -> bool:
    public = table.get("start", {}).get("data", {}).get("source", "digits")
    return table.get("data", {}).get("source") in EMBEDDED and public in EMBEDDED


def shrunk(table: Table, public: Path) -> Table:
    """The same choices with few rounds, clients, rows and epochs, on digits; the public set is a small one of ours."""
    small_table = copy.deepcopy(table)
    small_table["rounds"] = ROUNDS
    data = small_table["data"]
    data["source"] = "digits"
    if "data" in small_table.get("start", {}):
        small_table["start"]["data"]["source"] = str(public)
    data["clients"] = min(data.get("clients", 1), CLIENTS)
    own_split = {} if isinstance(data.get("test"), dict) else {"test_limit": TEST_ROWS}
    data["options"] = {**data.get("options", {}), "limit": ROWS, **own_split}
    if small_table["model"]["name"] not in {"mlp", "logistic"} and "resize" not in data["options"]:
        data["options"]["resize"] = 16
    if "late_clients" in data:
        data["late_clients"] = 1
    if "min_examples" in data.get("partition", {}):
        data["partition"]["min_examples"] = 1
    privacy = small_table.get("privacy", {})
    if "expected_cohort" in privacy:
        privacy["expected_cohort"] = data["clients"] / 2
    if "epochs" in small_table.get("start", {}):
        small_table["start"]["epochs"] = 1
    if "perturbation_batch" in small_table.get("start", {}):
        small_table["start"]["perturbation_batch"] = 100
    if "warmup_epochs" in small_table.get("start", {}):
        small_table["start"]["warmup_epochs"] = 0
    if "hidden" in small_table["model"]:
        small_table["model"]["hidden"] = [8 for _ in small_table["model"]["hidden"]]
    if small_table.get("tuning", {}).get("name") == "reprogram":
        small_table["tuning"] |= {"frame": 16, "image": 8}
    small_table["engine"] = {**small_table.get("engine", {}), "schedule": "workers", "workers": 1}
    small_table["engine"].pop("evaluate_every", None)
    return small_table


def _on_own_files(data: Path) -> list[Table]:
    """A table of numbers as CSV, one with a client column, and images as .npz."""
    write_files(data)
    table = small(rounds=ROUNDS, method=SGD, source="seeded")
    iid = {"name": "iid"}
    csv = {"source": str(data / "rows.csv"), "clients": 4, "partition": iid, "options": {"label_column": "label"}}
    by_client = {
        "source": str(data / "rows.csv"),
        "clients": 3,
        "partition": {"name": "column"},
        "options": {"label_column": "label", "client_column": "ward", "columns": ["age", "pulse"]},
    }
    npz = {"source": str(data / "images.npz"), "clients": 4, "partition": iid, "options": {"test_fraction": 0.25}}
    plain = {"name": "logistic"}
    return [
        {**table, "data": csv, "model": plain, "privacy": {**table["privacy"], "expected_cohort": 2}},
        {**table, "data": by_client, "model": plain, "privacy": {**table["privacy"], "expected_cohort": 2}},
        {**table, "data": npz, "privacy": {**table["privacy"], "expected_cohort": 2}},
    ]


def write_files(data: Path) -> None:
    """Good files, and broken ones that a mutation may point to."""
    data.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(0)
    rows = [f"{chance.integers(20, 80)},{chance.normal():.3f},w{i % 3},{i % 2}" for i in range(120)]
    head = "age,pulse,ward,label"
    _text(data / "rows.csv", [head, *rows])
    _text(data / "holes.csv", [head, *rows[:50], "33,,w1,1", *rows[50:]])
    _text(data / "headless.csv", rows)
    _text(data / "words.csv", [head, *("old,fast,w1,1" for _ in range(20))])
    _text(data / "empty.csv", [])
    _text(data / "one-class.csv", [head, *(row[:-1] + "1" for row in rows)])
    (data / "bytes.csv").write_bytes(bytes(chance.integers(0, 256, 4000, dtype=np.uint8)))
    labels = np.arange(120) % 4
    images = chance.integers(0, 256, (120, 8, 8)).astype(np.uint8)
    _npz(data / "images.npz", x_train=images, y_train=labels)
    _npz(data / PUBLIC, x_train=chance.integers(0, 256, (200, 8, 8)).astype(np.uint8), y_train=np.arange(200) % 10)
    _npz(data / "short.npz", x_train=images, y_train=labels[:100])
    _npz(data / "negative.npz", x_train=images, y_train=labels - 1)
    _npz(data / "nan.npz", x_train=np.full((120, 5), np.nan, np.float32), y_train=labels)
    _npz(data / "nothing.npz", x_train=images[:0], y_train=labels[:0])
    _npz(data / "unnamed.npz", images=images, labels=labels)
    whole = (data / "images.npz").read_bytes()
    (data / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (data / "folder.npz").mkdir(exist_ok=True)


BROKEN = (
    *("holes.csv", "headless.csv", "words.csv", "empty.csv", "one-class.csv", "bytes.csv", "absent.csv"),
    *("short.npz", "negative.npz", "nan.npz", "nothing.npz", "unnamed.npz", "cut.npz", "folder.npz", "absent.npz"),
)


def _text(path: Path, rows: list[str]) -> None:
    path.write_text("".join(row + "\n" for row in rows), encoding="utf-8")


def _npz(path: Path, **arrays: Any) -> None:
    np.savez(path, **arrays)
