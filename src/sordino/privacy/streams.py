"""Names for independent streams of randomness, so that no draw depends on what was drawn before it."""

from __future__ import annotations

import hashlib


def stream_id(*parts: object) -> int:
    """A 63-bit number for a named stream: the same parts give the same stream in every process and on every machine.

    Example:
        `torch.Generator().manual_seed(stream_id("my method", round_number, client))`
    """
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1
