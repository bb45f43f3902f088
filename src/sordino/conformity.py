"""Whether a class from outside is what its axis needs, and a sentence that says what it lacks."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field

from sordino.core import SordinoError
from sordino.sentences import DECORATOR


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What an axis tells those whose class lacks something.

    Args:
        base: the class that most members inherit, where it is not the base of all.
        names: for what may be missing, how it is added.
    """

    base: str = ""
    names: Mapping[str, str] = field(default_factory=dict)


def checked_part(found: object, kind: type, *, axis: str, path: str, advice: Advice) -> type:
    """The class itself, if it can be a member of an axis whose members are of this kind."""
    if not isinstance(found, type):
        raise SordinoError(
            f"The {axis} {path!r} must be a class, but got {type(found).__name__}; name the class itself."
        )
    if not _is_protocol(kind) and not issubclass(found, kind):
        base, either = (advice.base, f"{advice.base} (or {kind.__name__})") if advice.base else (kind.__name__,) * 2
        raise SordinoError(
            f"The {axis} {path!r} must inherit {either}, but {found.__name__} does not; "
            f"write class {found.__name__}({base}), with {base} from sordino.extend."
        )
    missing = missing_names(found, kind)
    if missing:
        remedies = [advice.names[name] for name in missing if name in advice.names]
        remedy = " and ".join(remedies) or f"see {kind.__name__} in sordino.extend"
        raise SordinoError(f"The {axis} {path!r} needs {', '.join(missing)}, which {found.__name__} lacks; {remedy}.")
    _refuse_unfrozen(found, axis=axis, path=path)
    return found


def _refuse_unfrozen(found: type, *, axis: str, path: str) -> None:
    parameters = vars(found).get("__dataclass_params__")
    if parameters is not None and not parameters.frozen:
        raise SordinoError(
            f"The {axis} {path!r} must be a frozen dataclass, but {found.__name__} can be changed; write {DECORATOR}."
        )


def missing_names(found: type, kind: type) -> list[str]:
    """What every member has to have, and this class has not: what a protocol lists, or what a base class leaves abstract."""
    fields = {field.name for field in dataclasses.fields(found)} if dataclasses.is_dataclass(found) else set()
    if _is_protocol(kind):
        return sorted(name for name in _listed(kind) - fields if _is_missing(found, kind, name))
    said = {name for name in _annotated(kind) - fields if not hasattr(found, name)}
    return sorted({*getattr(found, "__abstractmethods__", ()), *said})


def _listed(protocol: type) -> set[str]:
    """The public names of a protocol, with those it inherits."""
    own = {name for one in protocol.__mro__ if _is_protocol(one) for name in vars(one) if not name.startswith("_")}
    return own | _annotated(protocol)


def _annotated(kind: type) -> set[str]:
    """What a class says that there is, without saying what it is."""
    return {name for one in kind.__mro__ for name in vars(one).get("__annotations__", {}) if not name.startswith("_")}


def _is_missing(found: type, protocol: type, name: str) -> bool:
    """Whether a class has nothing of this name, or only the empty one of the protocol itself."""
    nothing = object()
    own = inspect.getattr_static(found, name, nothing)
    return own is nothing or own is inspect.getattr_static(protocol, name, nothing)


def _is_protocol(kind: type) -> bool:
    return bool(getattr(kind, "_is_protocol", False))
