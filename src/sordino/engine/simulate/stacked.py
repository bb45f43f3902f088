"""Many small dense models at once: every layer of all clients is one batched matrix product."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from sordino.data.examples import Examples
from sordino.engine.simulate.dense import trainable_layers
from sordino.gradients.losses import loss_per_example
from sordino.kernels.choice import CLIENTS, left_to_torch
from sordino.kernels.dense_clients import DenseClient, train_clients
from sordino.methods.context import ClientContext
from sordino.methods.local_sgd import LocalSgd
from sordino.models import Dropout, Net

BLOCK_NUMBERS = 1 << 25
"""Numbers copied from the clients at a time."""

_ELEMENTWISE: tuple[type[nn.Module], ...] = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.Identity)
_LAYERS: tuple[type[nn.Module], ...] = (nn.Linear, nn.Flatten, Dropout, *_ELEMENTWISE)
_CHAINS: tuple[type[nn.Module], ...] = (nn.Sequential, Net)


def dense_layers(net: Net) -> list[tuple[str, nn.Module]] | None:
    """The layers of a plain chain of dense layers, in order, or None where the model is anything else.

    Only torch's own layers and ours count, as they are: a subclass, a hook or a forward of its own may compute
    something else. A layer without parameters may stand in several places; one with parameters, or the parameters by themselves, in one.
    """
    everything = net.named_modules(remove_duplicate=False)
    layers = [(name, module) for name, module in everything if not list(module.children())]
    if len(list(net.named_parameters(remove_duplicate=False))) > len(list(net.parameters())):
        return None
    chain = all(type(module) in _CHAINS for module in net.modules() if list(module.children()))
    known = all(type(module) in _LAYERS and not getattr(module, "inplace", False) for _, module in layers)
    return layers if chain and known and not any(_changed(module) for module in net.modules()) else None


def _changed(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or "forward" in vars(module)


def run_stacked(
    job: LocalSgd, starts: Sequence[Tensor], clients: Sequence[Examples], contexts: Sequence[ClientContext]
) -> list[Tensor]:
    """The same work as `job.run` client by client, to the tolerance of float32 sums in another order."""
    kernel = not any(left_to_torch(layer, CLIENTS) for context in contexts[:1] for layer in context.net.modules())
    return stacked_by(kernel, job, starts, clients, contexts)


def stacked_by(
    kernel: bool,
    job: LocalSgd,
    starts: Sequence[Tensor],
    clients: Sequence[Examples],
    contexts: Sequence[ClientContext],
) -> list[Tensor]:
    """By the kernel for dense clients where it is wished and can do this work, and else by torch."""
    steps = [job.workload(len(own))[1] for own in clients]
    order = sorted((k for k, own in enumerate(clients) if len(own)), key=lambda k: -steps[k])
    active = _Active(
        starts=[starts[k] for k in order],
        clients=[clients[k] for k in order],
        contexts=[contexts[k] for k in order],
        orders=[list(job.orders(len(clients[k]), contexts[k].generator("batches"))) for k in order],
    )
    updates = dict(zip(order, active.updates(job, kernel), strict=True))
    return [updates[k] if k in updates else start.new_zeros(()).expand_as(start) for k, start in enumerate(starts)]


@dataclass(frozen=True, kw_only=True)
class _Active:
    """The clients that have rows, those with more steps first."""

    starts: list[Tensor]
    clients: list[Examples]
    contexts: list[ClientContext]
    orders: list[list[Tensor]]

    def updates(self, job: LocalSgd, kernel: bool) -> Sequence[Tensor]:
        if not self.clients:
            return []
        found = self.by_kernel(job) if kernel else None
        return list(self.by_torch(job) if found is None else found)

    def by_kernel(self, job: LocalSgd) -> Tensor | None:
        """One update a row, or None where the kernel for dense clients cannot do this work."""
        context = self.contexts[0]
        layers = trainable_layers(dense_layers(context.net) or [], context.space)
        if job.momentum or layers is None or context.device.type != "cpu":
            return None
        people = [
            DenseClient(start=start, features=own.features("cpu").flatten(1), labels=own.labels, orders=orders)
            for start, own, orders in zip(self.starts, self.clients, self.orders, strict=True)
        ]
        return train_clients(
            layers,
            people,
            batch_size=max(job.workload(len(own))[0] for own in self.clients),
            learning_rate=job.learning_rate,
            weight_decay=job.weight_decay,
        )

    def by_torch(self, job: LocalSgd) -> Tensor:
        """One update a row."""
        context = self.contexts[0]
        batches = [[rows for order in own for rows in job.batches(order)] for own in self.orders]
        feed = _Feed(self.clients, batches, context.device)
        flat = torch.stack(self.starts)
        views = context.space.views(flat)
        models = {name: view.clone(memory_format=torch.contiguous_format) for name, view in views.items()}
        chain = _Chain(context.net, models, [one.generator("dropout") for one in self.contexts])
        velocities = job.optimiser.velocities(list(models.values()))
        for rows in feed:
            chain.step(job, rows, velocities)
        for name, view in views.items():
            torch.sub(models[name], view, out=view)
        return flat


@dataclass(frozen=True)
class _Rows:
    """What the active clients learn from in one step; after a client's `used` rows comes padding of weight zero."""

    used: list[int]
    inputs: Tensor
    labels: Tensor
    weights: Tensor


class _Feed:
    """Every step's rows, copied from the clients a few steps at a time.

    Clients with more steps come first, so the active ones are a prefix.
    """

    def __init__(self, clients: Sequence[Examples], batches: list[list[Tensor]], device: torch.device) -> None:
        self._features = [own.features(device).flatten(1) for own in clients]
        self._used = [[len(rows) for rows in own] for own in batches]
        width = max(max(used) for used in self._used)
        self._index = [_square(own, width).to(device) for own in batches]
        pairs = list(zip(clients, self._index, strict=True))
        self._labels = pad_sequence([own.labels.to(device)[index] for own, index in pairs], batch_first=True)
        self._weights = _weights(self._used, width).to(device)
        shape = len(clients), width, self._features[0].shape[1]
        steps = min(len(batches[0]), max(1, BLOCK_NUMBERS // math.prod(shape)))
        self._block = self._features[0].new_empty(len(clients), steps, *shape[1:])

    def __iter__(self) -> Iterator[_Rows]:
        """Each step's rows in turn, good until the next is asked for."""
        block = self._block.shape[1]
        for step in range(len(self._index[0])):
            used = [own[step] for own in self._used if step < len(own)]
            active, place = len(used), step % block
            if place == 0:
                self._copy(active, step)
            inputs, labels, weights = (
                self._block[:active, place],
                self._labels[:active, step],
                self._weights[:active, step],
            )
            yield _Rows(used, inputs, labels, weights)

    def _copy(self, active: int, first: int) -> None:
        for features, index, block in zip(self._features[:active], self._index, self._block, strict=False):
            rows = index[first : first + len(block)].flatten()
            torch.index_select(features, 0, rows, out=block.flatten(0, 1)[: len(rows)])


def _square(batches: list[Tensor], width: int) -> Tensor:
    """One line of row numbers for each step, padded at the end."""
    square = pad_sequence(batches, batch_first=True)
    return pad(square, (0, width - square.shape[1]))


def _weights(used: list[list[int]], width: int) -> Tensor:
    """One over the number of rows for each row of each step of each client, and zero for padding."""
    counts = pad_sequence([torch.tensor(own) for own in used], batch_first=True).unsqueeze(2)
    return (torch.arange(width) < counts) / counts.clamp(min=1)


class _Chain:
    """The stacked layers. A weight's gradient is added to the weight by the product that makes it and never stored by itself."""

    def __init__(self, net: Net, models: Mapping[str, Tensor], dropout: Sequence[torch.Generator]) -> None:
        layers = dense_layers(net)
        assert layers is not None
        self._layers, self._models, self._dropout = layers, models, dropout
        self._frozen = {name: value.detach() for name, value in net.named_parameters() if name not in models}

    def step(self, job: LocalSgd, rows: _Rows, velocities: list[Tensor]) -> None:
        """One step of SGD for every client that has rows."""
        taps, logits = self._forward(rows)
        losses = loss_per_example(logits.flatten(0, 1), rows.labels.flatten())
        slopes = torch.autograd.grad(losses @ rows.weights.flatten(), [tap.outputs for tap in taps])
        if job.momentum:
            self._step_with_memory(job, taps, slopes, velocities)
        else:
            self._step_in_place(job, taps, slopes)

    def _step_in_place(self, job: LocalSgd, taps: Sequence[_Tap], slopes: Sequence[Tensor]) -> None:
        kept = 1 - job.learning_rate * job.weight_decay
        for tap, slope in zip(taps, slopes, strict=True):
            active = len(slope)
            if tap.weight in self._models:
                weight = self._models[tap.weight][:active]
                weight.baddbmm_(slope.transpose(1, 2).contiguous(), tap.inputs, beta=kept, alpha=-job.learning_rate)
            if tap.bias in self._models:
                bias = self._models[tap.bias][:active]
                bias.mul_(kept).sub_(slope.sum(1), alpha=job.learning_rate)

    def _step_with_memory(
        self, job: LocalSgd, taps: Sequence[_Tap], slopes: Sequence[Tensor], velocities: list[Tensor]
    ) -> None:
        active = len(slopes[0])
        gradients = {}
        for tap, slope in zip(taps, slopes, strict=True):
            gradients[tap.weight] = torch.bmm(slope.transpose(1, 2), tap.inputs)
            gradients[tap.bias] = slope.sum(1)
        job.optimiser.step(
            [model[:active] for model in self._models.values()],
            [gradients[name] for name in self._models],
            [velocity[:active] for velocity in velocities],
            job.learning_rate,
        )

    def _forward(self, rows: _Rows) -> tuple[list[_Tap], Tensor]:
        taps, hidden = [], rows.inputs
        for name, layer in self._layers:
            if isinstance(layer, nn.Linear):
                tap = _Tap(f"{name}.weight", f"{name}.bias", hidden.detach(), self._outputs(layer, name, hidden))
                if tap.weight in self._models or tap.bias in self._models:
                    taps.append(tap)
                    tap.outputs.requires_grad_()
                hidden = tap.outputs
            elif isinstance(layer, Dropout):
                masks = torch.zeros_like(hidden)
                for mask, used, draw in zip(masks, rows.used, self._dropout, strict=False):
                    mask[:used] = layer.mask(mask[:used].shape, draw)
                hidden = hidden * masks
            elif not isinstance(layer, nn.Flatten):
                hidden = layer(hidden)
        return taps, hidden

    def _outputs(self, layer: nn.Linear, name: str, hidden: Tensor) -> Tensor:
        weight = self._stacked(f"{name}.weight", len(hidden)).transpose(1, 2)
        if layer.bias is None:
            return torch.bmm(hidden, weight)
        return torch.baddbmm(self._stacked(f"{name}.bias", len(hidden)).unsqueeze(1), hidden, weight)

    def _stacked(self, name: str, count: int) -> Tensor:
        if name in self._models:
            return self._models[name][:count]
        return self._frozen[name].expand(count, *self._frozen[name].shape)


@dataclass(frozen=True)
class _Tap:
    """A dense layer with something to train: the names of its parameters, what went in and what came out."""

    weight: str
    bias: str
    inputs: Tensor
    outputs: Tensor
