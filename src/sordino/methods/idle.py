"""Settings that were changed where nothing comes of them: named in the sentences that refuse them, and in plans."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any


def changed(made: Any, names: Iterable[str]) -> dict[str, Any]:
    """Those of these settings of a part that have another value than its class gives them."""
    usual = {field.name: field.default for field in dataclasses.fields(made)}
    return {name: getattr(made, name) for name in names if getattr(made, name) != usual[name]}


def in_words(found: dict[str, Any]) -> str:
    """Settings as a file has them: epochs = 5, momentum = 0.5 and full_batch = true."""
    *most, last = (f"{name} = {json.dumps(value)}" for name, value in found.items())
    return f"{', '.join(most)} and {last}" if most else last
