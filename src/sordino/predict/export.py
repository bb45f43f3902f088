"""A trained model in forms that others read: safetensors, TorchScript or ONNX, with a card beside it."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from sordino.core import SordinoError
from sordino.data.examples import Normalisation
from sordino.data.target import Target
from sordino.engine.record import MODEL, PREDICTION
from sordino.files import make_folder, write_whole
from sordino.predict.card import card, read_facts
from sordino.predict.loading import load, model_folder
from sordino.predict.predictor import Predictor
from sordino.sentences import first_line

CLOSE = 1e-4
"""How far probabilities of an exported model may be off those of the model itself."""
TRIED = (5, 2)
"""Sizes of made-up batches: with the first it is exported, with the second tried."""


def write_export(folder: Path, out: Path, form: str) -> list[str]:
    """Write the model of a run, its preparation and its card into a folder; returns the names of the files."""
    predictor, place = load(folder), model_folder(folder)
    if out.exists() and any(path.name not in _names(form) for path in out.iterdir()):
        raise SordinoError(
            f"{out} holds other files, and an export needs a folder of its own; choose another with --out."
        )
    name, content = FORMS[form](predictor, place)
    make_folder(out)
    write_whole(out / name, content)
    write_whole(out / PREDICTION, (place / PREDICTION).read_bytes())
    write_whole(out / "README.md", card(predictor, read_facts(place), form=form, file=name).encode())
    return [name, PREDICTION, "README.md"]


def _names(form: str) -> set[str]:
    return {PREDICTION, "README.md", {"safetensors": MODEL, "torchscript": "model.pt", "onnx": "model.onnx"}[form]}


class Exported(nn.Module):
    """From prepared inputs, before any normalisation, to the probability of each class, or to a number in its own unit."""

    def __init__(self, model: nn.Module, normalisation: Normalisation, *, tokens: bool, target: Target | None) -> None:
        super().__init__()
        self.model, self._target = model, target
        self._normalisation, self._tokens = normalisation, tokens

    def forward(self, inputs: Tensor) -> Tensor:
        features = inputs if self._tokens else self._normalisation.apply(inputs.float().clone())
        outputs: Tensor = self.model(features)
        if self._target is None:
            return outputs.softmax(1)
        return self._target.low + outputs[:, 0].sigmoid() * self._target.range


def _safetensors(predictor: Predictor, place: Path) -> tuple[str, bytes]:
    return MODEL, (place / MODEL).read_bytes()


def _torchscript(predictor: Predictor, place: Path) -> tuple[str, bytes]:
    module, inputs = _module(predictor), [_made_up(predictor, rows) for rows in TRIED]
    with _exporting("TorchScript"), torch.no_grad():
        traced = torch.jit.trace(module, inputs[0], check_inputs=[(one,) for one in inputs])
        content = io.BytesIO()
        torch.jit.save(traced, content)
        again = torch.jit.load(io.BytesIO(content.getvalue()))
        _refuse_other_answers(again(inputs[1]), module(inputs[1]), "TorchScript")
    return "model.pt", content.getvalue()


def _onnx(predictor: Predictor, place: Path) -> tuple[str, bytes]:
    if find_spec("onnx") is None:
        raise SordinoError(
            "Export to ONNX needs the package onnx, which is not installed; pip install onnx, or choose --to torchscript."
        )
    inputs, outputs = _made_up(predictor, TRIED[0]), "probabilities" if predictor.target is None else "prediction"
    with _exporting("ONNX"), torch.no_grad(), TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            _module(predictor),
            (inputs,),
            path,
            input_names=["inputs"],
            output_names=[outputs],
            dynamic_axes={"inputs": {0: "rows"}, outputs: {0: "rows"}},
            dynamo=False,
        )
        return path.name, path.read_bytes()


FORMS: Mapping[str, Callable[[Predictor, Path], tuple[str, bytes]]] = {
    "safetensors": _safetensors,
    "torchscript": _torchscript,
    "onnx": _onnx,
}


def _module(predictor: Predictor) -> nn.Module:
    preparation = predictor.preparation
    tokens = preparation.kind == "text"
    return Exported(predictor.model, preparation.normalisation, tokens=tokens, target=predictor.target).eval()


def _made_up(predictor: Predictor, rows: int) -> Tensor:
    """Inputs of the right shape and type that come from nowhere."""
    preparation, generator = predictor.preparation, torch.Generator().manual_seed(rows)
    size = (rows, *preparation.shape)
    if preparation.kind == "text":
        return torch.randint(preparation.vocabulary, size, generator=generator)
    if preparation.kind == "image":
        return torch.randint(256, size, generator=generator).float()
    return torch.rand(size, generator=generator) * 2 - 1


@contextmanager
def _exporting(form: str) -> Iterator[None]:
    """Turn what a model raises that cannot be exported into one sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (RuntimeError, TypeError, ValueError) as error:
        raise SordinoError(
            f"The model cannot be exported to {form} ({first_line(error)}); choose --to safetensors, which any model has."
        ) from error


def _refuse_other_answers(found: Tensor, expected: Tensor, form: str) -> None:
    if not torch.allclose(found, expected, atol=CLOSE, rtol=CLOSE):
        raise SordinoError(
            f"The exported {form} model answers other than the model itself, which a model with branches in its code may do; "
            "choose --to safetensors."
        )
