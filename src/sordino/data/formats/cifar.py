"""The python batches of CIFAR-10 and CIFAR-100."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sordino.core import SordinoError
from sordino.data.formats import FORMATS
from sordino.data.raw import Array, Raw, Split, in_memory, reading
from sordino.data.settings import SourceSettings

SHAPE = (3, 32, 32)


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"encoding {encoding} is not allowed")
    return text.encode("latin1")


_REBUILD: Callable[..., Any] = np.empty(0).__reduce__()[0]  # type: ignore[assignment]
_FROM_BUFFER: Callable[..., Any] = np.empty(1).__reduce_ex__(5)[0]  # type: ignore[assignment]

_ALLOWED: Mapping[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _REBUILD,
    ("numpy._core.multiarray", "_reconstruct"): _REBUILD,
    ("numpy.core.numeric", "_frombuffer"): _FROM_BUFFER,
    ("numpy._core.numeric", "_frombuffer"): _FROM_BUFFER,
    ("_codecs", "encode"): _latin1,
}


class _ArraysOnly(pickle.Unpickler):
    """Rebuilds plain containers and numpy arrays; a pickle that names anything else is refused, not run."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, and only arrays are allowed")
        return _ALLOWED[module, name]


@FORMATS.register("cifar")
class Cifar:
    """Folder of CIFAR-10 python batches (data_batch_1 ..., test_batch) or of CIFAR-100's (train, test, meta)."""

    @staticmethod
    def accepts(path: Path) -> bool:
        return path.is_dir() and bool(_batches(path))

    @staticmethod
    def read(path: Path, settings: SourceSettings) -> Raw:
        test = next((file for name in ("test_batch", "test") if (file := path / name).is_file()), None)
        return Raw(
            kind="image",
            train=_split(_batches(path)),
            test=_split([test]) if test else None,
            class_names=_class_names(path),
        )


def _batches(folder: Path) -> list[Path]:
    numbered = sorted(file for file in folder.glob("data_batch_*") if file.is_file())
    hundred = [folder / "train"] if (folder / "train").is_file() and (folder / "meta").is_file() else []
    return numbered or hundred


def _unpickle(path: Path) -> dict[str, Any]:
    with reading(path), path.open("rb") as file:
        content = _ArraysOnly(file, encoding="latin1").load()
        return {_text(key): value for key, value in content.items()}


def _text(word: str | bytes) -> str:
    return word.decode("latin1") if isinstance(word, bytes) else word


def _split(files: list[Path]) -> Split:
    parts = [_examples(file) for file in files]
    return in_memory(np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]))


def _examples(file: Path) -> tuple[Array, Array]:
    batch = _unpickle(file)
    labels = batch.get("labels", batch.get("fine_labels"))
    data = batch.get("data")
    if (
        labels is None
        or not isinstance(data, np.ndarray)
        or data.dtype != np.uint8
        or data.shape[1:] != (np.prod(SHAPE),)
    ):
        raise SordinoError(
            f"{file} should hold labels and uint8 data of N x {np.prod(SHAPE)}, but does not; fetch it again."
        )
    return data.reshape(-1, *SHAPE), np.asarray(labels)


def _class_names(folder: Path) -> tuple[str, ...]:
    file = next((file for name in ("batches.meta", "meta") if (file := folder / name).is_file()), None)
    meta = _unpickle(file) if file else {}
    return tuple(map(_text, meta.get("label_names", meta.get("fine_label_names", ()))))
