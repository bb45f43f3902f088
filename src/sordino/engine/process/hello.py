"""What a client process is told when it begins, and when a phase begins: public facts, the model, and its own rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from sordino.data.examples import Examples, Normalisation
from sordino.engine.process.ownership import owned
from sordino.engine.setup import Setup
from sordino.engine.wire.message import Message
from sordino.privacy.streams import stream_id

MODEL = "model."


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """What stays the same for a client over the whole run."""

    client: int
    run: str
    """The ledger's name for the run."""
    experiment: Mapping[str, Any]
    multipliers: Mapping[str, Any]
    """The noise, as it was settled."""
    sizes: list[int]
    held_out: list[int]
    shape: tuple[int, ...]
    classes: int
    vocabulary: int
    folder: str
    """The client's own folder, for its ledger and what it keeps."""
    noise_seed: int | None
    """Of this client's noise alone, in a simulation; None where noise is secure."""
    limits: Mapping[str, Any]

    @staticmethod
    def of(setup: Setup, client: int, *, run: str, folder: Path, limits: Mapping[str, Any]) -> Beginning:
        source, seed = setup.loaded.source, setup.experiment.seed
        roster = setup.loaded.roster
        return Beginning(
            client=client,
            run=run,
            experiment=setup.experiment.model_dump(mode="json"),
            multipliers=setup.tariff.multipliers.to_json(),
            sizes=list(roster.sizes),
            held_out=list(roster.held_out),
            shape=source.shape,
            classes=source.classes,
            vocabulary=source.vocabulary,
            folder=str(folder),
            noise_seed=stream_id("noise of client", seed, client) if setup.resolved.simulated else None,
            limits=limits,
        )

    def to_message(self) -> Message:
        return Message(content={"what": "begin", **dataclasses.asdict(self)})

    @staticmethod
    def from_message(message: Message) -> Beginning:
        content = {name: value for name, value in message.content.items() if name != "what"}
        return Beginning(**{**content, "shape": tuple(content["shape"])})


def enter_message(setup: Setup, client: int) -> Message:
    """A phase begins: which coordinates are trained, the weights they have, and this client's rows as the phase uses them."""
    federated = setup.federated
    tensors: dict[str, Tensor] = {f"{MODEL}{name}": value for name, value in setup.net.state_dict().items()}
    examples = {"rows": owned(federated.client(client))}
    if federated.held_out is not None:
        examples["held_out"] = owned(federated.held_out_of(client))
    if setup.anchors is not None:
        examples["anchors"] = setup.anchors
    described = {}
    for name, own in examples.items():
        described[name] = dataclasses.asdict(own.normalisation)
        tensors |= {f"{name}.inputs": own.inputs, f"{name}.labels": own.labels}
    content = {
        "what": "enter",
        "names": setup.space.names,
        "on_features": setup.net is not setup.whole,
        "examples": described,
    }
    return Message(content=content, tensors=tensors)


def model_weights(message: Message) -> dict[str, Tensor]:
    """The weights that a phase begins with."""
    tensors = message.tensors.items()
    return {name.removeprefix(MODEL): value for name, value in tensors if name.startswith(MODEL)}


def examples_of(message: Message, name: str) -> Examples | None:
    """The examples of this name, if some were sent."""
    described = message.content["examples"].get(name)
    if described is None:
        return None
    plain: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in described.items()
    }
    inputs, labels = (message.tensors[f"{name}.{part}"] for part in ("inputs", "labels"))
    return Examples(inputs=inputs, labels=labels, normalisation=Normalisation(**plain))
