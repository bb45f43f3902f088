"""Many small dense models at once: every layer of all clients is one batched matrix product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from sordino.data.examples import Examples
from sordino.methods.local_sgd import LocalSgd
from sordino.methods.method import ClientContext
from sordino.models import Dropout, FlatSpace, Net

_ELEMENTWISE: tuple[type[nn.Module], ...] = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.Identity)


def dense_layers(net: Net) -> list[tuple[str, nn.Module]] | None:
    """The layers of a plain chain of dense layers, in order, or None where the model is anything else."""
    layers = [(name, module) for name, module in net.named_modules() if not list(module.children())]
    chain = all(isinstance(module, nn.Sequential | Net) for module in net.modules() if list(module.children()))
    known = all(isinstance(module, (nn.Linear, nn.Flatten, Dropout, *_ELEMENTWISE)) for _, module in layers)
    return layers if chain and known else None


@dataclass(frozen=True)
class _Rows:
    """Which rows each client uses in each step; clients with more steps come first, so the active ones are a prefix."""

    index: Tensor
    weight: Tensor
    steps: list[int]


def run_stacked(
    job: LocalSgd, starts: Sequence[Tensor], clients: Sequence[Examples], contexts: Sequence[ClientContext]
) -> list[Tensor]:
    """The same work as `job.run` client by client, to the tolerance of float32 sums in another order."""
    context = contexts[0]
    batches = [list(job.batches(len(own), c.generator("batches"))) for own, c in zip(clients, contexts, strict=True)]
    order = sorted(range(len(clients)), key=lambda k: -len(batches[k]))
    rows = _rows([batches[k] for k in order], [len(clients[k]) for k in order])
    features = torch.cat([clients[k].features(context.device) for k in order]).flatten(1)
    labels = torch.cat([clients[k].labels for k in order]).to(context.device)
    dropout = [contexts[k].generator("dropout") for k in order]
    flat = torch.stack([starts[k] for k in order])
    views = context.space.views(flat)
    models = {name: view.clone(memory_format=torch.contiguous_format) for name, view in views.items()}
    _train(job, models, features, labels, rows, _forward(context.net, context.space, dropout))
    for name, view in views.items():
        torch.sub(models[name], view, out=view)
    places = {k: place for place, k in enumerate(order)}
    return [flat[places[k]] for k in range(len(clients))]


def _rows(batches: list[list[Tensor]], sizes: list[int]) -> _Rows:
    offsets = torch.tensor([0, *sizes]).cumsum(0)
    flat = [
        pad_sequence(own, batch_first=True, padding_value=-1) + offset
        for own, offset in zip(batches, offsets.tolist(), strict=False)
    ]
    weights = [pad_sequence([torch.ones(len(b)) / len(b) for b in own], batch_first=True) for own in batches]
    width = max(w.shape[1] for w in weights)
    index = pad_sequence([nn.functional.pad(f, (0, width - f.shape[1])) for f in flat], batch_first=True)
    weight = pad_sequence([nn.functional.pad(w, (0, width - w.shape[1])) for w in weights], batch_first=True)
    return _Rows(
        torch.where(weight > 0, index, 0).transpose(0, 1), weight.transpose(0, 1), [len(own) for own in batches]
    )


def _train(
    job: LocalSgd,
    models: dict[str, Tensor],
    features: Tensor,
    labels: Tensor,
    rows: _Rows,
    forward: Callable[[dict[str, Tensor], Tensor], Tensor],
) -> None:
    optimiser = job.optimiser
    velocities = optimiser.velocities(list(models.values()))
    active, parameters, moving = 0, models, velocities
    for step in range(rows.steps[0]):
        now = sum(steps > step for steps in rows.steps)
        if now != active:
            active = now
            parameters = {name: model[:active].requires_grad_() for name, model in models.items()}
            moving = [velocity[:active] for velocity in velocities]
        index = rows.index[step, :active].to(features.device)
        logits = forward(parameters, features[index])
        losses = cross_entropy(logits.flatten(0, 1), labels[index].flatten(), reduction="none")
        loss = losses @ rows.weight[step, :active].flatten().to(losses)
        leaves = list(parameters.values())
        optimiser.step(leaves, list(torch.autograd.grad(loss, leaves)), moving, job.learning_rate)


def _forward(
    net: Net, space: FlatSpace, dropout: list[torch.Generator]
) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
    layers = dense_layers(net)
    assert layers is not None
    frozen = {name: parameter.detach() for name, parameter in net.named_parameters() if name not in set(space.names)}

    def parameter(stacked: dict[str, Tensor], name: str, count: int) -> Tensor:
        return stacked[name] if name in stacked else frozen[name].expand(count, *frozen[name].shape)

    def forward(stacked: dict[str, Tensor], hidden: Tensor) -> Tensor:
        count = len(hidden)
        for name, layer in layers:
            if isinstance(layer, nn.Linear):
                weight = parameter(stacked, f"{name}.weight", count).transpose(1, 2)
                if layer.bias is None:
                    hidden = torch.bmm(hidden, weight)
                else:
                    hidden = torch.baddbmm(parameter(stacked, f"{name}.bias", count).unsqueeze(1), hidden, weight)
            elif isinstance(layer, Dropout):
                hidden = hidden * torch.stack(
                    [layer.mask(one.shape, generator) for one, generator in zip(hidden, dropout, strict=False)]
                ).to(hidden)
            elif not isinstance(layer, nn.Flatten):
                hidden = layer(hidden)
        return hidden

    return forward
