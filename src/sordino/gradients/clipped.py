"""Sums of per-example gradients, each clipped by itself, from one forward and one backward pass."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sordino.core import Norm, SordinoError, unknown
from sordino.gradients.dense_chain import book_chain, bookable, find_chain, rectified_layers
from sordino.gradients.fallback import book_by_vmap
from sordino.gradients.layers import Booking, Request
from sordino.gradients.layers.booking import ROUNDING_UNITS
from sordino.gradients.losses import cross_entropy_per_example, is_cross_entropy
from sordino.gradients.memory import bytes_per_example, microbatch_size
from sordino.gradients.plan import Obstacle, Plan, batch_dependent_layers, make_plan, refuse_batch_statistics
from sordino.gradients.tape import PRECISE, PerExampleLoss, Unbookable, record
from sordino.kernels.choice import ROWS, left_to_torch
from sordino.kernels.dense_private import PlacedLayer, clipped_sum, suits

FALLBACK_MEMORY_BYTES = 1 << 30


class SlowGradientsWarning(UserWarning):
    """The model has a part without a rule, so the whole model takes the slow and equally correct path."""


@dataclass(frozen=True, kw_only=True)
class ClippedSum:
    """A sum of clipped per-example gradients, with private facts about the examples."""

    total: Tensor
    norms: Tensor
    nonfinite: int


@dataclass(frozen=True, kw_only=True)
class _Slot:
    """Where a parameter lies in the flat buffer, and which group clips it."""

    name: str
    shape: torch.Size
    start: int
    stop: int
    group: int


class ClippedGradients:
    """Computes clipped gradient sums of one module, again and again, whose layers and parameters stay the same objects.

    Formal guarantee: under zero-out neighbours, `sum(...).total` changes by at most `clip_norm` in the chosen norm when
    one example's contribution is replaced by nothing. With groups, each group's slice changes by at most its own clip
    norm, so the whole by at most the clip norms' own norm. This asks that the model treats examples independently;
    batch norm in training mode is refused. An example with a non-finite norm contributes exactly zero. The bound holds for
    the stored numbers of each contribution, whatever its length and size: norms have a proven margin (`layers/booking.py`).
    Rounding of the sum over examples is not covered. `norms` and `nonfinite` are not protected.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        trainable: Sequence[str] | None = None,
        groups: Mapping[str, Sequence[str]] | None = None,
        loss: PerExampleLoss = cross_entropy_per_example,
        norm: Norm = "l2",
        microbatch: int | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        for label, value in (("microbatch", microbatch), ("memory_bytes", memory_bytes)):
            if value is not None and value < 1:
                raise SordinoError(f"{label} must be at least 1 and is {value}; leave it out for no limit.")
        if norm not in ("l2", "l1"):
            raise SordinoError(unknown("norm", norm, ("l2", "l1")))
        self._model = model
        self._loss = loss
        self._norm: Norm = norm
        self._microbatch = microbatch
        self._memory_bytes = memory_bytes
        names = _trainable_names(model, trainable, groups)
        self._grouped = groups is not None
        self._groups = tuple(groups) if groups is not None else ("all",)
        self._slots = _lay_out(model, names, groups)
        self.trainable = tuple(slot.name for slot in self._slots)
        self.size = self._slots[-1].stop
        self._numels = [slot.stop - slot.start for slot in self._slots]
        self._requests = {whole: _layer_requests(self.trainable, norm, whole) for whole in (False, True)}
        self._parameters = tuple(model.parameters())
        self._first = model.get_parameter(self.trainable[0])
        _refuse_coarse_numbers(model, self.trainable)
        self._batch_dependent = batch_dependent_layers(model)
        self._chain = find_chain(model)
        self._placed = self._place_layers()
        self._plans: dict[object, Plan] = {}
        self._warned: set[str] = set()

    def sum(self, inputs: Tensor, targets: Tensor, *, clip_norm: float | Mapping[str, float]) -> ClippedSum:
        """The clipped sum at the module's current parameters."""
        clips = self._clip_norms(clip_norm)
        total = self._first.new_zeros(self.size)
        if (at_once := self._sum_at_once(inputs, targets, clips[0], total)) is not None:
            return at_once
        norms: list[list[Tensor]] = [[] for _ in self._groups]
        nonfinite = 0
        for chunk, labels in self._microbatches(inputs, targets):
            bookings = self._book(chunk, labels)
            found = self._norms(bookings, len(chunk), total)
            nonfinite += self._accumulate(bookings, found, clips, total)
            for group, part in zip(norms, found, strict=True):
                group.append(part)
        joined = [_end_to_end(group, total) for group in norms]
        return ClippedSum(
            total=total, norms=torch.stack(joined, dim=1) if self._grouped else joined[0], nonfinite=nonfinite
        )

    def per_example(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Every example's unclipped gradient as one row: examples x parameters. Private, and large."""
        rows = self._first.new_zeros(len(inputs), self.size)
        start = 0
        for chunk, labels in self._microbatches(inputs, targets):
            bookings = self._book(chunk, labels, whole_rows=True)
            for slot in self._slots:
                if slot.name in bookings:
                    rows[start : start + len(chunk), slot.start : slot.stop] = bookings[slot.name].rows()
            start += len(chunk)
        return rows

    @torch.no_grad()
    def _accumulate(self, bookings: dict[str, Booking], norms: list[Tensor], clips: list[float], total: Tensor) -> int:
        """Add the clipped gradients of one microbatch to the flat total."""
        units = max((booking.units for booking in bookings.values()), default=0) + len(bookings) + ROUNDING_UNITS
        shrink = 1 - units * torch.finfo(total.dtype).eps
        factors = [_factors(norm, clip * shrink) for clip, norm in zip(clips, norms, strict=True)]
        nonfinite = 0
        largest = _largest_norm(min(clips), total.dtype)
        if not sum(norm.sum().item() for norm in norms) <= largest:
            lost = ~(torch.stack(norms) <= largest).all(0)
            nonfinite = int(lost.sum())
            factors = [factor.masked_fill_(lost, 0) for factor in factors]
            for booking in bookings.values():
                booking.forget(lost)
        factors = [factor.to(total.dtype) for factor in factors]
        for slot, into in zip(self._slots, total.split(self._numels), strict=True):
            if slot.name in bookings:
                bookings[slot.name].add_weighted(factors[slot.group], into.view(slot.shape))
        return nonfinite

    def _place_layers(self) -> list[PlacedLayer] | None:
        """The dense layers that a kernel sums in one call: all of a plain chain, under one clip norm; None where it cannot."""
        dense = None if self._chain is None else rectified_layers(self._chain)
        if dense is None or self._grouped or self._norm != "l2" or self._microbatch or self._memory_bytes:
            return None
        starts = {slot.name: slot.start for slot in self._slots}
        placed = []
        for name, layer, dropout in dense:
            weight, bias = (f"{name}.{parameter}".lstrip(".") for parameter in ("weight", "bias"))
            if weight not in starts or (layer.bias is not None and bias not in starts):
                return None
            placed.append(PlacedLayer(layer=layer, weight=starts[weight], bias=starts.get(bias), dropout=dropout))
        return placed

    @torch.no_grad()
    def _sum_at_once(self, inputs: Tensor, targets: Tensor, clip: float, total: Tensor) -> ClippedSum | None:
        """The whole sum by one kernel, where there is one for this model and batch.

        Formal guarantee: as that of bookings, with none of their margins for norms, which are taken in double precision; a factor
        and what it scales are rounded as theirs are.
        """
        if self._placed is None or self._chain is None or not is_cross_entropy(self._loss, targets):
            return None
        if left_to_torch(self._placed[0].layer, ROWS) or not bookable(self._chain, inputs):
            return None
        rows = inputs.detach().flatten(1)
        if not suits(self._placed, rows, targets):
            return None
        shrink = 1 - (len(self._slots) + ROUNDING_UNITS) * torch.finfo(total.dtype).eps
        largest = _largest_norm(clip, total.dtype)
        norms = clipped_sum(self._placed, rows, targets, clip=clip * shrink, largest=largest, total=total)
        if norms is None:
            return None
        lost = 0 if norms.max().item() <= largest else int((norms > largest).sum())
        return ClippedSum(total=total, norms=norms, nonfinite=lost)

    def _norms(self, bookings: dict[str, Booking], batch: int, like: Tensor) -> list[Tensor]:
        """The norm of every example, group by group."""
        parts: list[list[Tensor]] = [[] for _ in self._groups]
        for slot in self._slots:
            if slot.name in bookings:
                parts[slot.group].append(bookings[slot.name].norms)
        return [_joint_norm(part, self._norm) if part else like.new_zeros(batch) for part in parts]

    def _book(self, inputs: Tensor, targets: Tensor, *, whole_rows: bool = False) -> dict[str, Booking]:
        plan = self._plan(inputs, targets)
        if not plan.obstacles:
            if self._chain is not None and bookable(self._chain, inputs):
                requests = self._requests[whole_rows]
                return book_chain(self._chain, inputs, targets, requests=requests, loss=self._loss)
            try:
                return record(
                    self._model,
                    plan.layers,
                    inputs,
                    targets,
                    parameters=self._parameters,
                    requests=self._requests[whole_rows],
                    loss=self._loss,
                )
            except Unbookable as unbookable:
                obstacle = Obstacle(
                    kind="reuse",
                    layer=str(unbookable),
                    sentence=f"layer {str(unbookable)!r} is used in a way its rule does not cover",
                )
                self._warn(obstacle, callers=4)
        request = Request(wanted=frozenset(self.trainable), norm=self._norm)
        return book_by_vmap(self._model, self.trainable, inputs, targets, request=request, loss=self._loss)

    def _plan(self, inputs: Tensor, targets: Tensor) -> Plan:
        key = (inputs.shape[1:], inputs.dtype, inputs.device, self._model.training)
        if key not in self._plans:
            self._plans[key] = make_plan(self._model, self.trainable, inputs, targets, loss=self._loss)
            for obstacle in self._plans[key].obstacles:
                self._warn(obstacle, callers=6)
        return self._plans[key]

    def _warn(self, obstacle: Obstacle, *, callers: int) -> None:
        if obstacle.kind not in self._warned:
            self._warned.add(obstacle.kind)
            warnings.warn(
                f"Per-example gradients fall back to vmap, which is slower and as correct: {obstacle.sentence}.",
                SlowGradientsWarning,
                stacklevel=callers,
            )

    def _microbatches(self, inputs: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        if len(inputs) != len(targets):
            raise SordinoError(
                f"Inputs and targets must hold the same number of examples, not {len(inputs)} and {len(targets)}."
            )
        refuse_batch_statistics(self._batch_dependent)
        if not len(inputs):
            return
        if inputs.dim() == 4 and inputs.dtype != torch.float64:  # torch's channels-last group norm is less precise
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        size = self._microbatch_size(inputs, targets)
        if size >= len(inputs):
            yield inputs, targets
            return
        yield from zip(torch.split(inputs, size), torch.split(targets, size), strict=True)

    def _microbatch_size(self, inputs: Tensor, targets: Tensor) -> int:
        plan, limit = self._plan(inputs, targets), self._memory_bytes
        if plan.obstacles and limit is None:
            limit = FALLBACK_MEMORY_BYTES
        size = min(self._microbatch or len(inputs), len(inputs))
        if limit is None:
            return size
        example_bytes = bytes_per_example(
            activations=plan.activations_per_example,
            parameters=self.size,
            element_bytes=self._first.element_size(),
            booked=not plan.obstacles,
        )
        return min(size, microbatch_size(batch=len(inputs), memory_bytes=limit, example_bytes=example_bytes))

    def _clip_norms(self, clip_norm: float | Mapping[str, float]) -> list[float]:
        by_group = clip_norm if isinstance(clip_norm, Mapping) else dict.fromkeys(self._groups, clip_norm)
        if set(by_group) != set(self._groups):
            raise SordinoError(
                f"A clip norm is needed for each of the groups {', '.join(self._groups)}; got {', '.join(by_group)}."
            )
        for group, bound in by_group.items():
            if not 0 < bound < float("inf"):
                raise SordinoError(f"The clip norm of group {group!r} must be positive and finite, and is {bound}.")
            if bound < (least := torch.finfo(self._first.dtype).tiny ** 0.25):
                raise SordinoError(
                    f"The clip norm of group {group!r} must be at least {least:.2g}, but got {bound:.2g}, at which rounding could "
                    "exceed it; scale the loss up."
                )
        return [float(by_group[group]) for group in self._groups]


def _refuse_coarse_numbers(model: nn.Module, trainable: Sequence[str]) -> None:
    """Norms of half-precision gradients have no margin worth the name."""
    for name in trainable:
        if (kind := model.get_parameter(name).dtype) not in PRECISE:
            raise SordinoError(
                f"Parameter {name!r} must be float32 or float64 to be clipped, but got {str(kind).removeprefix('torch.')}; "
                "build the model in float32."
            )


def _joint_norm(norms: list[Tensor], norm: Norm) -> Tensor:
    """The norm of several vectors laid end to end, from their own norms; off by less than one unit of rounding for each."""
    stacked = torch.stack(norms)
    return stacked.square_().sum(0).sqrt_() if norm == "l2" else stacked.sum(0)


def _end_to_end(norms: list[Tensor], like: Tensor) -> Tensor:
    """The norms of all microbatches."""
    return norms[0] if len(norms) == 1 else torch.cat([*norms, like.new_zeros(0)])


def _factors(norms: Tensor, clip: float) -> Tensor:
    """A tensor over a tensor is one operation, where a number over a tensor is two."""
    return norms.new_full((), clip).div(norms).clamp_(max=1)


def _largest_norm(clip: float, dtype: torch.dtype) -> float:
    """Beyond this a gradient counts as not finite: its factor could not be stored to full precision."""
    return min(clip / torch.finfo(dtype).tiny, torch.finfo(dtype).max) / 2


def _trainable_names(
    model: nn.Module, trainable: Sequence[str] | None, groups: Mapping[str, Sequence[str]] | None
) -> set[str]:
    known = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    grouped = [name for names in (groups or {}).values() for name in names]
    chosen = trainable if trainable is not None else grouped if groups else [name for name, on in known.items() if on]
    for name in (*chosen, *grouped):
        if name not in known:
            raise SordinoError(unknown("parameter", name, known))
    if not chosen:
        raise SordinoError("At least one parameter must be trainable and none is; name some in trainable.")
    if groups is not None and (set(grouped) != set(chosen) or len(grouped) != len(set(grouped))):
        raise SordinoError("Groups must hold every trainable parameter exactly once; correct the groups' lists.")
    return set(chosen)


def _lay_out(model: nn.Module, names: set[str], groups: Mapping[str, Sequence[str]] | None) -> tuple[_Slot, ...]:
    group_of = {name: index for index, members in enumerate((groups or {}).values()) for name in members}
    slots, start = [], 0
    for name, parameter in model.named_parameters():
        if name in names:
            stop = start + parameter.numel()
            slots.append(_Slot(name=name, shape=parameter.shape, start=start, stop=stop, group=group_of.get(name, 0)))
            start = stop
    return tuple(slots)


def _layer_requests(trainable: Sequence[str], norm: Norm, whole_rows: bool) -> dict[str, Request]:
    wanted: dict[str, set[str]] = {}
    for name in trainable:
        layer, _, parameter = name.rpartition(".")
        wanted.setdefault(layer, set()).add(parameter)
    return {
        layer: Request(wanted=frozenset(parameters), norm=norm, whole_rows=whole_rows)
        for layer, parameters in wanted.items()
    }
