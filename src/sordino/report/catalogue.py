"""Every choice on every axis, found by itself."""

from __future__ import annotations

from typing import Any

from sordino.core import Registry
from sordino.data.partition import PARTITIONERS
from sordino.methods import METHODS
from sordino.models import MODELS
from sordino.pretrain import STARTS
from sordino.privacy.mechanisms import MECHANISMS
from sordino.privacy.samplers import SAMPLERS
from sordino.tuning import TUNINGS


def axes() -> dict[str, dict[str, str]]:
    registries: tuple[Registry[Any], ...] = (METHODS, STARTS, TUNINGS, MECHANISMS, SAMPLERS, MODELS, PARTITIONERS)
    return {registry.axis: {member.name: member.summary for member in registry} for registry in registries}
