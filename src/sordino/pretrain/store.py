"""Where pre-trained models are kept: one folder for each training, named by everything that can change its weights."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from sordino.core import SordinoError
from sordino.data.locate import data_folder
from sordino.data.public import digest
from sordino.files import locked, make_folder, remove_unfinished, to_json, write_whole

if TYPE_CHECKING:
    from sordino.data.source import Source

STORE_VARIABLE = "SORDINO_PRETRAINED"
SCHEMA = 1
WEIGHTS, RECORD = "weights.safetensors", "pretrain.json"


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A finished training: its weights, and what they come from."""

    weights: Mapping[str, Tensor]
    record: Mapping[str, Any]

    def write(self, folder: Path, *, provenance: Mapping[str, str] | None = None) -> None:
        """The weights, with what they were trained on, then the record: a folder with a record is whole."""
        make_folder(folder)
        write_whole(folder / WEIGHTS, save(_plain(self.weights), metadata=dict(provenance or {})))
        write_whole(folder / RECORD, to_json(dict(self.record), indent=2).encode())


@dataclass(frozen=True, kw_only=True)
class Progressed:
    """A training after so many whole epochs."""

    epochs: int
    weights: Mapping[str, Tensor]
    velocities: Sequence[Tensor]


def store_folder() -> Path:
    """$SORDINO_PRETRAINED, or a hidden folder beside the data sets."""
    return Path(os.environ.get(STORE_VARIABLE) or data_folder() / ".pretrained")


def key_of(
    settings: object,
    source: Source,
    *,
    model: Mapping[str, Any],
    classes: int,
    seed: int,
    device: torch.device,
    kernels: str | None = None,
) -> str:
    """A name for the training: the same only where settings, model, seed and the public examples are the same."""
    content = {
        "schema": SCHEMA,
        "kind": type(settings).__name__,
        "settings": vars(settings),
        "examples": digest(source.train),
        "model": dict(model),
        "shape": source.shape,
        "classes": classes,
        "seed": seed,
        "device": device.type,
        **({} if kernels is None else {"kernels": kernels}),
    }
    return hashlib.sha256(to_json(content).encode()).hexdigest()[:24]


def read_trained(folder: Path) -> Trained:
    """What `Trained.write` wrote."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return Trained(weights=load_file(folder / WEIGHTS), record=record)
    except (OSError, ValueError, SafetensorError) as error:
        raise SordinoError(
            f"{folder} holds no whole pre-trained model ({error}); remove it, and it will be trained anew."
        ) from error


class Store:
    """The folder of one training."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._folder = store_folder() / key
        self._checkpoint = self._folder / "checkpoint.safetensors"

    def once(self, train: Callable[[], tuple[Mapping[str, Tensor], Mapping[str, Any]]]) -> Trained:
        """This training as it was kept, or done now: `train` returns weights and facts to be kept with them.

        One process at a time trains; another that needs the same training waits, and then finds it.
        """
        if (found := self.trained()) is not None:
            return found
        make_folder(self._folder)
        with locked(self._folder / ".lock"):
            remove_unfinished(self._folder)
            return self.trained() or self._keep(*train())

    def trained(self) -> Trained | None:
        return read_trained(self._folder) if (self._folder / RECORD).exists() else None

    def progressed(self) -> Progressed | None:
        """The last checkpoint of an unfinished training."""
        if not self._checkpoint.exists():
            return None
        try:
            with safe_open(self._checkpoint, framework="pt") as file:
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
                epochs = int(file.metadata()["epochs"])
        except (SafetensorError, OSError, KeyError) as error:
            raise SordinoError(
                f"The checkpoint {self._checkpoint} is damaged ({error}); remove it to begin anew."
            ) from error
        moving = {key: value for key, value in tensors.items() if key.startswith("velocity/")}
        return Progressed(
            epochs=epochs,
            weights={key: value for key, value in tensors.items() if key not in moving},
            velocities=[moving[f"velocity/{number}"] for number in range(len(moving))],
        )

    def save(self, at: Progressed) -> None:
        make_folder(self._folder)
        moving = {f"velocity/{number}": value for number, value in enumerate(at.velocities)}
        write_whole(self._checkpoint, save(_plain({**at.weights, **moving}), metadata={"epochs": str(at.epochs)}))

    def _keep(self, weights: Mapping[str, Tensor], facts: Mapping[str, Any]) -> Trained:
        trained = Trained(weights=_plain(weights), record={"schema": SCHEMA, "key": self._key, **facts})
        trained.write(self._folder)
        self._checkpoint.unlink(missing_ok=True)
        return trained


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
