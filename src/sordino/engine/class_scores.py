"""What people ask of a classifier besides accuracy: loss, F1, balanced accuracy, average precision, calibration, confusion.

All of them are figures of public rows. On rows that stay private they are never computed: only a charged accuracy is told.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

CALIBRATION_BINS = 15
MOST_CONFUSED = 20
"""Up to so many classes, a row of metrics holds the confusion matrix."""
NAMES = ("loss", "f1", "balanced_accuracy", "auprc", "calibration_error", "confusion")
"""The figures by their names in metrics and summaries."""


def class_scores(logits: Tensor, labels: Tensor) -> dict[str, Any]:
    """The figures for these logits (N x classes) and class numbers (N); None where one has no meaning.

    `loss` is the mean cross-entropy in nats. `f1` and `balanced_accuracy` are means over classes, the second of recalls.
    `auprc` is the average precision: of the second class where there are two, else the mean over classes.
    `calibration_error` is the expected gap between confidence and accuracy. `confusion[i][j]` counts rows of class i called j.
    """
    probabilities = torch.nan_to_num(logits.double().softmax(1))
    counts = confusion(logits.argmax(1), labels, classes=logits.shape[1])
    return {
        "loss": _finite(float(cross_entropy(logits.double(), labels))),
        "f1": macro_f1(counts),
        "balanced_accuracy": balanced_accuracy(counts),
        "auprc": average_precision(probabilities, labels),
        "calibration_error": calibration_error(probabilities, labels),
        **({"confusion": counts.tolist()} if len(counts) <= MOST_CONFUSED else {}),
    }


def confusion(called: Tensor, labels: Tensor, *, classes: int) -> Tensor:
    """How many rows of each class (first index) were called what (second)."""
    return torch.bincount(labels * classes + called, minlength=classes * classes).view(classes, classes)


def macro_f1(counts: Tensor) -> float:
    """The mean of 2·right / (rows of the class + rows called so), over classes that are either."""
    whole = (counts.sum(0) + counts.sum(1)).double()
    return float((2 * counts.diag()[whole > 0] / whole[whole > 0]).mean())


def balanced_accuracy(counts: Tensor) -> float:
    """The mean share of a class's rows that were called right, over classes that have rows."""
    rows = counts.sum(1).double()
    return float((counts.diag()[rows > 0] / rows[rows > 0]).mean())


def average_precision(probabilities: Tensor, labels: Tensor) -> float | None:
    """The area under precision over recall in steps; ties are one step. Classes without rows are left out."""
    classes = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    found = [_precision_area(probabilities[:, one], labels == one) for one in classes if (labels == one).any()]
    return sum(found) / len(found) if found else None


def _precision_area(scores: Tensor, positive: Tensor) -> float:
    ordered, order = scores.sort(descending=True)
    last_of_ties = torch.cat([ordered[1:] != ordered[:-1], torch.ones(1, dtype=torch.bool)])
    right = positive[order].cumsum(0)[last_of_ties].double()
    called = (torch.arange(len(scores)) + 1)[last_of_ties]
    steps = torch.diff(right, prepend=torch.zeros(1, dtype=torch.double))
    return float((steps * right / called).sum() / positive.sum())


def calibration_error(probabilities: Tensor, labels: Tensor) -> float:
    """The mean over rows of |accuracy − confidence| of the row's bin, in equal bins of the highest probability."""
    confidence, called = probabilities.max(1)
    bins = (confidence * CALIBRATION_BINS).ceil().long().clamp(1, CALIBRATION_BINS) - 1
    gaps = torch.zeros(CALIBRATION_BINS, dtype=torch.double)
    gaps.index_add_(0, bins, (called == labels).double() - confidence)
    return float(gaps.abs().sum() / len(labels))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
