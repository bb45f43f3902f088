"""Chains of dense layers, booked by hand: the bookings of the tape, without a graph of layers and hooks on them.

A small model's private step spends more time on autograd's nodes than on numbers. Here only the loss has a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from sordino.gradients.layers import Booking, Capture, Request
from sordino.gradients.layers.linear import book_linear
from sordino.gradients.losses import slope_without_graph
from sordino.gradients.tape import PRECISE, PerExampleLoss, per_example_losses

Chain = Sequence[tuple[str, nn.Module]]
"""Layers by name, each of which gets what the one before it gave."""

_SLOPES: dict[type[nn.Module], Callable[[Tensor, Tensor], Tensor]] = {
    nn.ReLU: lambda grads, outputs: torch.ops.aten.threshold_backward.default(grads, outputs, 0),
    nn.Tanh: torch.ops.aten.tanh_backward.default,
    nn.Sigmoid: torch.ops.aten.sigmoid_backward.default,
    nn.Identity: lambda grads, outputs: grads,
}
"""How gradients pass an activation, from what came out of it."""

IN_ORDER = "runs_children_in_order"
"""A class that has this attribute itself, and true, gives its children in turn what the one before them gave."""
FACTORS = "draws_factors"
"""A class that has this attribute itself, and true, multiplies its inputs by `factors(inputs)` and does nothing else; what these are
may depend on the inputs' shape and type, and not on their values."""


def find_chain(model: nn.Module) -> Chain | None:
    """The model's layers if it is a plain chain of dense ones, else None.

    Only torch's own layers count, as they are: a subclass, a hook or a forward of its own may compute something else.
    Inputs are flattened before the first dense layer or not at all.
    """
    modules = list(model.named_modules(remove_duplicate=False))  # one activation may stand in several places
    parents = [module for _, module in modules if list(module.children())]
    layers = [(name, module) for name, module in modules if not list(module.children())]
    in_order = all(type(parent) is nn.Sequential or vars(type(parent)).get(IN_ORDER, False) for parent in parents)
    if not in_order or any(_changed(module) for _, module in modules):
        return None
    while layers and type(layers[0][1]) is nn.Flatten:
        layers = layers[1:]
    known = all(_known(layer) for _, layer in layers)
    return layers if known and layers and type(layers[0][1]) is nn.Linear else None


@torch.no_grad()
def book_chain(
    chain: Chain, inputs: Tensor, targets: Tensor, *, requests: Mapping[str, Request], loss: PerExampleLoss
) -> dict[str, Booking]:
    """What `tape.record` gives for this model."""
    fed: list[Tensor] = []
    factors: dict[int, Tensor] = {}
    hidden = inputs.detach().flatten(1)
    for place, (_, layer) in enumerate(chain):
        fed.append(hidden)
        if isinstance(layer, nn.Linear):
            hidden = linear(hidden, layer.weight, layer.bias)
        elif _draws_factors(layer):
            factors[place] = layer.factors(hidden)  # type: ignore[operator]
            hidden = hidden * factors[place]
        else:
            hidden = layer(hidden)
    grads, outputs = _slope_of(loss, hidden, targets), hidden
    bookings: dict[str, Booking] = {}
    left = {name for name, _ in chain} & set(requests)
    for place in reversed(range(len(chain))):
        (name, layer), given = chain[place], fed[place]
        if place in factors:
            grads, outputs = grads * factors[place], given
            continue
        if not isinstance(layer, nn.Linear):
            grads, outputs = _SLOPES[type(layer)](grads, outputs), given
            continue
        if name in left:
            left.remove(name)
            for parameter, booking in book_linear(Capture(layer, given, given._version), grads, requests[name]).items():
                bookings[f"{name}.{parameter}" if name else parameter] = booking
        if not left:
            break
        grads, outputs = grads @ layer.weight, given
    return bookings


def bookable(chain: Chain, inputs: Tensor) -> bool:
    """Whether this batch is what the chain expects, in numbers that norms can be taken of."""
    first = chain[0][1]
    assert isinstance(first, nn.Linear)
    return (
        inputs.dtype in PRECISE
        and inputs.dtype == first.weight.dtype
        and inputs[:1].numel() == first.in_features
        and not torch.is_autocast_enabled(inputs.device.type)
        and not any(_changed(layer) for _, layer in chain)
    )


def rectified_layers(chain: Chain) -> list[tuple[str, nn.Linear, nn.Module | None]] | None:
    """The dense layers of a chain that has a ReLU between each two of them, and no dense one twice; None of any other chain.

    With each comes the layer that draws factors for what it reads, if there is one between the ReLU and it.
    """
    layers = [(name, layer) for name, layer in chain if type(layer) is not nn.Identity]
    drawing = [_draws_factors(layer) for _, layer in layers]
    kinds = [type(layer) for (_, layer), draws in zip(layers, drawing, strict=True) if not draws]
    in_turn = kinds == [nn.Linear, *[nn.ReLU, nn.Linear] * (len(kinds) // 2)]
    if not in_turn or any(drawing[at] and type(layers[at - 1][1]) is not nn.ReLU for at in range(len(layers))):
        return None
    dense = [
        (name, layer, layers[at - 1][1] if drawing[at - 1] else None)
        for at, (name, layer) in enumerate(layers)
        if isinstance(layer, nn.Linear)
    ]
    parameters = [parameter for _, layer, _ in dense for parameter in layer.parameters()]
    return dense if len({id(parameter) for parameter in parameters}) == len(parameters) else None


def _slope_of(loss: PerExampleLoss, outputs: Tensor, targets: Tensor) -> Tensor:
    """The gradient of every example's loss by its own outputs."""
    if (known := slope_without_graph(loss, outputs, targets)) is not None:
        return known
    with torch.enable_grad():
        asked = outputs.detach().requires_grad_()
        losses = per_example_losses(loss, asked, targets)
        (slope,) = torch.autograd.grad(losses, asked, torch.ones_like(losses))
    return slope


def _changed(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or "forward" in vars(module) or "parametrizations" in module._modules


def _known(layer: nn.Module) -> bool:
    plain = type(layer) in _SLOPES and not _inplace(layer)
    return type(layer) is nn.Linear or plain or _draws_factors(layer)


def _draws_factors(layer: nn.Module) -> bool:
    return bool(vars(type(layer)).get(FACTORS, False))


def _inplace(layer: nn.Module) -> bool:
    return bool(getattr(layer, "inplace", False))
