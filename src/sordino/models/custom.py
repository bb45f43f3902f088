"""Models from the user's own code, found by import path and split into parts."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sordino.core import SordinoError
from sordino.models.inputs import Inputs
from sordino.models.parts import Net
from sordino.startup import complete_torch


def build_custom(path: str, inputs: Inputs, classes: int, settings: Mapping[str, Any]) -> Net:
    """Call `module:function` with shape, classes and the settings (and vocabulary, if it asks), and find the parts."""
    function = _imported(path)
    arguments = {"shape": inputs.shape, "classes": classes, **settings}
    _check_arguments(path, function, arguments)
    if "vocabulary" in inspect.signature(function).parameters:
        arguments["vocabulary"] = inputs.vocabulary
    model = function(**arguments)
    if not isinstance(model, nn.Module):
        raise SordinoError(f"{path} must return a torch.nn.Module, but it returned {type(model).__name__}.")
    expected = _probe(path, model, inputs, classes)
    net = _split(path, model)
    if not torch.equal(_probe(path, net, inputs, classes), expected):
        raise SordinoError(
            f"{path} does not compute head(body(x)), so its head cannot be told apart; give it attributes 'body' and "
            "'head' that do, or return a sordino.models.Net."
        )
    return net


def _imported(path: str) -> Callable[..., object]:
    module_name, _, function_name = path.partition(":")
    complete_torch()
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SordinoError(
            f"A model must be a known name or an importable 'your.module:function', but {path!r} failed ({error}); "
            "check the spelling and PYTHONPATH."
        ) from error
    if not callable(function):
        raise SordinoError(f"{path} must be a function, but it is {type(function).__name__}.")
    return function  # type: ignore[no-any-return]


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


def _split(path: str, model: nn.Module) -> Net:
    if isinstance(model, Net):
        return model
    body, head = getattr(model, "body", None), getattr(model, "head", None)
    if isinstance(body, nn.Module) and isinstance(head, nn.Module):
        net = Net(body=body, head=head)
    elif isinstance(model, nn.Linear):
        net = Net(body=nn.Identity(), head=model)
    else:
        net = _behead(path, model)
    outside = set(model.parameters()) - set(net.parameters())
    if outside:
        raise SordinoError(
            f"{path} has {len(outside)} parameters outside its body and head; move them into one of the two."
        )
    return net


def _behead(path: str, model: nn.Module) -> Net:
    linears = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linears:
        raise SordinoError(f"{path} has no Linear layer to be its head; give it attributes 'body' and 'head'.")
    head = model.get_submodule(linears[-1])
    model.set_submodule(linears[-1], nn.Identity())
    return Net(body=model, head=head)


def _probe(path: str, model: nn.Module, inputs: Inputs, classes: int) -> Tensor:
    """The model's logits for two fixed examples, with the shape checked."""
    generator = torch.Generator().manual_seed(0)
    size = (2, *inputs.shape)
    examples = torch.rand(size, generator=generator)
    if inputs.vocabulary:
        examples = torch.randint(inputs.vocabulary, size, generator=generator)
    training = model.training
    try:
        with torch.no_grad():
            logits: object = model.eval()(examples)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SordinoError(f"{path} does not accept {inputs} ({first_line}); check its first layers.") from error
    finally:
        model.train(training)
    if not isinstance(logits, Tensor) or logits.shape != (2, classes):
        came = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise SordinoError(f"{path} must return logits of shape (batch, {classes}), but for a batch of 2 {came} came.")
    return logits
