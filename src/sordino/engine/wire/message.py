"""One message: a JSON object and named tensors, in one safetensors file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from sordino.engine.wire.lengths import LENGTH, Garbled

__all__ = ["VERSION", "Garbled", "Message"]

VERSION = 2
"""Of the wire form. Both sides must have the same."""

_VERSION, _CONTENT = "sordino.wire", "sordino.content"


@dataclass(frozen=True, kw_only=True)
class Message:
    """What is sent: `content` is JSON, tensors travel beside it under their names.

    Example:
        >>> sent = Message(content={"what": "ask"}, tensors={"model": torch.zeros(3)})
        >>> Message.from_bytes(sent.to_bytes()).content
        {'what': 'ask'}
    """

    content: Mapping[str, Any]
    tensors: Mapping[str, Tensor] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        header = {_VERSION: str(VERSION), _CONTENT: json.dumps(self.content, allow_nan=False)}
        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        return save(plain, metadata=header)

    @staticmethod
    def from_bytes(data: bytes) -> Message:
        """Raises `Garbled` for whatever is not a whole message of this version."""
        header = _header(data)
        if header.get(_VERSION) != str(VERSION):
            raise Garbled(
                f"A message should have wire version {VERSION}, but got {header.get(_VERSION)!r}; install the same version of sordino "
                "on both sides."
            )
        try:
            content = json.loads(header[_CONTENT])
            tensors = load(data)
        except (SafetensorError, ValueError, KeyError) as error:
            raise Garbled(f"A message cannot be read ({error}); it was cut or damaged on its way.") from error
        if not isinstance(content, dict):
            raise Garbled(f"A message should hold a JSON object, but got {type(content).__name__}.")
        return Message(content=content, tensors=tensors)


def _header(data: bytes) -> dict[str, str]:
    """The metadata of a safetensors file."""
    length = int.from_bytes(data[:LENGTH], "little")
    try:
        found = json.loads(data[LENGTH : LENGTH + length])["__metadata__"]
    except (ValueError, KeyError, TypeError) as error:
        raise Garbled("Got bytes that are no message; the other side speaks another language.") from error
    return found if isinstance(found, dict) else {}
