"""Outputs of a frozen body that are kept on disk, so that other seeds and a resumed run need not compute them again."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from sordino.core import SordinoError
from sordino.data.examples import Examples
from sordino.data.locate import data_folder
from sordino.data.public import digest
from sordino.files import locked, make_folder, remove_unfinished, write_whole
from sordino.kernels.choice import all_left_to_torch
from sordino.kernels.native import form

FOLDER_VARIABLE = "SORDINO_FEATURES"
PART_ROWS = 1000


def features_folder() -> Path:
    """$SORDINO_FEATURES, or a hidden folder beside the data sets."""
    return Path(os.environ.get(FOLDER_VARIABLE) or data_folder() / ".features")


class FeatureStore:
    """Keeps one body's outputs in parts of a thousand rows, each named by the body and the rows it comes from.

    The outputs are as private as the images they come from and never leave the machine that holds those; whoever may
    not read the images must not be able to read the folder either.
    """

    def __init__(self, body: nn.Module, device: torch.device) -> None:
        content = save({key: value.cpu().contiguous() for key, value in body.state_dict().items()})
        left = [sorted(works) for works in map(all_left_to_torch, body.modules()) if works]
        self._body = sha256(content + f"{body!r} {device.type} {form()} {left}".encode()).hexdigest()

    def outputs(
        self,
        examples: Examples,
        compute: Callable[[Examples], Tensor],
        found_more: Callable[[int], None] = lambda more: None,
    ) -> Tensor:
        """The outputs for these examples: read where they are there, computed and kept where not.

        One process at a time computes; another that needs outputs of the same body waits, and then finds them.
        """
        folder = features_folder() / self._body[:24]
        make_folder(folder)
        found = []
        with ExitStack() as turn:
            is_mine = False
            for rows in torch.arange(len(examples)).split(PART_ROWS):
                part = examples.take(rows)
                path = folder / f"{sha256((self._body + digest(part)).encode()).hexdigest()[:24]}.safetensors"
                if not path.exists() and not is_mine:
                    turn.enter_context(locked(folder / ".lock"))
                    remove_unfinished(folder)
                    is_mine = True
                if path.exists():
                    found_more(len(part))
                else:
                    write_whole(path, save({"outputs": compute(part).contiguous()}))
                found.append(_read(path))
        return torch.cat(found)


def _read(path: Path) -> Tensor:
    try:
        return load_file(path)["outputs"]
    except (OSError, KeyError, SafetensorError) as error:
        raise SordinoError(
            f"{path} holds no whole features ({error}); remove it, and they will be computed anew."
        ) from error
