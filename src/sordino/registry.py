"""How a part is found by its name: among our own, among those of installed packages, or as `module:Class`."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from sordino.conformity import Advice, checked_part
from sordino.core import SordinoError, unknown
from sordino.outside import entry_points, imported, loaded, package_of, paths_beside

T = TypeVar("T")


@dataclass(frozen=True)
class Member(Generic[T]):
    """One named choice on one axis."""

    name: str
    build: T
    summary: str


@dataclass(frozen=True)
class Guest(Generic[T]):
    """A choice that an installed package brings: what its name is here, and who brings it."""

    name: str
    package: str
    build: T | None
    summary: str
    """What it says of itself, or why it cannot be used where `build` is None."""


class Registry(Generic[T]):
    """Finds the members of an axis.

    Our own come first: no installed package can take a name of ours. Nothing from outside is imported, or even looked for,
    before a name is asked for that is not ours.

    Args:
        axis: what one member is called in sentences, such as "method"; entry points are in the group `sordino.methods`.
        package: our own package of members; each of its modules registers its own when it is imported.
        kind: the protocol or base class of all members, against which those from outside are checked.
        advice: how to add what a class from outside may lack.

    Example:
        `METHODS["dp-fedavg"]`, `METHODS["my_method:MyMethod"]`
    """

    def __init__(self, axis: str, package: str, kind: type = object, advice: Advice | None = None) -> None:
        self.axis = axis
        self.kind = kind
        self._advice = advice or Advice()
        self._package = package
        self._members: dict[str, Member[T]] = {}

    @property
    def group(self) -> str:
        """The group of entry points in which installed packages register members."""
        return f"sordino.{self.axis.split()[-1]}s"

    def register(self, name: str) -> Callable[[T], T]:
        """Decorate a class of our own with its name."""

        def add(build: T) -> T:
            self._members[name] = Member(name, build, _summary(build))
            return build

        return add

    def __iter__(self) -> Iterator[Member[T]]:
        """Our own members."""
        self._discover()
        return iter(sorted(self._members.values(), key=lambda member: member.name))

    def __getitem__(self, name: str) -> T:
        """The member of this name, from the module of its name if there is one, so that the others need no import."""
        if ":" in name:
            return self._checked(name, imported(name, axis=self.axis))
        if name not in self._members:
            self._discover(only=name.replace("-", "_"))
        if name not in self._members:
            self._discover()
        if name not in self._members:
            return self._installed(name)
        return self._members[name].build

    def guests(self) -> Iterator[Guest[T]]:
        """What installed packages bring. One whose name is taken goes by its `module:Class`, which is how it can be used."""
        points = entry_points(self.group)
        taken = Counter([*(member.name for member in self), *(point.name for point in points)])
        for point in points:
            name = point.name if taken[point.name] == 1 else point.value
            try:
                build = self._checked(point.value, loaded(point))
                yield Guest(name, package_of(point), build, _summary(build))
            except SordinoError as refusal:
                yield Guest(name, package_of(point), None, str(refusal))

    def _installed(self, name: str) -> T:
        points = entry_points(self.group)
        named = [point for point in points if point.name == name]
        if len(named) > 1:
            packages = " and ".join(package_of(point) for point in named)
            raise SordinoError(
                f"Only one {self.axis} can be called {name!r}, but got one from each of {packages}; name the one you mean by "
                f"its import path, such as {named[0].value!r}."
            )
        if not named:
            known = {*self._members, *(point.name for point in points)}
            raise SordinoError(paths_beside(name, axis=self.axis) or unknown(self.axis, name, known))
        return self._checked(named[0].value, loaded(named[0]))

    def _checked(self, path: str, found: object) -> T:
        return cast(T, checked_part(found, self.kind, axis=self.axis, path=path, advice=self._advice))

    def _discover(self, *, only: str | None = None) -> None:
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            if only in (None, module.name):
                importlib.import_module(f"{self._package}.{module.name}")


def _summary(build: object) -> str:
    return (getattr(build, "__doc__", None) or "").strip().split("\n")[0]
