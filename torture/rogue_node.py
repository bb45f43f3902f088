"""`python -m torture.rogue_node PARENT MODE ...`: a node with a good key whose answers are spoilt on their way out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import torch

from sordino.engine.flower import supernode_process
from sordino.engine.flower.attendant import Worker
from sordino.engine.wire.message import Message

OVERSIZED_BYTES = 40_000_000
_before: dict[str, bytes] = {}


def malformed(letter: bytes) -> bytes:
    return b"\x00" + letter[::-1]


def oversized(letter: bytes) -> bytes:
    answer = Message.from_bytes(letter)
    more = {**answer.tensors, "released.more": torch.rand(OVERSIZED_BYTES // 4)}
    return Message(content=answer.content, tensors=more).to_bytes()


def not_a_number(letter: bytes) -> bytes:
    answer = Message.from_bytes(letter)
    spoilt = {name: torch.full_like(value, torch.nan) for name, value in answer.tensors.items()}
    return Message(content=answer.content, tensors=spoilt).to_bytes()


def replayed(letter: bytes) -> bytes:
    """The first answer, again and again."""
    return _before.setdefault("first", letter)


MODES: dict[str, Callable[[bytes], bytes]] = {
    "malformed": malformed,
    "oversized": oversized,
    "nan": not_a_number,
    "replayed": replayed,
}


def main() -> None:
    parent, mode, *others = sys.argv[1:]
    honest = Worker.answer

    def answer(self: Worker, letters: Sequence[bytes]) -> list[bytes]:
        said = honest(self, letters)
        return [MODES[mode](one) if Message.from_bytes(one).content["what"] == "answer" else one for one in said]

    Worker.answer = answer  # type: ignore[method-assign]
    sys.argv = [sys.argv[0], parent, *others]
    supernode_process.main()


if __name__ == "__main__":
    main()
