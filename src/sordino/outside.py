"""Code from outside this package: modules named as `module:Class`, and entry points of installed packages.

An experiment that names such code runs it, as `python my_method.py` would. Beside the modules that Python finds by itself, the
folder of the experiment file is searched, last of all, and only for a name that the file itself gives.
"""

from __future__ import annotations

import copy
import difflib
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from sordino.core import SordinoError
from sordino.sentences import DECORATOR, first_line, shown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


HELD_MODULE = "python"
"""The module, as it were, of what a Python program holds."""

_HELD: ContextVar[Mapping[str, object] | None] = ContextVar("held", default=None)


class _Beside:
    """The folder of the experiment at hand; it is on Python's path from the first import that needs it."""

    folder: Path | None = None
    on_path: str | None = None


def look_beside(folder: Path) -> None:
    """Say where the experiment at hand lies: modules that it names are also looked for there."""
    _Beside.folder = folder.resolve()


def experiment_folder() -> Path:
    """Where the experiment at hand lies, as `look_beside` was told, for processes that begin on its behalf."""
    return _Beside.folder or Path.cwd()


def imported(path: str, *, axis: str) -> object:
    """What `module:Class` names, for a member of this axis; an inner class may follow after a dot."""
    if path.startswith(f"{HELD_MODULE}:"):
        return _held(path, axis)
    module_name, _, attributes = path.partition(":")
    if not all(step.isidentifier() for step in (*module_name.split("."), *attributes.split("."))):
        raise SordinoError(
            f"A {axis} of your own is named as module:Class, but got {shown(path)}; write for instance 'my_module:Mine'."
        )
    found: object = _module(module_name, path, axis)
    for attribute in attributes.split("."):
        found = _attribute(found, attribute, path, axis)
    return found


@contextmanager
def holding(objects: Mapping[str, object]) -> Iterator[None]:
    """Inside, these classes, functions and models of a Python program are found by their names, `python:Name`."""
    token = _HELD.set({**(_HELD.get() or {}), **objects})
    try:
        yield
    finally:
        _HELD.reset(token)


def maker(given: object) -> object:
    """What is held for a model: a function that copies it, with its weights, or the function or class that was given."""
    if callable(getattr(given, "state_dict", None)) and not isinstance(given, type):
        return lambda shape, classes: copy.deepcopy(given)
    return given


def _held(path: str, axis: str) -> object:
    found = (_HELD.get() or {}).get(path)
    if found is None:
        raise SordinoError(
            f"The {axis} {path!r} was an object of a Python program, but none is at hand here; give it again, such as "
            "sordino.load(DIR, model=net), or call the same sordino.Experiment."
        )
    return found


def paths_beside(name: str, *, axis: str) -> str | None:
    """What to write for a member whose module lies beside the experiment, where only the module was named."""
    module = name.replace("-", "_")
    file = None if _Beside.folder is None or not module.isidentifier() else _Beside.folder / f"{module}.py"
    if file is None or not file.is_file():
        return None
    text = file.read_text(errors="replace")
    names = re.findall(r"^class ([A-Za-z]\w*)", text, re.M) or re.findall(r"^def ([A-Za-z]\w*)", text, re.M) or ["Mine"]
    return (
        f"There is no {axis} called {shown(name)}, but {file.name} lies beside the experiment; "
        f"write {' or '.join(f'{module}:{one}' for one in names[:3])}."
    )


@cache
def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """What installed packages register in a group, in the order of their names; nothing is imported."""
    from importlib import metadata

    return tuple(sorted(metadata.entry_points(group=group), key=lambda point: (point.name, point.value)))


def loaded(point: EntryPoint) -> object:
    """What an entry point names."""
    try:
        return point.load()
    except Exception as error:
        raise SordinoError(
            f"The installed package {package_of(point)} registers {point.name!r} in {point.group} as {point.value!r}, but that fails "
            f"({_what_failed(error)}); mend or uninstall the package."
        ) from error


def package_of(point: EntryPoint) -> str:
    """The installed package that an entry point belongs to, with its version."""
    return "(unnamed)" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _module(name: str, path: str, axis: str) -> ModuleType:
    _put_on_path()
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise SordinoError(_no_module(error.name, path, axis)) from error
        raise SordinoError(
            f"The {axis} {path!r} needs the module {error.name!r}, which is not installed; install it."
        ) from error
    except Exception as error:
        remedy = f"write {DECORATOR}" if _is_about_the_decorator(error) else f"mend {name}"
        raise SordinoError(
            f"The {axis} {path!r} cannot be imported ({_what_failed(error)}); {remedy}, and try `python -c 'import {name}'`."
        ) from error
    _refuse_namesake(name.partition(".")[0], path, axis)
    return module


def _is_about_the_decorator(error: Exception) -> bool:
    """Whether dataclasses refuse a class that is not frozen as its base is, or whose settings are not by keyword."""
    said = ("cannot inherit non-frozen dataclass", "non-default argument")
    return isinstance(error, TypeError) and str(error).startswith(said)


def _put_on_path() -> None:
    """Search the experiment's folder last, so that nothing in it stands in for an installed module."""
    folder = None if _Beside.folder is None else str(_Beside.folder)
    if folder == _Beside.on_path:
        importlib.invalidate_caches()
        return
    if _Beside.on_path in sys.path:
        sys.path.remove(_Beside.on_path)
    _Beside.on_path = None
    if folder is not None and folder not in sys.path:
        sys.path.append(folder)
        _Beside.on_path = folder
    importlib.invalidate_caches()


def _no_module(name: str, path: str, axis: str) -> str:
    place = "" if _Beside.folder is None else f" nor in {_Beside.folder}"
    return (
        f"The {axis} {path!r} needs a module called {name!r}, but there is none on Python's path{place}; check the spelling "
        f"and PYTHONPATH, or put {name.partition('.')[0]}.py beside the experiment file."
    )


def _refuse_namesake(name: str, path: str, axis: str) -> None:
    """Refuse a module from elsewhere where the experiment has one of the same name beside it: which is meant is unclear."""
    found = getattr(sys.modules[name], "__file__", None)
    if _Beside.folder is None or found is None:
        return
    for own in (_Beside.folder / f"{name}.py", _Beside.folder / name / "__init__.py"):
        if own.exists() and own.resolve() != Path(found).resolve():
            raise SordinoError(
                f"The {axis} {path!r} lies beside the experiment, in {own}, but Python has another {name!r}, from {found}; give "
                "yours another name, or run the experiment in a process of its own."
            )


def _attribute(owner: object, name: str, path: str, axis: str) -> object:
    if hasattr(owner, name):
        return getattr(owner, name)
    known = [one for one, value in vars(owner).items() if inspect.isclass(value) or inspect.isfunction(value)]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "check the spelling."
    place = getattr(owner, "__file__", None) or getattr(owner, "__name__", "")
    raise SordinoError(f"The {axis} {path!r} needs {name!r}, but {place} has nothing of that name; {hint}")


def _what_failed(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}"
