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
from sordino.models import Net
from sordino.pretrain.start import STARTS, StartContext


@STARTS.register("file")
@dataclass(frozen=True, kw_only=True)
class File:
    """Weights from a .safetensors or .pth file; a head of another shape is left as it was built."""

    path: str
    keep_head: bool = True

    def prepare(self, net: Net, context: StartContext) -> None:
        path = context.folder / self.path
        weights = _read(path)
        wanted = net.state_dict()
        head = set(net.parts()["head"])
        if not self.keep_head:
            weights = {key: value for key, value in weights.items() if key not in head}
        for key, value in wanted.items():
            if key not in weights and (key not in head or self.keep_head):
                raise SordinoError(
                    f"{path} has no weights for {key!r} of this model; use a file of the same model, or keep_head = false for a new head."
                )
            if key in weights and weights[key].shape != value.shape:
                raise SordinoError(
                    f"{path} has {key!r} of shape {tuple(weights[key].shape)}, but the model needs {tuple(value.shape)}; "
                    "use a file of the same model, or keep_head = false for a new head."
                )
        net.load_state_dict({**wanted, **{key: weights[key] for key in wanted if key in weights}})


def _read(path: Path) -> dict[str, Tensor]:
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
