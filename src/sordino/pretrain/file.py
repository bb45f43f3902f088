"""Start from a weights file."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from sordino.core import SordinoError
from sordino.data.locate import data_folder
from sordino.models import Net
from sordino.models.weights import load_weights
from sordino.pretrain.start import STARTS, Start, StartContext, StartFacts
from sordino.pretrain.store import WEIGHTS

UNREADABLE = (
    SafetensorError,
    pickle.UnpicklingError,
    RuntimeError,
    OSError,
    ValueError,
    EOFError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    ImportError,
)


NESTED = ("state_dict", "model", "model_state_dict", "weights", "params")
"""Where training scripts put the weights among other things."""


@STARTS.register("file")
@dataclass(frozen=True, kw_only=True)
class File(Start):
    """Weights from a .safetensors or .pth file, also one in torchvision's own keys; keep_head = false leaves the head new.

    The folder of a run or of `sordino pretrain` will do as well. Such weights know what they were trained on: they are taken if that
    was public data without a row that is private here, or other private data at a finite ε.
    """

    path: str
    keep_head: bool = True

    def files(self, folder: Path) -> tuple[Path, ...]:
        return (locate_weights(self.path, folder),)

    def check(self, net: Net, facts: StartFacts) -> None:
        self._load(net, facts.folder)

    def prepare(self, net: Net, context: StartContext) -> None:
        self._load(net, context.folder)

    def _load(self, net: Net, folder: Path) -> None:
        (path,) = self.files(folder)
        load_weights(net, read_weights(path), origin=str(path), keep_head=self.keep_head)


IN_FOLDERS = (WEIGHTS, "model.safetensors", "release/model.safetensors")
"""The weights in a folder of `sordino pretrain`, of a run, and of a secure run."""


def locate_weights(name: str, folder: Path) -> Path:
    """A path beside the experiment file, or a file's name in the data folder; of a folder that we wrote the weights in it."""
    beside = folder / name
    kept = data_folder() / name
    found = kept if not beside.exists() and kept.exists() else beside
    if not found.is_dir():
        return found
    weights = next((found / one for one in IN_FOLDERS if (found / one).is_file()), None)
    if weights is None:
        raise SordinoError(
            f"[start] path names the folder {found}, in which there is no {' and no '.join(IN_FOLDERS[:2])}; name a weights file."
        )
    return weights


def read_weights(path: Path) -> dict[str, Tensor]:
    """A state dict as it stands in the file: plain tensors under names."""
    try:
        found: object = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except FileNotFoundError as error:
        raise SordinoError(f"A weights file was expected at {path}, but there is none; check [start] path.") from error
    except UNREADABLE as error:
        detail = str(error).split("\n")[0] or type(error).__name__
        raise SordinoError(
            f"{path} cannot be read as weights ({detail}); use a .safetensors file or a plain state dict."
        ) from error
    return _state_dict(found, path)


def _state_dict(found: object, path: Path) -> dict[str, Tensor]:
    if not isinstance(found, Mapping):
        raise SordinoError(
            f"{path} must hold a state dict, but got a {type(found).__name__}; save model.state_dict() with torch.save or safetensors."
        )
    inner = next((key for key in NESTED if isinstance(found.get(key), Mapping)), None)
    if inner is not None:
        raise SordinoError(
            f"{path} must hold a state dict alone, but got a checkpoint with one under {inner!r}; save that part by itself: "
            f"torch.save(torch.load(path)[{inner!r}], new_path)."
        )
    for key, value in found.items():
        if not isinstance(key, str):
            raise SordinoError(
                f"{path} must hold tensors under names, but got the key {key!r}; save model.state_dict()."
            )
        if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_quantized:
            kind = "a sparse or quantised tensor" if isinstance(value, Tensor) else f"a {type(value).__name__}"
            raise SordinoError(
                f"{path} must hold plain tensors, but got {kind} under {key!r}; leave it out and save again."
            )
    return dict(found)
