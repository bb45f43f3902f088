"""What a client in another process is told when a run begins, and when a phase begins: public facts and the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from sordino.data.examples import Examples, Normalisation
from sordino.engine.setup import Setup
from sordino.engine.wire.message import Message
from sordino.models import Net

MODEL = "model."


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """The plan, which stays the same for a client over the whole run. Everything in it is public."""

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
    parameters: Mapping[str, list[int]]
    """The shape of each parameter of the whole model, so that another version of it is noticed."""
    left_to_torch: Mapping[str, list[str]]
    """Work of the model's layers that compiled kernels do not do in this run."""

    @staticmethod
    def of(setup: Setup, client: int, *, run: str) -> Beginning:
        source, roster = setup.loaded.source, setup.loaded.roster
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
            parameters=parameter_shapes(setup.whole),
            left_to_torch={name: list(works) for name, works in setup.left_to_torch.items()},
        )

    def to_message(self, **besides: Any) -> Message:
        """With whatever an engine says besides the plan."""
        return Message(content={"what": "begin", **dataclasses.asdict(self), **besides})

    @staticmethod
    def from_message(message: Message) -> Beginning:
        content = {field.name: message.content[field.name] for field in dataclasses.fields(Beginning)}
        return Beginning(**{**content, "shape": tuple(content["shape"])})


def parameter_shapes(net: Net) -> dict[str, list[int]]:
    return {name: list(parameter.shape) for name, parameter in net.named_parameters()}


def enter_message(setup: Setup, net: Net, rows: Mapping[str, Examples]) -> Message:
    """A phase begins: which coordinates are trained, the weights of `net`, and `rows` by what they are for."""
    tensors: dict[str, Tensor] = {f"{MODEL}{name}": value for name, value in net.state_dict().items()}
    examples = dict(rows)
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
