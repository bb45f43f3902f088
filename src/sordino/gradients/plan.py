"""Finds out, once per kind of input, which layers can be booked and why the others cannot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sordino.core import SordinoError
from sordino.gradients.layers import rule_for
from sordino.gradients.layers.recurrent import NUMBERS_KEPT
from sordino.gradients.tape import PerExampleLoss, per_example_losses

PROBE_SIZES = (2, 3)


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """Why one part of the model cannot be booked."""

    kind: str
    layer: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The layers to book, or the obstacles that call for the fallback."""

    layers: dict[str, nn.Module]
    obstacles: tuple[Obstacle, ...]
    activations_per_example: int


@dataclass(kw_only=True)
class _Probe:
    """What a forward pass of a few examples showed."""

    batch: int
    calls: Counter[str]
    leading: dict[str, int]
    uses: Counter[int]
    within: dict[str, Counter[int]]
    """How often a call of a recurrent layer uses its parameters by itself."""
    activations: int


def make_plan(
    model: nn.Module, trainable: Sequence[str], inputs: Tensor, targets: Tensor, *, loss: PerExampleLoss
) -> Plan:
    """Probe the model with two and with three examples: a batch dimension is the one that follows."""
    owners = _owners(model, trainable)
    obstacles = [_no_rule(name, layer) for name, layer in owners.items() if rule_for(layer) is None]
    probes = []
    for size in PROBE_SIZES:
        chosen = torch.arange(size, device=inputs.device) % len(inputs)
        probes.append(_probe(model, trainable, inputs[chosen], targets[chosen], loss))
    parameters = dict(model.named_parameters())
    if not obstacles:
        obstacles = [
            obstacle
            for name in trainable
            for probe in probes
            if (obstacle := _misuse(name, parameters[name], probe)) is not None
        ]
    activations = max(probe.activations // probe.batch for probe in probes)
    return Plan(layers=owners, obstacles=tuple(obstacles), activations_per_example=activations)


def batch_dependent_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The layers that may mix examples, depending on their mode."""
    kinds = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm)
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, kinds)}


def refuse_batch_statistics(layers: Mapping[str, nn.Module]) -> None:
    """Layers whose output, or whose stored state, mixes examples have no per-example gradient to clip."""
    for name, layer in layers.items():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and (layer.training or layer.running_mean is None):
            raise SordinoError(
                f"Layer {name!r} ({type(layer).__name__}) normalises each example by the whole batch, so no example's "
                "gradient can be bounded by itself; use GroupNorm, or freeze the layer with eval()."
            )
        if isinstance(layer, nn.modules.instancenorm._InstanceNorm) and layer.training and layer.track_running_stats:
            raise SordinoError(
                f"Layer {name!r} ({type(layer).__name__}) keeps running statistics of private examples without noise; "
                "build it with track_running_stats=False."
            )


def _owners(model: nn.Module, trainable: Sequence[str]) -> dict[str, nn.Module]:
    names = dict.fromkeys(name.rpartition(".")[0] for name in trainable)
    return {name: model.get_submodule(name) for name in names}


def _no_rule(name: str, layer: nn.Module) -> Obstacle:
    kind = type(layer).__name__
    return Obstacle(
        kind=kind, layer=name, sentence=f"layer {name or 'the model itself'!r} ({kind}) has no rule of its own"
    )


def _misuse(name: str, parameter: nn.Parameter, probe: _Probe) -> Obstacle | None:
    layer = name.rpartition(".")[0]
    calls, uses = probe.calls[layer], probe.uses[id(parameter)]
    if calls == 0 and uses == 0:
        return None
    once = probe.within[layer][id(parameter)] if layer in probe.within else 1
    if calls > 1 or uses > once:
        return Obstacle(kind="reuse", layer=layer, sentence=f"parameter {name!r} is used more than once")
    if calls == 0 or uses == 0:
        return Obstacle(kind="hidden use", layer=layer, sentence=f"parameter {name!r} is used outside its layer's call")
    if probe.leading.get(layer) != probe.batch:
        return Obstacle(
            kind="batch", layer=layer, sentence=f"layer {layer!r} does not see examples in its first dimension"
        )
    return None


def _probe(model: nn.Module, trainable: Sequence[str], inputs: Tensor, targets: Tensor, loss: PerExampleLoss) -> _Probe:
    probe = _Probe(batch=len(inputs), calls=Counter(), leading={}, uses=Counter(), within={}, activations=0)

    def watch(name: str, layer: nn.Module, stack: ExitStack) -> None:
        def seen(_: nn.Module, args: tuple[object, ...], kwargs: dict[str, object], output: object) -> None:
            first = args[0] if args else kwargs.get("input")
            probe.calls[name] += 1
            if isinstance(first, Tensor) and first.dim():
                probe.leading[name] = first.shape[0]
            if isinstance(output, Tensor) and not any(layer.children()):
                probe.activations += output.numel()
            if isinstance(layer, nn.LSTM) and isinstance(first, Tensor):
                said = layer.forward(first.detach())[0]
                probe.within[name] = _uses(said)
                probe.activations += layer.num_layers * NUMBERS_KEPT * said.numel()

        stack.enter_context(layer.register_forward_hook(seen, with_kwargs=True))

    with ExitStack() as stack:
        stack.enter_context(_undisturbed(model, trainable, inputs.device))
        for name, layer in model.named_modules():
            watch(name, layer, stack)
        losses = per_example_losses(loss, model(inputs.detach()), targets)
        probe.uses = _uses(losses)
    return probe


@contextmanager
def _undisturbed(model: nn.Module, trainable: Sequence[str], device: torch.device) -> Iterator[None]:
    """Random states and the parameters' flags are afterwards as before; inside, only trainable parameters are tracked."""
    flags = {parameter: parameter.requires_grad for parameter in model.parameters()}
    own = [value for layer in model.modules() for value in vars(layer).values() if isinstance(value, torch.Generator)]
    states = [generator.get_state() for generator in own]
    wanted = set(trainable)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), torch.enable_grad():
        try:
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(name in wanted)
            yield
        finally:
            for parameter, flag in flags.items():
                parameter.requires_grad_(flag)
            for generator, state in zip(own, states, strict=True):
                generator.set_state(state)


def _uses(losses: Tensor) -> Counter[int]:
    """How many edges of the graph end in each parameter."""
    uses: Counter[int] = Counter()
    start = losses.grad_fn
    pending, known = [start], {start}
    while pending:
        node = pending.pop()
        for following, _ in node.next_functions if node is not None else ():
            if following is None:
                continue
            if hasattr(following, "variable"):
                uses[id(following.variable)] += 1
            elif following not in known:
                known.add(following)
                pending.append(following)
    return uses
