"""After which rounds a model is evaluated where nobody says so: seldom enough to cost no more than a quarter of the training.

Decided by counts of rows and multiplications, never by a clock: the same file is evaluated in the same rounds everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from sordino.engine.client_test_rows import rows_per_client
from sordino.engine.features import frozen_body
from sordino.engine.resolved import Resolved
from sordino.experiment import EvaluationRounds
from sordino.models import Net
from sordino.tuning import Phase

SHARE = 4
"""Evaluation costs at most one of so many parts of what the training costs."""
BACKWARD = 3
"""A row that is trained on costs so many times one that is evaluated: forward, and twice as much back."""
CHEAP = 10**12
"""Multiplications of all evaluations that nobody waits long for: below, nothing is changed."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """What a run has to multiply, by counts that are public and the same on every machine."""

    resolved: Resolved
    net: Net
    phase: Phase
    """The last one, in which most is trained."""
    shape: tuple[int, ...]
    tokens: bool
    sizes: Sequence[int]
    """Rows that each client trains on."""
    cohort: float
    """How many clients a round draws, on average."""
    test_rows: int

    @property
    def trained(self) -> float:
        """What a round of training costs, in rows that are evaluated."""
        turns = [batch * steps for batch, steps in map(self.resolved.method.job.workload, self.sizes)]
        return max(1.0, BACKWARD * self.cohort * sum(turns) / len(turns))

    @property
    def tested(self) -> int:
        """Rows that pass through models in one evaluation: public ones, and those of figures of single clients."""
        experiment, method = self.resolved.experiment, self.resolved.method
        own = sum(self.sizes) if method.personalised or experiment.engine.training_loss else 0
        each = rows_per_client(experiment, method)
        matched = each * len(self.sizes) if method.personalised else self.test_rows * bool(each)
        return self.test_rows + own + matched

    @cached_property
    def each_row(self) -> int:
        """Multiplications of a row on its way through what is trained: the model, or its head on cached features."""
        return multiplications(self.net, self.phase, shape=self.shape, tokens=self.tokens)

    @property
    def whole(self) -> float:
        """Multiplications of the run: a measure of how long it takes beside others of a sweep, not of seconds."""
        return self.each_row * (self.resolved.experiment.rounds * self.trained + len(self.evaluations) * self.tested)

    @cached_property
    def evaluations(self) -> EvaluationRounds:
        """The rounds after which the model is evaluated: as ever where somebody asked, or where it is charged or cheap."""
        experiment = self.resolved.experiment
        usual = experiment.evaluation_rounds
        if experiment.engine.evaluate_every or experiment.data.evaluation_is_charged:
            return usual
        every = min(usual.rounds, math.ceil(SHARE * self.tested / self.trained))
        if every <= usual.every or len(usual) * self.tested * self.each_row <= CHEAP:
            return usual
        return EvaluationRounds(rounds=usual.rounds, every=every)

    @property
    def fact(self) -> str:
        """What is to be said where evaluation is rarer than usual; nothing where it is not."""
        usual, chosen = self.resolved.experiment.evaluation_rounds, self.evaluations
        if chosen == usual:
            return ""
        return (
            f"after every {chosen.every} rounds in place of {usual.every}, because it would cost more than a quarter of the training; "
            "set [engine] evaluate_every for another pace"
        )


def multiplications(net: Net, phase: Phase, *, shape: tuple[int, ...], tokens: bool) -> int:
    """Of one row on its way through the model; where only the head is trained, through the head alone."""
    found: dict[nn.Module, int] = {}

    def count(module: nn.Module, _: object, result: Tensor | tuple[Tensor, ...]) -> None:
        made = result[0] if isinstance(result, tuple) else result
        weights = sum(one.numel() for one in module.parameters(recurse=False))
        found[module] = found.get(module, 0) + weights * _positions(module, made)

    inside = net.head if frozen_body(net, phase.trainable) else net
    counted = [one for one in inside.modules() if not isinstance(one, nn.Embedding)]
    hooks = [one.register_forward_hook(count) for one in counted if list(one.parameters(recurse=False))]
    device = next(net.parameters()).device
    row = torch.zeros(1, *shape, dtype=torch.int64 if tokens else torch.float32, device=device)
    was_training = net.training
    net.eval()
    try:
        with torch.inference_mode():
            net(row)
    finally:
        net.train(was_training)
        for hook in hooks:
            hook.remove()
    return sum(found.values())


def _positions(module: nn.Module, made: Tensor) -> int:
    """How often a module's weights are used to make this: once a pixel, a word, or a row."""
    channels = made.shape[1] if isinstance(module, nn.modules.conv._ConvNd) else made.shape[-1]
    return max(1, made.numel() // channels) if made.ndim > 1 else 1
