"""One client's own model, after a personalised run: made where the client's rows and what it keeps are at hand.

It is outside every ε (joint, billboard DP): it hides the other clients and not its owner, so it is for the owner alone.
"""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import torch
from torch import Tensor

from sordino.core import Private, SordinoError, unknown
from sordino.data.beside import relative_to
from sordino.data.examples import Examples
from sordino.engine.client.personal_store import PersonalStore, hand_to_owner
from sordino.engine.record import LEFT_TO_TORCH, Checkpoint, RunRecord
from sordino.engine.resolved import Resolved, resolve
from sordino.engine.setup import Setup, in_phase, prepare
from sordino.engine.simulate.workers import Place, Workers
from sordino.engine.tariff import Multipliers
from sordino.experiment import experiment as checked
from sordino.methods.context import ClientContext
from sordino.models import Net
from sordino.outside import look_beside


def own_model(folder: Path, client: str) -> Net:
    """The model that this client uses, as it was tested at the end of the run; `client` is its name or its number."""
    record = RunRecord(folder)
    begun, checkpoint = record.read_experiment(), record.load_checkpoint()
    look_beside(Path(begun["facts"]["folder"]))
    resolved = resolve(checked(begun["experiment"]))
    _refuse_others(resolved, folder)
    if checkpoint is None:
        raise SordinoError(
            f"{folder} has no completed round, so clients have no models yet; continue it with --resume."
        )
    begin = Path(begun["facts"]["folder"])
    with relative_to(begin):
        facts = begun["facts"]
        setup = prepare(
            resolved,
            folder=begin,
            progress=_quiet,
            settled=Multipliers.from_json(facts),
            left_to_torch=facts.get(LEFT_TO_TORCH, {}),
        )
    setup = _at_the_end(setup, checkpoint)
    weights = _weights(setup, record, checkpoint, _number(setup, client))
    whole = copy.deepcopy(setup.whole)
    whole.load_state_dict({**whole.state_dict(), **hand_to_owner(weights, simulation=resolved.simulated)})
    return resolved.tuning.finish(whole)


def _quiet(done: int, total: int) -> None:
    return


def _refuse_others(resolved: Resolved, folder: Path) -> None:
    if not resolved.method.personalised:
        raise SordinoError(
            f"The method {resolved.experiment.method['name']!r} of {folder} gives all clients one model; leave the client out."
        )
    if not resolved.simulated:
        raise SordinoError(
            f"{folder} is a secure run, whose clients keep their models themselves; a client's own model is made in simulations alone."
        )


def _number(setup: Setup, client: str) -> int:
    names = setup.loaded.names or tuple(map(str, range(setup.loaded.partition.clients)))
    if client not in names:
        raise SordinoError(unknown("client", client, names))
    return names.index(client)


def _at_the_end(setup: Setup, checkpoint: Checkpoint) -> Setup:
    """The run in the phase of its last round, with the shared model of the checkpoint."""
    phases = setup.phases
    if checkpoint.choice is not None:
        phases = setup.resolved.tuning.chosen_phases(setup.whole, setup.experiment.rounds, checkpoint.choice)
    ended = dataclasses.replace(setup, phases=phases)
    return in_phase(ended, ended.phase(max(0, checkpoint.rounds_done - 1)))


def _weights(setup: Setup, record: RunRecord, checkpoint: Checkpoint, client: int) -> Private[dict[str, Tensor]]:
    """The state of the client's own model, made beside its rows."""
    method, state = setup.method, {key: value.to(setup.device) for key, value in checkpoint.state.items()}
    first = method.first_personal(setup.net).to(setup.device)
    store = PersonalStore(clients=setup.federated.partition.clients, first=first)
    if method.keeps_state:
        store.load(record.personal_file(checkpoint.rounds_done))

    def work(number: int, context: ClientContext) -> Private[dict[str, Tensor]]:
        def make(known: tuple[Examples, Tensor]) -> dict[str, Tensor]:
            method.personalise(state, known[1], known[0], context)
            return {key: value.detach().clone() for key, value in context.net.state_dict().items()}

        return setup.federated.client(client).pair(store.of(client)).map(make)

    workers = Workers(setup.net, setup.space, seed=setup.experiment.seed, device=torch.device("cpu"), workers=1)
    try:
        (made,) = workers.each([Place(client=client, round=checkpoint.rounds_done - 1, size=0)], work)
    finally:
        workers.close()
    return made
