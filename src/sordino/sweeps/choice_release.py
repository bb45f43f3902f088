"""What may be published of a choice among secure runs: the chosen run's release, at the ε that covers the choice too.

The number of runs, the other runs and the folder that the chosen one lies in stay with the server.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save

from sordino.engine.record import MODEL, PREDICTION, RunRecord
from sordino.engine.record_keys import read_metrics_file, read_published_file
from sordino.files import make_folder, to_json, write_whole
from sordino.pretrain.provenance import IDENTITY_FILE, KEY

PUBLISHED = ("rule", "expected_runs", "candidates")
KEPT_SECRET = {
    "epsilon": math.inf,
    "accountant": "none",
    "because": "it depends on the number of runs, which is secret",
}
"""Of the views that see every run: their ε would tell the public how many there were."""


def publish(choice: Mapping[str, Any], chosen: Path, out: Path) -> None:
    """Write `out`/release: model, metrics and summary of the chosen run."""
    source, target = RunRecord(chosen).release, RunRecord(out).release
    make_folder(target)
    rows = read_metrics_file(source / "metrics.jsonl")
    kept = [to_json({key: value for key, value in row.items() if key != "epsilon"}) + "\n" for row in rows]
    write_whole(target / "metrics.jsonl", "".join(kept).encode())
    write_whole(target / MODEL, _model(source / MODEL, choice["epsilon"]["public"]["epsilon"]))
    write_whole(target / PREDICTION, (source / PREDICTION).read_bytes())
    write_whole(out / IDENTITY_FILE, (chosen / IDENTITY_FILE).read_bytes())
    summary = read_published_file(source / "summary.json")
    for view, price in choice["epsilon"].items():
        told = {**price, "accountant": "rdp"} if view == "public" else KEPT_SECRET
        summary["epsilon"][view] = {**summary["epsilon"][view], **told, "note": ""}
    about = {key: choice[key] for key in PUBLISHED}
    content = {
        **summary,
        "accuracy_epsilon_area": None,
        "selection": {**about, "settings": choice["chosen"]["settings"]},
    }
    write_whole(target / "summary.json", to_json(content, indent=2).encode())


def _model(path: Path, epsilon: float) -> bytes:
    """The chosen model; what its file says of its own training gets the ε of the choice."""
    with safe_open(path, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        own, *ancestors = json.loads(file.metadata()[KEY])
    return save(tensors, metadata={KEY: to_json([{**own, "epsilon": epsilon}, *ancestors])})
