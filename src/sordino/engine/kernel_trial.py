"""What a run leaves to torch: every kind of layer of its model is tried by our kernels and by torch, once on each kind of processor.

A trial depends on the model's shapes alone and never on a run's batches, so runs of one model on one machine agree.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from functools import partial
from hashlib import sha256

import torch
from torch import Tensor, nn

from sordino.data.examples import IDENTITY, Examples
from sordino.engine.simulate.stacked import dense_layers, stacked_by
from sordino.engine.trials import Trial, gain, settled
from sordino.gradients import ClippedGradients
from sordino.gradients.layers import Booking, Capture, Request
from sordino.gradients.layers.conv import book_by_kernel, book_by_torch
from sordino.kernels import conv3x3, fastest
from sordino.kernels.choice import CLIENTS, FORWARD, LAYERS, ROWS, SUMS, Left, leave_to_torch
from sordino.kernels.convolution import geometry_of, gradients_by_torch, takes, weight_sum
from sordino.kernels.native import by_trial
from sordino.methods.context import ClientContext
from sordino.methods.local_sgd import LocalSgd
from sordino.models import FlatSpace, Net
from sordino.sentences import first_line

ROWS_TRIED, CLIENTS_TRIED, STEPS_TRIED = 16, 8, 2
SECONDS_OF_STEPS = 3.0
"""How long whole steps are tried: they decide for all layers, and three of a large model lie a tenth apart by chance."""


def left_to_torch_here(net: Net, shape: Sequence[int], *, private_examples: bool, device: torch.device) -> Left:
    """What torch does faster on this machine, for a model that takes inputs of this shape and steps of one kind.

    Kernels work on the processor alone, so nothing is tried for another device. Nothing of a trial is left behind: the shared
    generator goes on as if there had been none, and a model that does not bear made-up rows is run with kernels where they suit.
    """
    if not by_trial() or device.type != "cpu":
        return {}
    with (
        torch.random.fork_rng(devices=[]),
        ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,)) as one_core,
    ):
        try:
            return one_core.submit(_left, net, shape, private_examples).result()
        except Exception as error:  # a model of the user's own may raise anything
            warnings.warn(
                f"Which of kernels and torch is faster could not be tried, so kernels are used; a trial on made-up rows ended with: "
                f"{first_line(error)}",
                stacklevel=2,
            )
            return {}


def _left(net: Net, shape: Sequence[int], private: bool) -> Left:
    if (layers := dense_layers(net)) is not None:
        sizes = [(one.in_features, one.out_features) for _, one in layers if isinstance(one, nn.Linear)]
        trials = {f"clients of dense layers {sizes}": (CLIENTS, partial(_clients, net, sizes[0][0]))}
        if private:
            trials[f"private step of dense layers {sizes}"] = (ROWS, partial(_private_dense, net, sizes[0][0]))
        faster = settled({name: trial for name, (_, trial) in trials.items()})
        slower = [work for name, (work, _) in trials.items() if not faster[name]]
        return {"": slower} if slower else {}
    if len(shape) != 3 or not any(type(module) is nn.Conv2d for module in net.modules()):
        return {}
    net = copy.deepcopy(net).eval()
    left = _left_of_layers(net, shape, private)
    leave_to_torch(net, left)
    if not any(type(module) is nn.GroupNorm for module in net.modules()):
        return left
    kind = "private step" if private else "step"
    structure = sha256(f"{net!r} {tuple(shape)} {left}".encode()).hexdigest()[:16]
    name = f"{kind} of {type(net).__name__} {structure}"
    return left if settled({name: partial(_steps, net, shape, private)})[name] else {**left, "": [LAYERS]}


@dataclass(frozen=True)
class _Call:
    """A convolution as a model calls it."""

    channels: int
    outputs: int
    kernel: tuple[int, ...]
    stride: int
    padding: int
    sides: tuple[int, ...]

    def __str__(self) -> str:
        return " ".join(map(str, astuple(self)))

    def layer(self) -> nn.Conv2d:
        kernel = self.kernel[0], self.kernel[1]
        layer = nn.Conv2d(self.channels, self.outputs, kernel, self.stride, self.padding, bias=False)
        return layer.to(memory_format=torch.channels_last).requires_grad_(False)  # type: ignore[call-overload, no-any-return]

    def blank(self) -> tuple[Tensor, Tensor]:
        """Images and gradients that nothing has been written to: for their shapes alone."""
        made = [
            (side + 2 * self.padding - kernel) // self.stride + 1
            for side, kernel in zip(self.sides, self.kernel, strict=True)
        ]
        shapes = ((self.channels, *self.sides), (self.outputs, *made))
        images, grads = (torch.empty(ROWS_TRIED, *shape, memory_format=torch.channels_last) for shape in shapes)
        return images, grads

    def tensors(self) -> tuple[nn.Conv2d, Tensor, Tensor]:
        """A layer of this kind, made-up images and made-up gradients of what it makes of them."""
        images, grads = self.blank()
        return self.layer(), images.normal_(), grads.normal_()


def _left_of_layers(net: nn.Module, shape: Sequence[int], private: bool) -> dict[str, list[str]]:
    calls = _calls(net, shape)
    trials = {f"{work} {call}": trial for call in calls.values() for work, trial in _trials(call, private).items()}
    faster = settled(trials)
    left = {
        name: [work for work in (FORWARD, SUMS, ROWS) if not faster.get(f"{work} {call}", True)]
        for name, call in calls.items()
    }
    return {name: works for name, works in left.items() if works}


def _calls(net: nn.Module, shape: Sequence[int]) -> dict[str, _Call]:
    found: dict[str, _Call] = {}

    def seen(name: str, layer: nn.Conv2d, args: tuple[Tensor, ...], _: Tensor) -> None:
        stride, padding = layer.stride[0], layer.padding[0]
        if isinstance(padding, int):
            sides = tuple(args[0].shape[2:])
            found[name] = _Call(layer.in_channels, layer.out_channels, layer.kernel_size, stride, padding, sides)

    hooks = [
        layer.register_forward_hook(partial(seen, name))
        for name, layer in net.named_modules()
        if type(layer) is nn.Conv2d and layer.groups == 1
    ]
    with torch.no_grad():
        net(torch.randn(1, *shape))
    for hook in hooks:
        hook.remove()
    return found


def _trials(call: _Call, private: bool) -> dict[str, Trial]:
    """The kinds of work that a kernel could do in such a layer."""
    layer, (images, grads) = call.layer(), call.blank()
    known = takes(layer, images, grads)
    trials: dict[str, Trial] = {}
    if conv3x3.suits(layer.weight, images, stride=call.stride, padding=call.padding):
        trials[FORWARD] = partial(_forward, call)
    if known and private:
        trials[ROWS] = partial(_rows, call)
    elif known:
        trials[SUMS] = partial(_sums, call)
    return trials


def _forward(call: _Call) -> float:
    layer, images, grads = call.tensors()
    geometry = geometry_of(layer)

    def ours() -> None:
        conv3x3.convolved(images, layer.weight, None)
        conv3x3.passed_back(grads, layer.weight)

    def torchs() -> None:
        layer(images)
        gradients_by_torch(grads, images, layer.weight, geometry, [True, False, False])

    return gain(ours, torchs)


def _sums(call: _Call) -> float:
    layer, images, grads = call.tensors()
    geometry = geometry_of(layer)
    return gain(
        lambda: weight_sum(images, grads, geometry),
        lambda: gradients_by_torch(grads, images, layer.weight, geometry, [False, True, False]),
    )


def _rows(call: _Call) -> float:
    layer, images, grads = call.tensors()
    factors, into = torch.ones(ROWS_TRIED), torch.zeros_like(layer.weight, memory_format=torch.contiguous_format)
    request = Request(wanted=frozenset({"weight"}), norm="l2")

    def by(book: Callable[[Capture, Tensor, Request], Booking]) -> None:
        book(Capture(layer, images, images._version), grads, request).add_weighted(factors, into)

    return gain(partial(by, book_by_kernel), partial(by, book_by_torch))


def _steps(net: Net, shape: Sequence[int], private: bool) -> float:
    """Whole steps of the model: its layout is one for all layers, so what the layers gain has to outweigh what that costs."""
    images, alone = torch.randn(ROWS_TRIED, *shape), copy.deepcopy(net)
    leave_to_torch(alone, {"": [LAYERS]})

    def step(model: Net) -> Callable[[], object]:
        model.requires_grad_(True)
        if private:
            gradients = ClippedGradients(model, loss=lambda outputs, _: outputs.flatten(1).square().sum(1))
            return lambda: gradients.sum(images, images.new_zeros(len(images)), clip_norm=1.0)
        parameters = list(model.parameters())
        return lambda: torch.autograd.grad(model(images).square().mean(), parameters, allow_unused=True)

    return gain(step(fastest(copy.deepcopy(net))), step(fastest(alone)), seconds=SECONDS_OF_STEPS)


def _private_dense(net: Net, width: int) -> float:
    """Clipped sums of a batch; nothing is gained where the kernel does not know the model."""
    net = copy.deepcopy(net).requires_grad_(True)
    alone, rows = copy.deepcopy(net), torch.rand(STEPS_TRIED * ROWS_TRIED, width)
    leave_to_torch(alone, {"": [ROWS]})
    by_kernel, by_torch = ClippedGradients(net), ClippedGradients(alone)
    labels = torch.zeros(len(rows), dtype=torch.int64)
    return gain(
        lambda: by_kernel.sum(rows, labels, clip_norm=1.0),
        lambda: by_torch.sum(rows, labels, clip_norm=1.0),
    )


def _clients(net: Net, width: int) -> float:
    rows = STEPS_TRIED * ROWS_TRIED
    own = Examples(inputs=torch.rand(rows, width), labels=torch.zeros(rows, dtype=torch.int64), normalisation=IDENTITY)
    net = copy.deepcopy(net)
    space = FlatSpace(net)
    start, job = space.read(net), LocalSgd(batch_size=ROWS_TRIED, learning_rate=0.01)
    contexts = [
        ClientContext(net=net, space=space, client=k, round=0, size=rows, seed=0, device=torch.device("cpu"))
        for k in range(CLIENTS_TRIED)
    ]
    ways = [
        partial(stacked_by, way, job, [start] * CLIENTS_TRIED, [own] * CLIENTS_TRIED, contexts) for way in (True, False)
    ]
    return gain(*ways)
