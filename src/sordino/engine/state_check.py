"""One round of a method, and whether what it returns can be the next state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError

from torch import Tensor

from sordino.core import Released, SordinoError
from sordino.methods.method import Federation, Method, State
from sordino.sentences import with_article


def next_state(method: Method, number: int, state: State, federation: Federation) -> State:
    """The state after a round, checked before anything else is made of it."""
    numbers = state["model"].numel()
    try:
        found = method.round(number, state, federation)
    except FrozenInstanceError as error:
        name = str(error).rpartition("field ")[2]
        raise SordinoError(
            f"A method keeps nothing on itself, but it assigned {name}; return it in the state: {{**state, {name}: …}}."
        ) from error
    check_state(found, numbers=numbers)
    return found


def check_state(found: object, *, numbers: int) -> None:
    """Refuse what cannot be kept in a checkpoint, or has no model of so many numbers."""
    wrong = next(_faults(found, numbers), None)
    if wrong is not None:
        raise SordinoError(
            f"The method's round should return a dict of tensors with 'model' ({numbers} numbers), but {wrong}."
        )


def _faults(found: object, numbers: int) -> Iterator[str]:
    if not isinstance(found, dict):
        yield f"it returned {_kind(found)}; return {{**state, 'model': …}}"
        return
    for name, value in found.items():
        if not isinstance(value, Tensor):
            remedy = "take its .value" if isinstance(value, Released) else "write torch.tensor(…)"
            yield f"entry {name!r} is {_kind(value)}; {remedy}"
    if "model" not in found:
        yield "there is no entry 'model'; return {**state, 'model': …}"
    elif found["model"].shape != (numbers,):
        yield f"'model' has shape {tuple(found['model'].shape)}; keep it one flat tensor of its size"


def _kind(value: object) -> str:
    return "None" if value is None else with_article(type(value).__name__)
