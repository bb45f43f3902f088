"""Models from the user's own code: found by import path, tried out, and split into parts."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sordino.core import SordinoError
from sordino.models.inputs import Inputs, RefusedInputs
from sordino.models.parts import Net
from sordino.models.splitting import told_apart
from sordino.models.state import refuse_memory


def build_custom(
    path: str, function: Callable[..., object], inputs: Inputs, classes: int, settings: Mapping[str, Any]
) -> Net:
    """Call what `module:function` names with shape, classes and the settings (and vocabulary, if it asks), and find the parts.

    A model whose head cannot be told apart is kept as it was written and trained as a whole.
    """
    arguments = {"shape": inputs.shape, "classes": classes, **settings}
    _check_arguments(path, function, arguments)
    if "vocabulary" in inspect.signature(function).parameters:
        arguments["vocabulary"] = inputs.vocabulary
    with _speaking(path, inputs):
        model = function(**arguments)
    if not isinstance(model, nn.Module):
        raise SordinoError(f"{path} must return a torch.nn.Module, but it returned {type(model).__name__}.")
    draw = partial(_made_up, inputs)
    with _speaking(path, inputs):
        _check_answer(path, model, draw(2, 0), classes)
        if next(model.parameters(), None) is None:
            raise SordinoError(f"{path} must return a model with parameters to train, but got none; add a layer.")
        refuse_memory(path, model, draw, classes)
        return told_apart(model, draw(2, 0))


def _check_arguments(path: str, function: Callable[..., object], arguments: Mapping[str, Any]) -> None:
    parameters = inspect.signature(function).parameters
    open_ended = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    stranger = next((name for name in arguments if name not in parameters and not open_ended), None)
    if stranger is not None:
        near = difflib.get_close_matches(stranger, parameters, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(parameters) or 'nothing'}."
        raise SordinoError(f"{path} takes no argument called {stranger!r}; {hint}")
    missing = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and name not in {*arguments, "vocabulary"}
    ]
    if missing:
        raise SordinoError(f"{path} needs the setting {missing[0]!r}, which is missing; add it to [model].")


def _made_up(inputs: Inputs, count: int, number: int) -> Tensor:
    """So many examples of this shape, the same for the same number."""
    generator = torch.Generator().manual_seed(number)
    size = (count, *inputs.shape)
    if inputs.vocabulary:
        return torch.randint(inputs.vocabulary, size, generator=generator)
    return torch.rand(size, generator=generator)


@contextmanager
def _speaking(path: str, inputs: Inputs) -> Iterator[None]:
    """Turn what a model raises when it is fed into one sentence."""
    try:
        yield
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RefusedInputs(f"{path} does not accept {inputs} ({first_line}); check its first layers.") from error


def _check_answer(path: str, model: nn.Module, examples: Tensor, classes: int) -> None:
    training = model.training
    try:
        with torch.no_grad():
            logits: object = model.eval()(examples)
    finally:
        model.train(training)
    if not isinstance(logits, Tensor) or logits.shape != (len(examples), classes):
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise RefusedInputs(
            f"{path} must return logits of shape (batch, {classes}), but got {got} for a batch of {len(examples)}."
        )
