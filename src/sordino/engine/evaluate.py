"""How good a model is on given examples. What is found is public where they are, and as private as they are elsewhere."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from sordino.data.examples import Examples
from sordino.data.target import Target
from sordino.engine.class_scores import class_scores
from sordino.engine.number_scores import closeness, number_scores
from sordino.engine.rows_at_once import rows_at_once
from sordino.kernels import fastest
from sordino.models import Net


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The share of examples whose most likely class is the right one, and how well classes are told apart.

    Of a number, accuracy is one less the mean absolute error as a share of its public range.
    """

    accuracy: float
    auroc: float | None
    """None where the examples are all of one class, or of numbers."""
    others: Mapping[str, Any]
    """What else there is to tell of public rows, by name: see engine/class_scores.py and engine/number_scores.py."""


def evaluate(net: Net, examples: Examples, device: torch.device, target: Target | None = None) -> Scores:
    """How good a model is; `target` says what is learnt where it is a number."""
    return evaluate_as_it_is(fast_copy(net), examples, device, target)


def evaluate_as_it_is(net: Net, examples: Examples, device: torch.device, target: Target | None = None) -> Scores:
    """The same with a model that is not copied first, because it is a fast copy already."""
    found = outputs(net, examples, device)
    if target is not None:
        return Scores(
            accuracy=_share_right(found, examples.labels),
            auroc=None,
            others=number_scores(found, examples.labels, target),
        )
    return Scores(
        accuracy=_share_right(found, examples.labels),
        auroc=macro_auroc(found.double().softmax(1), examples.labels),
        others=class_scores(found, examples.labels),
    )


def accuracy(net: Net, examples: Examples, device: torch.device) -> float:
    """The share of examples whose most likely class is the right one."""
    return accuracy_as_it_is(fast_copy(net), examples, device)


def accuracy_as_it_is(net: Net, examples: Examples, device: torch.device) -> float:
    """The same with a model that is not copied first."""
    return _share_right(outputs(net, examples, device), examples.labels)


def correct(net: Net, examples: Examples, device: torch.device) -> Tensor:
    """For each example, 1 if its most likely class is the right one and else 0; of a number, how close it comes."""
    return correct_as_it_is(fast_copy(net), examples, device)


def correct_as_it_is(net: Net, examples: Examples, device: torch.device) -> Tensor:
    """The same with a model that is not copied first: a worker's own, which is fast already."""
    return _right(outputs(net, examples, device), examples.labels)


def logits(net: Net, examples: Examples, device: torch.device) -> Tensor:
    """What the model makes of each example, with a fast copy of it."""
    return outputs(fast_copy(net), examples, device)


def fast_copy(net: Net) -> Net:
    """The same model in the form that this machine runs fastest. Making it takes longer than many an evaluation: keep it."""
    return fastest(copy.deepcopy(net))


def outputs(net: Net, examples: Examples, device: torch.device) -> Tensor:
    """What the model makes of each example, as it is."""
    trained = net.training
    net.eval()
    many = rows_at_once(net, examples, device)
    with torch.inference_mode():
        chunks = [net(examples.take(rows).features(device)).cpu() for rows in torch.arange(len(examples)).split(many)]
    net.train(trained)
    return torch.cat(chunks)


def _right(found: Tensor, labels: Tensor) -> Tensor:
    return closeness(found, labels) if labels.is_floating_point() else (found.argmax(1) == labels).double()


def _share_right(found: Tensor, labels: Tensor) -> float:
    return float(_right(found, labels).sum()) / len(labels)


def macro_auroc(scores: Tensor, labels: Tensor) -> float | None:
    """The mean over classes of the chance that one of the class gets a higher score for it than one of the others does.

    Ties count half. Classes without examples, or with nothing else, are left out.
    """
    by_class = torch.nan_to_num(scores).t().contiguous()
    ordered = by_class.sort(dim=1).values
    below = torch.searchsorted(ordered, by_class)
    not_above = torch.searchsorted(ordered, by_class, right=True)
    ranks = (below + not_above + 1) / 2
    areas = []
    for number, rank in enumerate(ranks):
        own = labels == number
        positives, others = int(own.sum()), int((~own).sum())
        if positives and others:
            areas.append(float(rank[own].sum() - positives * (positives + 1) / 2) / (positives * others))
    return sum(areas) / len(areas) if areas else None


def accuracy_epsilon_area(metrics: Sequence[Mapping[str, Any]]) -> float | None:
    """The area under accuracy over ε, between the first evaluation and the last; None where ε is infinite."""
    points = [(float(row["epsilon"]), float(row["accuracy"])) for row in metrics]
    if not points or not all(isfinite(epsilon) for epsilon, _ in points):
        return None
    return sum((right[0] - left[0]) * (left[1] + right[1]) / 2 for left, right in pairwise(points))
