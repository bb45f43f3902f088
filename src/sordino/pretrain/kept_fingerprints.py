"""Fingerprints of public rows, worked out once for each set: decoding 20,000 JPEG images takes seconds, and every run would do it."""

from __future__ import annotations

import hashlib
from contextlib import suppress

from sordino.core import SordinoError
from sordino.data.public import digest
from sordino.data.row_fingerprints import fingerprints_of_training, from_text, to_text
from sordino.data.source import Source
from sordino.files import make_folder, write_whole
from sordino.pretrain.store import store_folder

SCHEMA = 1


def kept_fingerprints(source: Source) -> str:
    """Those of the rows that a model is trained on, as text; from the store of starts where they were worked out before."""
    content = repr((SCHEMA, digest(source.train), source.origin))
    path = store_folder() / "fingerprints" / hashlib.sha256(content.encode()).hexdigest()[:24]
    with suppress(OSError, ValueError):
        kept = path.read_text(encoding="ascii")
        if len(from_text(kept)):
            return kept
    found = to_text(fingerprints_of_training(source))
    with suppress(SordinoError):  # without room to keep them they are worked out again next time
        make_folder(path.parent)
        write_whole(path, found.encode())
    return found
