"""Every choice on every axis, found by itself."""

from __future__ import annotations

from typing import Any

from sordino.data.partition import PARTITIONERS
from sordino.methods import METHODS
from sordino.models import MODELS
from sordino.pretrain import STARTS
from sordino.privacy.mechanisms import MECHANISMS
from sordino.privacy.samplers import SAMPLERS
from sordino.registry import Registry
from sordino.tuning import TUNINGS

REGISTRIES: tuple[Registry[Any], ...] = (METHODS, STARTS, TUNINGS, MECHANISMS, SAMPLERS, MODELS, PARTITIONERS)


def axes() -> dict[str, dict[str, str]]:
    """What each choice on each axis says of itself; those of installed packages also say who brings them."""
    return {registry.axis: {**_own(registry), **_guests(registry)} for registry in REGISTRIES}


def _own(registry: Registry[Any]) -> dict[str, str]:
    return {member.name: member.summary for member in registry}


def _guests(registry: Registry[Any]) -> dict[str, str]:
    return {guest.name: f"{guest.summary} (from {guest.package})" for guest in registry.guests()}
