"""The run record: a folder from which a run can be read, resumed and checked. docs/run-record.md describes every file."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from sordino import __version__
from sordino.core import SordinoError
from sordino.engine.record_keys import read_experiment_file, read_metrics_file, read_published_file, read_summary_file
from sordino.engine.resolved import Resolved
from sordino.experiment import Experiment
from sordino.files import (
    append_row,
    locked,
    make_folder,
    remove_unfinished,
    to_json,
    write_whole,
)
from sordino.kernels.native import FORMS, OFF, SWITCH, form
from sordino.methods.method import State
from sordino.privacy.ledger_file import read_book
from sordino.sentences import shown

MODEL, PREDICTION = "model.safetensors", "prediction.json"
RELEASE = "release"
KERNELS, TORCH_ALONE = "compiled kernels, ", "torch alone"
LEFT_TO_TORCH = "left_to_torch"
"""A run's fact: what torch does in it although a kernel could."""
EVALUATED_EVERY = "evaluated_every"
"""A run's fact: rounds between two evaluations, as somebody set them or as they were chosen."""
SCHEMA = 2
PACKAGES = ("torch", "numpy", "scipy", "dp-accounting", "cryptography", "safetensors", "pydantic")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Where a run stands after its last completed round."""

    rounds_done: int
    ledger_lines: int
    ledger_head: str
    """The digest that the ledger ended with when so many lines were in it."""
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
        self.summary = folder / "summary.json"
        self.diagnostics = folder / "non-private-diagnostics"
        self.personal = folder / "private-to-each-client"
        self.release = folder / RELEASE

    @property
    def model(self) -> Path:
        """The final model: of a secure run in the part that may be published."""
        published = self.release / MODEL
        return published if published.exists() else self.folder / MODEL

    def locked(self) -> AbstractContextManager[None]:
        """Hold the folder: one run, one process."""
        return locked(
            self.folder / ".lock",
            busy=f"Another process is working on the run in {self.folder}; wait until it has ended, or choose another --out folder.",
        )

    def settled(self, experiment: Experiment, *, resume: bool) -> dict[str, Any] | None:
        """What a run of this experiment settled here when it began, if it may go on; None where none has begun."""
        if not self.experiment.exists():
            self._refuse_other_files()
            return None
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

    def begin(self, resolved: Resolved, facts: dict[str, Any]) -> None:
        """Write down what is run, with every default that is used, and what was settled; from here on the folder holds a run."""
        experiment = resolved.experiment
        content = {
            "schema": SCHEMA,
            "fingerprint": experiment.fingerprint(),
            "experiment": experiment.model_dump(mode="json"),
            "resolved": resolved.to_json(),
            "facts": facts,
            "versions": versions(),
        }
        write_whole(self.experiment, _json_file(content))

    def give_up(self) -> None:
        """Take away what was written for a run that has not begun; only while the folder is locked."""
        if not self.experiment.exists():
            with suppress(OSError):
                remove_unfinished(self.folder)
                self.ledger.unlink(missing_ok=True)

    def remove_empty(self) -> None:
        with suppress(OSError):
            self.folder.rmdir()

    def _refuse_other_files(self) -> None:
        """A folder in which a run was killed before it began, with nothing charged, is as good as new."""
        if not self.folder.exists():
            return
        remove_unfinished(self.folder)
        others = [path for path in self.folder.iterdir() if path.name != ".lock"]
        if others == [self.ledger] and not read_book(self.ledger).lines:
            return
        if others:
            raise SordinoError(
                f"{self.folder} holds other files and no run, such as {sorted(path.name for path in others)[0]!r}; "
                "choose an empty or new folder with --out."
            )

    def read_experiment(self) -> dict[str, Any]:
        content = read_experiment_file(self.experiment)
        return _of_this_schema(self.experiment, content)

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        state = {key: value.detach().cpu().contiguous() for key, value in checkpoint.state.items()}
        about = json.dumps({key: value for key, value in checkpoint.__dict__.items() if key != "state"})
        write_whole(self.checkpoint, save(state, metadata={"about": about, "digest": _digest(state, about)}))

    def personal_file(self, rounds_done: int) -> Path:
        """What clients keep for themselves after so many rounds; it is written before the checkpoint that counts on it."""
        return self.personal / f"after-{rounds_done:05d}-rounds.safetensors"

    def forget_personal_files(self, *, except_for: int) -> None:
        for path in self.personal.rglob("after-*-rounds.safetensors"):
            if path.name != self.personal_file(except_for).name:
                path.unlink()

    def load_checkpoint(self) -> Checkpoint | None:
        """The last completed round, or None where none was completed."""
        if not self.checkpoint.exists():
            return None
        try:
            with safe_open(self.checkpoint, framework="pt") as file:
                state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
                metadata = file.metadata()
                if metadata["digest"] != _digest(state, metadata["about"]):
                    raise ValueError("its checksum does not match")
                return Checkpoint(**json.loads(metadata["about"]), state=state)
        except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
            raise SordinoError(
                f"The checkpoint {self.checkpoint} is damaged ({error}); restore it from a copy, or start anew in another --out folder."
            ) from error

    def append_metrics(self, row: dict[str, Any]) -> None:
        append_row(self.metrics, to_json(row).encode() + b"\n", durable=False)

    def keep_metrics_before(self, round_number: int) -> None:
        """Drop rows of rounds that will be done again."""
        if self.metrics.exists():
            kept = [to_json(row) + "\n" for row in self.read_metrics() if row["round"] < round_number]
            write_whole(self.metrics, "".join(kept).encode())

    def read_metrics(self) -> list[dict[str, Any]]:
        return read_metrics_file(self.metrics)

    def save_diagnostics(self, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        """Non-private diagnostics of one round of a simulation, in a folder of their own."""
        make_folder(self.diagnostics)
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

    def finish(
        self,
        weights: dict[str, Tensor],
        summary: dict[str, Any],
        *,
        release: Release | None,
        provenance: dict[str, str],
        prediction: dict[str, Any],
    ) -> None:
        """Write the model with what it was trained on and what `prediction` needs, then the summary: with that, a folder is complete.

        With a `release`, the model and all that may be published of the run lie in a folder of their own.
        """
        content = save({key: value.detach().cpu().contiguous() for key, value in weights.items()}, metadata=provenance)
        if release is not None:
            make_folder(self.release)
            write_whole(
                self.release / "metrics.jsonl", "".join(to_json(row) + "\n" for row in release.metrics).encode()
            )
            write_whole(self.release / "summary.json", _json_file({"schema": SCHEMA, **release.summary}))
        beside = self.folder if release is None else self.release
        write_whole(beside / PREDICTION, _json_file(prediction))
        write_whole(beside / MODEL, content)
        digests = {"model_sha256": hashlib.sha256(content).hexdigest()}
        write_whole(self.summary, _json_file({"schema": SCHEMA, **summary, **digests}))


@dataclass(frozen=True, kw_only=True)
class Release:
    """What may be published of a secure run besides the model."""

    summary: dict[str, Any]
    metrics: Sequence[dict[str, Any]]


def _json_file(content: dict[str, Any]) -> bytes:
    return to_json(content, indent=2).encode()


def read_summary(folder: Path) -> dict[str, Any]:
    """The summary of a finished run, or of the part of one that may be published, given that folder."""
    path = folder / "summary.json"
    if not folder.is_dir():
        raise SordinoError(
            f"There is no folder {shown(str(folder))}; give that of a run or a sweep, such as runs/NAME."
        )
    if not path.exists():
        raise SordinoError(
            f"{folder} holds no finished run (summary.json is missing); finish it with `sordino run ... --resume`."
        )
    published = folder.resolve().name == RELEASE
    return _of_this_schema(path, read_published_file(path) if published else read_summary_file(path))


def _of_this_schema(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    if content.get("schema") != SCHEMA:
        raise SordinoError(
            f"{path} should have schema {SCHEMA}, but got {content.get('schema', 'none')}; it belongs to another version of sordino, so "
            "use that one."
        )
    return content


def facts_digest(facts: Mapping[str, Any]) -> str:
    """Of what a run settled when it began; how long trials took, and where, changes no figure."""
    settled = {name: value for name, value in facts.items() if name not in ("trial_seconds", "folder")}
    return hashlib.blake2b(to_json(settled).encode(), digest_size=16).hexdigest()


def versions() -> dict[str, str]:
    return {"sordino": __version__, "python": platform.python_version(), **_packages(), "kernels": _kernels()}


@cache
def _packages() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def _kernels() -> str:
    found = form()
    return TORCH_ALONE if found is None else KERNELS + found


def _demand_same_kernels(folder: Path, then: str) -> None:
    """Kernels round differently from torch and from one another, and a run resumes to the same bits or not at all."""
    if then == _kernels():
        return
    wanted = OFF if then == TORCH_ALONE else then.removeprefix(KERNELS)
    elsewhere = "" if wanted == OFF else ", on a processor that has it, where sordino was installed with a C compiler"
    remedy = f"set {SWITCH}={wanted}{elsewhere}" if wanted in (OFF, *FORMS) else "begin it again"
    raise SordinoError(
        f"The run in {folder} was begun with {then}, but here it would go on with {_kernels()} and end in other bits; {remedy}."
    )


def _digest(state: State, about: str) -> str:
    digest = hashlib.blake2b(about.encode(), digest_size=16)
    for key in sorted(state):
        digest.update(key.encode())
        digest.update(state[key].contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()
