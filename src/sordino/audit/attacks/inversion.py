"""Gradient inversion: images looked for whose gradient is the one that was seen.

| attack | looks for | by |
|---|---|---|
| `dlg` (arXiv:1906.08935) | images and labels | L-BFGS on the squared distance of gradients, in double precision |
| `idlg` (arXiv:2001.02610) | one image; its label is read off the sign of the last layer's gradient | the same |
| `cosine` (arXiv:2003.14053) | images; labels as guessed by `idlg` | Adam on signs of the cosine distance, and total variation |
| `analytic` | inputs of a first dense layer | its weights' gradient over its biases' |

All are attacks on one step on few rows (FedSGD). After many local steps they are not realistic.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from sordino.models import FlatSpace, Net

AttackName = Literal["dlg", "idlg", "cosine", "analytic"]
SMOOTHNESS = 1e-3
RESTARTS = 3
SMALLEST_SHARE = 1e-12
FIRST_SHARE, AT_ONCE, HISTORY = 2 / 3, 20, 500
"""Of L-BFGS: how much of its evaluations each start gets, after which the best goes on with what all have left; evaluations between
looks; steps that are remembered."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What an onlooker knows of one step: the model, the gradient as it was seen, how many rows it is the mean of."""

    net: Net
    space: FlatSpace
    model: Tensor
    gradient: Tensor
    rows: int
    shape: tuple[int, ...]
    classes: int


def gradient_of(net: Net, space: FlatSpace, model: Tensor, images: Tensor, labels: Tensor) -> Tensor:
    """The mean gradient over these rows, as one flat tensor that can itself be differentiated."""
    parameters = {name: view.clone().requires_grad_() for name, view in space.views(model).items()}
    logits = functional_call(net, parameters, (images,))
    loss = cross_entropy(logits, labels)
    found = torch.autograd.grad(loss, list(parameters.values()), create_graph=True)
    return torch.cat([part.flatten() for part in found])


def invert(seen: Seen, attack: AttackName, *, iterations: int, generator: torch.Generator) -> Tensor | None:
    """The images that this attack finds, one for each row; None where it does not apply to the model."""
    if attack == "analytic":
        return _analytic(seen)
    if attack == "idlg" and seen.rows > 1:
        return None
    if attack == "cosine":
        return min((_cosine(seen, iterations, generator) for _ in range(RESTARTS)), key=lambda found: found[1])[0]
    known = guessed_labels(seen) if attack == "idlg" else None
    searches = [_Search(*_double(seen, generator, known)) for _ in range(RESTARTS)]
    first = max(1, round(FIRST_SHARE * iterations))
    for search in searches:
        search.go_on(first)
    best = min(searches, key=lambda search: search.least)
    best.go_on(RESTARTS * (iterations - first))
    return best.best.float()


def _start(seen: Seen, generator: torch.Generator) -> Tensor:
    return torch.randn((seen.rows, *seen.shape), generator=generator)


def _double(seen: Seen, generator: torch.Generator, labels: Tensor | None) -> tuple[Seen, Tensor, Tensor, bool]:
    """What is seen and a start in double precision, without which the end of a search is lost in rounding; labels are sought if unknown."""
    images = _start(seen, generator).double().requires_grad_()
    sought = labels is None
    if labels is None:
        labels = torch.randn((seen.rows, seen.classes), generator=generator)
    finer = replace(
        seen, net=copy.deepcopy(seen.net).double(), model=seen.model.double(), gradient=seen.gradient.double()
    )
    return finer, images, labels.double().requires_grad_(sought), sought


@dataclass(eq=False)
class _Search:
    """L-BFGS on the squared distance of gradients from one start; it can go on where it stopped."""

    seen: Seen
    images: Tensor
    labels: Tensor
    labels_are_sought: bool
    best: Tensor = field(init=False)
    least: float = field(default=float("inf"), init=False)
    evaluations: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.best = self.images.detach().clone()
        self._sought = [self.images, *([self.labels] if self.labels_are_sought else [])]
        # A gradient's scale says nothing about the image; without this, small gradients end the search at once.
        self._scale = 1 / max(SMALLEST_SHARE, float(self.seen.gradient.square().sum()))
        self._optimiser = torch.optim.LBFGS(
            self._sought,
            max_iter=AT_ONCE,
            max_eval=AT_ONCE,
            history_size=HISTORY,
            tolerance_grad=0.0,
            tolerance_change=0.0,
            line_search_fn="strong_wolfe",
        )

    def go_on(self, evaluations: int) -> None:
        end = self.evaluations + evaluations
        while self.evaluations < end and bool(self.images.isfinite().all()):
            self._optimiser.step(self._distance)

    def _distance(self) -> Tensor:
        seen = self.seen
        labels = self.labels.softmax(1) if self.labels_are_sought else self.labels
        made = gradient_of(seen.net, seen.space, seen.model, self.images, labels)
        distance = self._scale * (made - seen.gradient).square().sum()
        for one, slope in zip(self._sought, torch.autograd.grad(distance, self._sought), strict=True):
            one.grad = slope
        self.evaluations += 1
        if float(distance.detach()) < self.least:
            self.best, self.least = self.images.detach().clone(), float(distance.detach())
        return distance.detach()


def _cosine(seen: Seen, iterations: int, generator: torch.Generator) -> tuple[Tensor, float]:
    images, labels = _start(seen, generator).requires_grad_(), guessed_labels(seen)
    optimiser = torch.optim.Adam([images], lr=0.1)
    schedule = torch.optim.lr_scheduler.MultiStepLR(
        optimiser, [int(share * iterations) for share in (0.4, 0.65, 0.9)], gamma=0.1
    )
    norm, distance = seen.gradient.norm(), float("inf")
    for _ in range(iterations):
        made = gradient_of(seen.net, seen.space, seen.model, images, labels)
        loss = 1 - (made @ seen.gradient) / (made.norm() * norm).clamp(min=SMALLEST_SHARE)
        images.grad = torch.autograd.grad(loss + SMOOTHNESS * total_variation(images), images)[0].sign()
        optimiser.step()
        schedule.step()
        distance = float(loss.detach())
    return images.detach(), distance


def total_variation(images: Tensor) -> Tensor:
    """How rough images are: mean difference of neighbouring pixels; nothing where rows are no images."""
    if images.ndim < 4:
        return images.new_zeros(())
    down, right = images[..., 1:, :] - images[..., :-1, :], images[..., 1:] - images[..., :-1]
    return down.abs().mean() + right.abs().mean()


def guessed_labels(seen: Seen) -> Tensor:
    """One-hot labels: a row pulls the last layer down for its own class alone, so the most negative entries are the labels."""
    last = _last_layer(seen)
    order = last.argsort()
    counts = [order[place % max(1, int((last < 0).sum()))] for place in range(seen.rows)]
    return torch.nn.functional.one_hot(torch.stack(counts), seen.classes).float()


def _last_layer(seen: Seen) -> Tensor:
    """For each class, how its part of the last layer moves: the bias, or the weights added up."""
    views = seen.space.views(seen.gradient)
    for view in reversed(list(views.values())):
        if view.shape[0] == seen.classes:
            return view if view.ndim == 1 else view.flatten(1).sum(1)
    raise ValueError(f"none of {list(views)} has an entry for each class")


def _analytic(seen: Seen) -> Tensor | None:
    """Each unit of a first dense layer has gradient δ·x for its weights and δ for its bias: their ratio is x.

    Of several rows the units mix; those with the largest ratios of length are taken as guesses for one row each. Where noise
    lies on both, the ratio is taken over all units by least squares for a single row.
    """
    first = next(
        (module for module in seen.net.modules() if not list(module.children()) and _has_weights(module)), None
    )
    if not isinstance(first, nn.Linear) or first.bias is None or seen.rows < 1:
        return None
    names = {id(parameter): name for name, parameter in seen.net.named_parameters()}
    views = seen.space.views(seen.gradient)
    weight, bias = views.get(names[id(first.weight)]), views.get(names[id(first.bias)])
    if weight is None or bias is None:
        return None
    if seen.rows == 1:
        found = (bias @ weight / bias.square().sum().clamp(min=SMALLEST_SHARE))[None]
    else:
        loudest = bias.abs().argsort(descending=True)
        found = _different(
            weight[loudest] / bias[loudest, None].where(bias[loudest, None] != 0, torch.ones(1)), seen.rows
        )
    return found.view(seen.rows, *seen.shape)


def _has_weights(module: nn.Module) -> bool:
    return any(True for _ in module.parameters(recurse=False))


def _different(rows: Tensor, count: int) -> Tensor:
    """Of many guesses, loudest first, those that differ most from one another."""
    chosen = [0]
    while len(chosen) < min(count, len(rows)):
        distances = torch.cdist(rows, rows[chosen]).amin(1)
        distances[chosen] = -1.0
        chosen.append(int(distances[: 4 * count].argmax()))
    picked = rows[chosen]
    return torch.cat([picked, picked[:1].expand(count - len(picked), -1)]) if len(picked) < count else picked
