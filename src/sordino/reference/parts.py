"""Parts and sections by name, each with what it says of itself and its settings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sordino.core import SordinoError, unknown
from sordino.data.partition import PARTITIONERS
from sordino.data.settings import SourceSettings
from sordino.experiment import ClientsSection, DataSection, EngineSection, PrivacySection
from sordino.experiment import Experiment as Whole
from sordino.methods import METHODS
from sordino.models import MODELS
from sordino.pretrain import STARTS
from sordino.privacy.mechanisms import MECHANISMS
from sordino.privacy.samplers import SAMPLERS
from sordino.reference.described import Setting, settings_of
from sordino.registry import Registry
from sordino.tuning import TUNINGS

AXES: dict[str, tuple[str, Registry[Any]]] = {
    "method": ("method", METHODS),
    "model": ("model", MODELS),
    "start": ("start", STARTS),
    "tuning": ("tuning", TUNINGS),
    "mechanism": ("privacy.mechanism", MECHANISMS),
    "partitioner": ("data.partition", PARTITIONERS),
}
"""What one part is called, the section in which it is named, and where it is found."""
SECTIONS = {
    "": Whole,
    "data": DataSection,
    "data.options": SourceSettings,
    "privacy": PrivacySection,
    "clients": ClientsSection,
    "engine": EngineSection,
}
_SAID_ELSEWHERE = {"data.options": ("source", "visibility")}


@dataclass(frozen=True, kw_only=True)
class Described:
    """One part or section."""

    name: str
    axis: str
    section: str
    text: str
    """What its class says of itself, whole."""
    settings: list[Setting]

    @property
    def example(self) -> str:
        """A line of a file that names it, with one of its settings."""
        key, inside = self.section.rpartition(".")[2], f'"{self.name}"'
        known = (one for one in self.settings if one.default not in ("none", "needed", "its own"))
        said = next((one for one in known if not one.unused), None)
        return f"{key} = {inside}" if said is None else f"{key} = {{ name = {inside}, {said.name} = {said.default} }}"


def parts() -> Iterator[Described]:
    """Every part of ours, axis by axis."""
    for axis, (section, registry) in AXES.items():
        for member in registry:
            yield _described(member.name, axis, section, member.build)


def sections() -> Iterator[Described]:
    """The sections of an experiment file."""
    for name, kind in SECTIONS.items():
        found = _described(name or "top of the file", "section", name, kind)
        hidden = _SAID_ELSEWHERE.get(name, ())
        yield Described(**{**vars(found), "settings": [one for one in found.settings if one.name not in hidden]})


def part(name: str) -> Described:
    """The part of this name, on whichever axis; `axis:name` where several have it. `module:Class` is one of your own."""
    axis, _, rest = name.partition(":")
    if axis in AXES and rest:
        section, registry = AXES[axis]
        return _described(rest, axis, section, registry[rest])
    found = [one for one in parts() if one.name == name]
    samplers = {member.name: member for member in SAMPLERS}
    if not found and name in samplers:
        return Described(name=name, axis="sampler", section="privacy.sampler", text=samplers[name].summary, settings=[])
    if len(found) > 1:
        raise SordinoError(
            f"{name!r} is on several axes; write {' or '.join(f'{one.axis}:{one.name}' for one in found)}."
        )
    if not found:
        raise SordinoError(unknown("part", name, sorted({one.name for one in parts()} | set(samplers))))
    return found[0]


def _described(name: str, axis: str, section: str, kind: type) -> Described:
    text = inspect.cleandoc(kind.__doc__ or "")
    return Described(name=name, axis=axis, section=section, text=text, settings=settings_of(kind))
