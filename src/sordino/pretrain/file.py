"""Start from a weights file."""

from __future__ import annotations

import pickle
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
from sordino.pretrain.start import STARTS, StartContext


@STARTS.register("file")
@dataclass(frozen=True, kw_only=True)
class File:
    """Weights from a .safetensors or .pth file, also one in torchvision's own keys; keep_head = false leaves the head new."""

    path: str
    keep_head: bool = True

    def prepare(self, net: Net, context: StartContext) -> None:
        path = locate_weights(self.path, context.folder)
        load_weights(net, read_weights(path), origin=str(path), keep_head=self.keep_head)


def locate_weights(name: str, folder: Path) -> Path:
    """A path beside the experiment file, or a file's name in the data folder."""
    beside = folder / name
    kept = data_folder() / name
    return kept if not beside.exists() and kept.exists() else beside


def read_weights(path: Path) -> dict[str, Tensor]:
    """A state dict as it stands in the file."""
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        return dict(torch.load(path, map_location="cpu", weights_only=True))
    except FileNotFoundError as error:
        raise SordinoError(f"A weights file was expected at {path}, but there is none; check [start] path.") from error
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, OSError, ValueError, EOFError) as error:
        raise SordinoError(
            f"{path} cannot be read as weights ({error}); use a .safetensors file or a plain state dict."
        ) from error
