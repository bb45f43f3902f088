"""A training loop of one's own made private: Poisson batches, clipped gradients, noise, and an ε that counts every step."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, default_collate

from sordino.core import SordinoError
from sordino.gradients import ClippedGradients, cross_entropy_per_example
from sordino.library.accountant import Accountant, gaussian_step, noise_multiplier
from sordino.privacy.noise import NoiseSource, SecureNoise, SeededNoise
from sordino.privacy.samplers import poisson_batch
from sordino.privacy.streams import stream_id
from sordino.sentences import shown, with_article

Loss = Callable[[Tensor, Tensor], Tensor]


def make_private(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: DataLoader[Any] | Dataset[Any],
    *,
    epsilon: float | None = None,
    noise: float | None = None,
    delta: float = 1e-5,
    epochs: int = 1,
    batch_size: int | None = None,
    clip_norm: float = 1.0,
    loss: Loss = cross_entropy_per_example,
    physical_batch: int | None = None,
    seed: int | None = None,
) -> PrivateLoop:
    """A private form of a loop over `data` that trains `model` by `optimizer`.

    >>> private = sordino.make_private(model, optimizer, loader, epsilon=3.0, delta=1e-5, epochs=10)
    >>> for epoch in range(10):
    ...     for inputs, targets in private:
    ...         private.step(inputs, targets)
    >>> private.epsilon

    Args:
        model: trained where `requires_grad`; batch norm in training mode is refused, because it mixes examples.
        optimizer: any of torch.optim over the model's parameters.
        data: a torch Dataset of (input, target), or a DataLoader, whose data set, batch size and collation are used.
        epsilon: the target for `epochs` passes; the loop refuses to go beyond it. Or give
        noise: the deviation of the noise over `clip_norm`, and read `epsilon` afterwards.
        delta: of the promise, below one over the number of examples.
        epochs: passes over the data that ε is to cover.
        batch_size: examples in a batch, on average; taken from a DataLoader.
        clip_norm: the largest norm of one example's gradient.
        loss: of outputs and targets, one number for each example; cross-entropy where none is given.
        physical_batch: examples whose gradients are in memory at once; changes no result, where a whole batch does not fit.
        seed: makes batches and noise repeatable, for tests alone: whoever knows it can take the noise away.

    Formal guarantee: under zero-out neighbours, every step releases the sum of a fresh Poisson batch's clipped gradients with
    normal noise of `noise` times `clip_norm`, and `epsilon` prices all steps so far. The loss of a batch is not protected.
    """
    if (epsilon is None) == (noise is None):
        raise SordinoError("make_private needs epsilon (the target) or noise, but got both or neither; give one.")
    _check("epsilon", 1.0 if epsilon is None else epsilon, "a number above 0", lambda one: one > 0)
    _check("noise", noise or 0.0, "a number from 0 on", lambda one: one >= 0)
    _check("delta", delta, "a number from 0 on and below 1", lambda one: 0 <= one < 1)
    _check("epochs", epochs, "a whole number from 1 on", lambda one: one >= 1, kind=int)
    _check("clip_norm", clip_norm, "a number above 0, of which a usual one is 1", lambda one: one > 0)
    _check("physical_batch", physical_batch or 1, "a whole number from 1 on", lambda one: one >= 1, kind=int)
    return PrivateLoop(
        model,
        optimizer,
        data,
        target=epsilon,
        noise=noise,
        delta=delta,
        epochs=epochs,
        batch_size=batch_size,
        clip_norm=clip_norm,
        loss=loss,
        physical_batch=physical_batch,
        source=SecureNoise() if seed is None else SeededNoise(seed),
    )


class PrivateLoop:
    """What `make_private` returns: iterate for the batches of one epoch, and give each to `step`."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        data: DataLoader[Any] | Dataset[Any],
        *,
        target: float | None,
        noise: float | None,
        delta: float,
        epochs: int,
        batch_size: int | None,
        clip_norm: float,
        loss: Loss,
        physical_batch: int | None,
        source: NoiseSource,
    ) -> None:
        self._rows, self._collate, batch = _taken_apart(data, batch_size)
        self._optimizer, self._source, self._delta, self._clip = optimizer, source, delta, clip_norm
        self._at_once = physical_batch
        if delta * len(self._rows) >= 1:
            warnings.warn(
                f"δ = {delta:g} is not below 1/{len(self._rows)}, one over the number of examples, so ε promises little; lower delta.",
                stacklevel=3,
            )
        self.rate = min(1.0, batch / len(self._rows))
        """The chance that an example is in a batch."""
        self.steps_per_epoch = max(1, round(1 / self.rate))
        names = _optimised(model, optimizer)
        self._gradients = ClippedGradients(model, trainable=names, loss=loss)
        self._parameters = [model.get_parameter(name) for name in self._gradients.trainable]
        self._most = None if target is None else epochs * self.steps_per_epoch
        self.noise = noise or 0.0
        """The deviation of the noise over the clip norm."""
        if target is not None:
            steps = epochs * self.steps_per_epoch
            self.noise = noise_multiplier(epsilon=target, delta=delta, steps=steps, rate=self.rate)
        self._accountant, self._steps = Accountant(), 0
        self._given: Sequence[Tensor] | None = None

    def state_dict(self) -> dict[str, float]:
        """What a checkpoint needs besides those of model and optimizer, to go on another day with the steps counted."""
        return {"steps": self._steps, **self._terms}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Go on where `state_dict` was taken; refuses one that was trained under other terms."""
        if {**state, "steps": 0} != {**self._terms, "steps": 0}:
            raise SordinoError(
                f"The checkpoint was made with {_listed(state)}, but this loop has {_listed(self._terms)}; call make_private as before."
            )
        self._accountant, self._steps = Accountant(), int(state["steps"])
        self._accountant.add(gaussian_step(self.noise, self.rate), times=self._steps)

    @property
    def _terms(self) -> dict[str, float]:
        return {"noise": self.noise, "rate": self.rate, "clip_norm": self._clip}

    @property
    def epsilon(self) -> float:
        """ε of all steps so far, at the δ that was given."""
        return self._accountant.epsilon(delta=self._delta)

    def __len__(self) -> int:
        return self.steps_per_epoch

    def __iter__(self) -> Iterator[Any]:
        """The batches of one epoch. Where nobody was drawn, a step of pure noise is taken and nothing is given out."""
        for _ in range(self.steps_per_epoch):
            self._refuse_passed_over()
            stream = stream_id("own loop", "batch", self._steps)
            drawn = poisson_batch(len(self._rows), self.rate, self._source, stream=stream)
            if not len(drawn):
                self._release(torch.zeros(self._gradients.size))
                continue
            batch = self._collate([self._rows[int(row)] for row in drawn])
            self._given = batch
            yield batch
        self._refuse_passed_over()

    def _refuse_passed_over(self) -> None:
        if self._given is not None:
            raise SordinoError(
                "Every batch that is drawn must be given to step() once, but one was passed over; which ones are used is then "
                "no coin's choice, and no ε holds. Call private.step(inputs, targets) in the loop."
            )

    def step(self, inputs: Tensor, targets: Tensor) -> None:
        """One private step of the optimizer on the batch that was given out last."""
        given = self._given
        if given is None or len(given[0]) != len(inputs) or not torch.equal(given[1].cpu(), targets.cpu()):
            raise SordinoError(
                "step() takes the batch that the loop has just given out, once, but got another; iterate over the object that "
                "make_private returned, and pass its inputs and targets on."
            )
        self._given = None
        size = self._at_once or len(inputs)
        parts = zip(inputs.split(size), targets.split(size), strict=True)
        sums = [self._gradients.sum(rows, aims, clip_norm=self._clip).total for rows, aims in parts]
        self._release(torch.stack(sums).sum(0) if len(sums) > 1 else sums[0])

    def _release(self, total: Tensor) -> None:
        """Charge, add noise, and let the optimizer take its step."""
        if self._most is not None and self._steps >= self._most:
            raise SordinoError(
                f"The {self._most} steps that ε was planned for are taken; give make_private more epochs, or stop here."
            )
        self._accountant.add(gaussian_step(self.noise, self.rate))
        stream = stream_id("own loop", "noise", self._steps)
        self._steps += 1
        noisy = total + self._source.gaussian(
            len(total), std=self.noise * self._clip, stream=stream, device=total.device, dtype=total.dtype
        )
        mean = noisy / (self.rate * len(self._rows))
        for parameter, part in zip(
            self._parameters, mean.split([one.numel() for one in self._parameters]), strict=True
        ):
            parameter.grad = part.view_as(parameter).to(parameter)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)


def _check(name: str, value: Any, expected: str, fits: Callable[[Any], bool], kind: Any = Real) -> None:
    if not isinstance(value, kind) or isinstance(value, bool) or not math.isfinite(value) or not fits(value):
        raise SordinoError(f"make_private needs {name} to be {expected}, but got {shown(value)}; correct it.")


def _listed(terms: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in terms.items() if name != "steps")


def _taken_apart(data: Any, batch_size: int | None) -> tuple[Any, Callable[[list[Any]], Any], int]:
    """The rows, how they are put together, and how many are expected in a batch."""
    loader = data if isinstance(data, DataLoader) else None
    rows, size = (data, batch_size) if loader is None else (loader.dataset, batch_size or loader.batch_size)
    if not hasattr(rows, "__len__") or not hasattr(rows, "__getitem__") or not len(rows):
        raise SordinoError(
            f"make_private needs a data set with a length and single examples, to draw from, but got {type(rows).__name__}; give a "
            "map-style Dataset, or a DataLoader of one."
        )
    if size is None or size < 1:
        raise SordinoError(f"make_private needs batch_size, a whole number from 1 on, but got {size}; give one.")
    collate = default_collate if loader is None else loader.collate_fn
    first = collate([rows[0]])
    if not isinstance(first, tuple | list) or len(first) != 2 or not all(isinstance(part, Tensor) for part in first):
        raise SordinoError(
            f"make_private needs batches that are pairs (inputs, targets) of tensors, but got {with_article(type(first).__name__)}; let "
            "the Dataset give such pairs, or the DataLoader's collate_fn make them."
        )
    return rows, collate, size


def _optimised(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """The parameters that the optimizer moves; every one of them must be the model's, so that no other gradient is used."""
    moved = {id(one) for group in optimizer.param_groups for one in group["params"] if one.requires_grad}
    names = [name for name, one in model.named_parameters() if id(one) in moved]
    if len(names) != len(moved) or not names:
        raise SordinoError(
            "The optimizer should move parameters of the model and no others, but it does not; make it of model.parameters()."
        )
    return names
