"""The surface for parts from outside: everything in it explains itself, and it holds nothing of its own."""

import ast
import inspect
from pathlib import Path

import pytest

from sordino import extend

EXPLAINED = [
    name
    for name in extend.__all__
    if inspect.isclass(getattr(extend, name)) or inspect.isfunction(getattr(extend, name))
]
BASES = ["Averaging", "Builder", "Clip", "CohortSampler", "Examples", "FlatSpace", "Inputs", "LocalSgd", "Net", "Partitioner",
         "Registry", "Start", "Tuning", "seeded", "stream_id", "Method", "Broadcast", "Upload", "Turn", "Mechanism"]  # fmt: skip


def test_the_surface_is_imports_alone():
    tree = ast.parse(Path(extend.__file__).read_text())
    kinds = {type(node) for node in tree.body[1:-1]}
    assert kinds == {ast.ImportFrom}
    imported = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported == set(extend.__all__)


@pytest.mark.parametrize("name", EXPLAINED)
def test_every_part_of_it_explains_itself(name):
    value = getattr(extend, name)
    own = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    assert own and not own.startswith(f"{name}("), f"{name} has no docstring"


@pytest.mark.parametrize("name", BASES)
def test_what_strangers_begin_with_has_an_example(name):
    assert "Example" in inspect.getdoc(getattr(extend, name))


def test_axes_have_their_base_and_their_registry_here():
    for registry in (value for value in vars(extend).values() if isinstance(value, extend.Registry)):
        assert getattr(extend, registry.kind.__name__) is registry.kind
