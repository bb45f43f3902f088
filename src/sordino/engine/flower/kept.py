"""What a node keeps of a run for itself: written before an answer leaves, so that a crash on either side loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sordino.engine.client.personal_store import PersonalStore

_AFTER = "after-{:05d}-rounds.safetensors"


class Kept:
    """Versions of what a node keeps in one phase, by how many rounds were done.

    A server that goes on from a checkpoint names its round: the node takes up the newest version that is no later.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, personal: PersonalStore, rounds: int) -> None:
        personal.save(self._folder / _AFTER.format(rounds))

    def recall(self, personal: PersonalStore, rounds: int) -> None:
        """Go back to how it was after so many rounds; later versions are of a past that did not happen."""
        for number, path in self._versions():
            if number > rounds:
                path.unlink()
        found = [path for _, path in self._versions()]
        if found:
            personal.load(found[-1])

    def forget_before(self, rounds: int) -> None:
        """The server has a checkpoint of this round, so nothing older than what goes with it is needed."""
        earlier = [path for number, path in self._versions() if number <= rounds]
        for path in earlier[:-1]:
            path.unlink()

    def _versions(self) -> Iterator[tuple[int, Path]]:
        for path in sorted(self._folder.glob("after-*-rounds.safetensors")):
            yield int(path.name.split("-")[1]), path
