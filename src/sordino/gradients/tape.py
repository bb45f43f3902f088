"""One forward and one backward pass that book every trainable layer as its output gradient arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from sordino.core import SordinoError
from sordino.gradients.layers import Booking, Capture, Request, rule_for

PRECISE = (torch.float32, torch.float64)
"""What norms are taken in; under autocast a layer's gradients may arrive in less."""

PerExampleLoss = Callable[[Tensor, Tensor], Tensor]
LstmOutput = tuple[Tensor, tuple[Tensor, Tensor]]
"""What it said at every step, and its last state and cell."""


class Unbookable(Exception):
    """This pass met a use of a layer that per-layer rules do not cover."""


class _Tap(torch.autograd.Function):
    """Starts the graph at the first trainable layer's output, so that nothing before it is differentiated."""

    @staticmethod
    def forward(ctx: FunctionCtx, output: Tensor, anchor: Tensor, arrive: Callable[[Tensor], None]) -> Tensor:
        ctx.arrive = arrive  # type: ignore[attr-defined]
        ctx.mark_dirty(output)
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, None]:
        ctx.arrive(grads[0])
        return None, None, None


class Tape:
    """The bookings of one batch, by parameter name."""

    def __init__(self, requests: Mapping[str, Request], batch: int) -> None:
        self.bookings: dict[str, Booking] = {}
        self._requests = requests
        self._batch = batch
        self._pending: set[str] = set()
        self._called: set[str] = set()

    def capture(
        self, name: str, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> Tensor | LstmOutput:
        if not isinstance(layer, nn.LSTM):
            return self._capture(name, layer, args, kwargs, output)
        if len(args) + len(kwargs) > 1:  # it was handed a state to begin with
            raise Unbookable(name)
        return self._capture_lstm(name, layer, args, kwargs, output)

    def _capture_lstm(
        self, name: str, layer: nn.LSTM, args: tuple[Any, ...], kwargs: dict[str, Any], output: LstmOutput
    ) -> LstmOutput:
        """Of a single layer the last state is what it said last, so that its gradient arrives there; others must not have one."""
        said = self._capture(name, layer, args, kwargs, output[0])
        state, cell = (_tap(one, partial(_refuse, name)) for one in output[1])
        return said, (said[:, -1].unsqueeze(0) if layer.num_layers == 1 else state, cell)

    def _capture(
        self, name: str, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor
    ) -> Tensor:
        inputs = (args[0] if args else kwargs["input"]).detach()
        if name in self._called or inputs.shape[0] != self._batch or output.dtype not in PRECISE:
            raise Unbookable(name)
        self._called.add(name)
        self._pending.add(name)
        capture = Capture(layer, inputs, inputs._version, _group_statistics(layer, output))
        return _tap(output, partial(self._arrive, name, capture))

    def close(self) -> None:
        """A layer that was called and got no gradient is not a zero: its use was not understood."""
        for name in self._pending:
            raise Unbookable(name)

    def _arrive(self, name: str, capture: Capture, grads: Tensor) -> None:
        if capture.inputs._version != capture.version:
            raise SordinoError(
                f"The input of layer {name!r} was changed in place after the layer read it; "
                "use the out-of-place form of that operation."
            )
        self._pending.discard(name)
        rule = rule_for(capture.layer)
        assert rule is not None
        for parameter, booking in rule(capture, grads, self._requests[name]).items():
            self.bookings[f"{name}.{parameter}" if name else parameter] = booking


def _tap(output: Tensor, arrive: Callable[[Tensor], None]) -> Tensor:
    """The same output, which tells `arrive` its gradient."""
    if output._is_view():
        output = output.clone()  # an in-place change of a view rewrites the graph around the hook
    if not output.requires_grad:
        anchor = output.new_empty(0, dtype=output.dtype).requires_grad_()
        return _Tap.apply(output, anchor, arrive)  # type: ignore[no-any-return, no-untyped-call]
    output.register_hook(arrive)
    return output


def _refuse(name: str, grads: Tensor) -> None:
    raise Unbookable(name)


def record(
    model: nn.Module,
    layers: Mapping[str, nn.Module],
    inputs: Tensor,
    targets: Tensor,
    *,
    parameters: Iterable[nn.Parameter],
    requests: Mapping[str, Request],
    loss: PerExampleLoss,
) -> dict[str, Booking]:
    """Book one batch; a parameter that the loss does not reach has no booking."""
    tape = Tape(requests, len(inputs))
    hooks = [
        layer.register_forward_hook(partial(tape.capture, name), prepend=True, with_kwargs=True)
        for name, layer in layers.items()
    ]
    try:
        with frozen(parameters), torch.enable_grad():
            losses = per_example_losses(loss, model(inputs.detach()), targets)
            if losses.requires_grad:
                torch.autograd.backward(losses, torch.ones_like(losses))
    finally:
        for hook in hooks:
            hook.remove()
    tape.close()
    return tape.bookings


def per_example_losses(loss: PerExampleLoss, outputs: Tensor, targets: Tensor) -> Tensor:
    losses = loss(outputs, targets)
    if losses.shape != targets.shape[:1]:
        raise SordinoError(
            f"The loss must return one value per example, shape {tuple(targets.shape[:1])}, "
            f"and returned shape {tuple(losses.shape)}; use reduction='none' and sum over all but the first dimension."
        )
    return losses


@contextmanager
def frozen(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """No parameter asks for its gradient inside, so that autograd computes none of the plain weight gradients."""
    asking = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in asking:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in asking:
            parameter.requires_grad_(True)


def _group_statistics(layer: nn.Module, output: Tensor) -> tuple[Tensor, Tensor] | None:
    """Mean and inverse standard deviation of every group, where the forward pass kept them."""
    if not isinstance(layer, nn.GroupNorm) or (node := output.grad_fn) is None:
        return None
    if hasattr(node, "statistics"):
        kept: tuple[Tensor, Tensor] = node.statistics
        return kept
    mean, inverse_std = (getattr(node, f"_saved_result{place}", None) for place in (1, 2))
    return None if mean is None or inverse_std is None else (mean.detach(), inverse_std.detach())
