"""What clients keep for themselves. In a simulation it lies with the engine, as private values that no upload contains.

The openings here stand for places on the client's own side of the boundary: its disk, where what it keeps survives a
crash, and its screen, where it sees how well its own model does, and uses it. A simulation shows the second to the researcher,
labelled as outside every guarantee; a secure run does not open it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from sordino.core import Private, Released, SordinoError, unwrap
from sordino.files import make_folder, write_whole

T = TypeVar("T")


class PersonalStore:
    """One private tensor for each client that has had a turn; everyone else still has the public `first` one."""

    def __init__(self, *, clients: int, first: Tensor) -> None:
        self._clients = clients
        self.first = first
        self._kept: dict[int, Private[Tensor]] = {}

    def of(self, client: int) -> Private[Tensor]:
        self._check(client)
        return self._kept.get(client, Private(self.first))

    def of_noisy_steps(self, client: int) -> Released[Tensor]:
        """What a client keeps in a run of noisy steps, where nothing but released values is ever kept."""
        return Released.public(unwrap(self.of(client)))

    def keep(self, client: int, value: Private[Tensor]) -> None:
        self._check(client)
        self._kept[client] = value

    @property
    def holders(self) -> list[int]:
        """Clients that have had a turn."""
        return sorted(self._kept)

    def save(self, path: Path) -> None:
        tensors: dict[str, Tensor] = {str(client): unwrap(value) for client, value in self._kept.items()}
        make_folder(path.parent)
        write_whole(path, save({client: tensor.detach().cpu().contiguous() for client, tensor in tensors.items()}))

    def load(self, path: Path) -> None:
        try:
            with safe_open(path, framework="pt") as file:
                kept = {int(client): file.get_tensor(client) for client in file.keys()}  # noqa: SIM118
        except (SafetensorError, ValueError, OSError) as error:
            raise SordinoError(
                f"What clients keep, {path}, is missing or damaged ({error}); restore it from a copy, "
                "or start anew in another --out folder."
            ) from error
        for client, value in kept.items():
            self.keep(client, Private(value.to(self.first.device)))

    def _check(self, client: int) -> None:
        if not 0 <= client < self._clients:
            raise SordinoError(f"Client {client} keeps nothing here, because there are only {self._clients} clients.")


def show_to_researcher(values: list[Private[T]], *, simulation: bool) -> list[T]:
    """Figures that clients see of themselves, for the researcher at a simulator; outside every guarantee."""
    if not simulation:
        raise SordinoError("Clients' own figures are private; they are shown in simulations alone.")
    return [unwrap(value) for value in values]


def hand_to_owner(value: Private[T], *, simulation: bool) -> T:
    """A client's own model, for the client itself; outside every guarantee, and in simulations alone."""
    if not simulation:
        raise SordinoError("A client's own model is private to it; the simulator hands it out in simulations alone.")
    return unwrap(value)
