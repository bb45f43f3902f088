"""The run record: a folder from which a run can be read, resumed and checked. docs/run-record.md describes every file."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from sordino import __version__
from sordino.core import SordinoError
from sordino.experiment import Experiment
from sordino.files import disk_errors, to_json, write_whole
from sordino.kernels.native import SWITCH, library
from sordino.methods.method import State

KERNELS, TORCH_ALONE = "compiled kernels", "torch alone"
SCHEMA = 1
PACKAGES = ("torch", "numpy", "scipy", "dp-accounting", "cryptography", "safetensors", "pydantic")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Where a run stands after its last completed round."""

    rounds_done: int
    ledger_lines: int
    seconds: float
    bytes_up: int
    bytes_down: int
    state: State
    choice: dict[str, Any] | None = None
    """What `tuning = "auto"` decided, once it has."""


class RunRecord:
    """Reads and writes one run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.experiment = folder / "experiment.json"
        self.ledger = folder / "ledger.jsonl"
        self.metrics = folder / "metrics.jsonl"
        self.checkpoint = folder / "checkpoint.safetensors"
        self.model = folder / "model.safetensors"
        self.summary = folder / "summary.json"
        self.diagnostics = folder / "non-private-diagnostics"
        self.personal = folder / "private-to-each-client"

    def begin(self, experiment: Experiment, *, resume: bool, facts: dict[str, Any]) -> dict[str, Any]:
        """Open the folder for this experiment; returns the facts that were settled when the run first began."""
        if self.experiment.exists():
            return self._continue(experiment, resume)
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        if any(self.folder.iterdir()):
            raise SordinoError(f"{self.folder} holds other files and no run; choose an empty or new folder with --out.")
        content = {
            "schema": SCHEMA,
            "fingerprint": experiment.fingerprint(),
            "experiment": experiment.model_dump(mode="json"),
            "facts": facts,
            "versions": versions(),
        }
        write_whole(self.experiment, to_json(content, indent=2).encode())
        return facts

    def _continue(self, experiment: Experiment, resume: bool) -> dict[str, Any]:
        found = self.read_experiment()
        if found["fingerprint"] != experiment.fingerprint():
            raise SordinoError(
                f"{self.folder} belongs to another experiment ({found['experiment']['name']!r}, fingerprint {found['fingerprint']}); "
                "choose another --out folder, or give the same file and --set values as before."
            )
        if self.summary.exists():
            raise SordinoError(
                f"The run in {self.folder} is complete; look at it with `sordino show`, or choose another --out folder."
            )
        if not resume:
            raise SordinoError(
                f"{self.folder} holds an unfinished run of this experiment; add --resume to continue it, or choose another --out folder."
            )
        _demand_same_kernels(self.folder, found["versions"].get("kernels", TORCH_ALONE))
        facts: dict[str, Any] = found["facts"]
        return facts

    def read_experiment(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self.experiment.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SordinoError(
                f"{self.folder} is not a run folder: {self.experiment.name} is missing or damaged; give the folder that --out named."
            ) from error
        return content

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        state = {key: value.detach().cpu().contiguous() for key, value in checkpoint.state.items()}
        about = {key: value for key, value in checkpoint.__dict__.items() if key != "state"}
        write_whole(self.checkpoint, save(state, metadata={"about": json.dumps(about), "digest": _digest(state)}))

    def personal_file(self, rounds_done: int) -> Path:
        """What clients keep for themselves after so many rounds; it is written before the checkpoint that counts on it."""
        return self.personal / f"after-{rounds_done:05d}-rounds.safetensors"

    def forget_personal_files(self, *, except_for: int) -> None:
        for path in self.personal.glob("after-*-rounds.safetensors"):
            if path != self.personal_file(except_for):
                path.unlink()

    def load_checkpoint(self) -> Checkpoint | None:
        """The last completed round, or None where none was completed."""
        if not self.checkpoint.exists():
            return None
        try:
            with safe_open(self.checkpoint, framework="pt") as file:
                state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
                metadata = file.metadata()
                if metadata["digest"] != _digest(state):
                    raise ValueError("its checksum does not match")
                return Checkpoint(**json.loads(metadata["about"]), state=state)
        except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
            raise SordinoError(
                f"The checkpoint {self.checkpoint} is damaged ({error}); restore it from a copy, or start anew in another --out folder."
            ) from error

    def append_metrics(self, row: dict[str, Any]) -> None:
        with disk_errors(self.metrics), self.metrics.open("a", encoding="utf-8") as file:
            file.write(to_json(row) + "\n")

    def keep_metrics_before(self, round_number: int) -> None:
        """Drop rows of rounds that will be done again."""
        if self.metrics.exists():
            kept = [to_json(row) + "\n" for row in self.read_metrics() if row["round"] < round_number]
            write_whole(self.metrics, "".join(kept).encode())

    def read_metrics(self) -> list[dict[str, Any]]:
        if not self.metrics.exists():
            return []
        text = self.metrics.read_text(encoding="utf-8")
        return [json.loads(row) for row in text[: text.rfind("\n") + 1].splitlines()]

    def save_diagnostics(self, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        """Non-private diagnostics of one round of a simulation, in a folder of their own."""
        with disk_errors(self.diagnostics):
            self.diagnostics.mkdir(exist_ok=True)
        content = save(
            {key: value.detach().cpu().contiguous() for key, value in tensors.items()}, metadata={"private": "no"}
        )
        write_whole(self.diagnostics / f"round-{round_number + 1:05d}.safetensors", content)

    def read_diagnostics(self) -> dict[int, dict[str, Tensor]]:
        """By round, counted from one."""
        return {
            int(path.stem.split("-")[1]): load_file(path)
            for path in sorted(self.diagnostics.glob("round-*.safetensors"))
        }

    def finish(self, weights: dict[str, Tensor], summary: dict[str, Any], provenance: dict[str, str]) -> None:
        """Write the model with what it was trained on, then the summary: a folder with a summary is complete."""
        plain = {key: value.detach().cpu().contiguous() for key, value in weights.items()}
        write_whole(self.model, save(plain, metadata=provenance))
        write_whole(self.summary, to_json({"schema": SCHEMA, **summary}, indent=2).encode())


def read_summary(folder: Path) -> dict[str, Any]:
    path = folder / "summary.json"
    if not path.exists():
        raise SordinoError(
            f"{folder} holds no finished run (summary.json is missing); finish it with `sordino run ... --resume`."
        )
    summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return summary


def versions() -> dict[str, str]:
    packages = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"sordino": __version__, "python": platform.python_version(), **packages, "kernels": _kernels()}


def _kernels() -> str:
    return KERNELS if library() is not None else TORCH_ALONE


def _demand_same_kernels(folder: Path, then: str) -> None:
    """Kernels round differently from torch, and a run resumes to the same bits or not at all."""
    if then == _kernels():
        return
    remedy = f"set {SWITCH}=off" if then == TORCH_ALONE else "install sordino where a C compiler is"
    raise SordinoError(
        f"The run in {folder} was begun with {then}, but here it would go on with {_kernels()} and end in other bits; {remedy}."
    )


def _digest(state: State) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for key in sorted(state):
        digest.update(key.encode())
        digest.update(state[key].contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()
