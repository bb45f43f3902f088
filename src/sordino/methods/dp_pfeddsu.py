"""DP-pFedDSU: personal heads over a shared extractor whose last layers are trained and sent sparse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from sordino.core import SordinoError
from sordino.data.examples import Examples
from sordino.methods.idle import changed
from sordino.methods.method import METHODS, Broadcast, ClientContext, Federation, State, Turn
from sordino.methods.sparse import Masks, flat_mask, kept_of, largest, masks_in, norm_pull, regrown, sparse_places
from sordino.methods.two_phase import TwoPhase
from sordino.models import FlatSpace, Net, flatten
from sordino.privacy.streams import stream_id
from sordino.settings import AtLeastOne, NotNegative

Share = Annotated[float, Field(gt=0, le=1)]

BITS_PER_NUMBER = 32
"""A mask that the server does not know is sent as one bit for each sparse weight."""


@METHODS.register("dp-pfeddsu")
@dataclass(frozen=True, kw_only=True)
class DpPfedDsu(TwoPhase):
    """Client-level DP with personal heads and sparse updates: the last layers are trained and sent under top-S masks.

    Formal guarantee: `global` masks are the largest weights of the broadcast extractor, which is out already, so every
    coordinate that is sent is noised and the rest is not data. `local-dense-noise` noises every coordinate, kept or not.
    `local` masks are as published: they come from private weights and show as the pattern of exact zeros, so no ε holds.
    """

    share: Share = 0.05
    """S: the share of weights kept in each sparse layer."""
    layers: AtLeastOne = 4
    """k: how many of the extractor's last layers are sparse."""
    norm_weight: NotNegative = 0.2
    """λ of (λ/2)·|‖(θ − θ₀)⊙M‖ − C|, which pulls the update's norm to the clip bound."""
    mask: Literal["global", "local", "local-dense-noise"] = "global"
    straight_through: Literal["all", "kept", "larger"] = "all"
    """Which weights of a local mask's layers a step moves: all, the kept ones, or the largest `backward_share`."""
    backward_share: Share = 0.1
    """Of the weights that steps move, the largest ones, with straight_through = "larger"; at least `share`."""
    regrowth: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The share of a global mask that is drawn anew each round in the open, in place of its smallest weights."""
    head_extractor: Literal["dense", "masked"] = "dense"
    """Under which extractor heads are tuned and clients tested; the masked one costs about two points."""

    @property
    def job_kinds(self) -> tuple[type, ...]:
        return (SparseTurn,)

    def __post_init__(self) -> None:
        if self.straight_through != "all" and self.mask == "global":
            raise SordinoError(
                f"[method] straight_through chooses among the weights of a client's own mask, but got {self.straight_through!r} with "
                "mask = 'global', under which steps move the kept ones; choose another mask, or leave straight_through out."
            )
        if self.straight_through != "larger" and changed(self, ["backward_share"]):
            raise SordinoError(
                f"[method] backward_share is the share of weights that steps move with straight_through = 'larger', but got "
                f"{self.backward_share:g} with straight_through = {self.straight_through!r}, where it would do nothing; set that too, or "
                "leave backward_share out."
            )
        if self.straight_through == "larger" and self.backward_share < self.share:
            raise SordinoError(
                f"[method] backward_share = {self.backward_share:g} is below share = {self.share:g}, but the steps' set is to be "
                "the larger one; raise backward_share."
            )
        if self.regrowth and self.mask != "global":
            raise SordinoError(
                f"[method] regrowth redraws a mask in the open, but mask = {self.mask!r} is the clients' own; "
                "set mask = 'global' or regrowth = 0."
            )

    @property
    def uncovered(self) -> str:
        return (
            "each client's mask comes from its private weights and shows as exact zeros that no noise covers"
            if self.mask == "local"
            else ""
        )

    def check(self, net: Net, shared: FlatSpace) -> None:
        super().check(net, shared)
        self.sparse(shared)

    def sparse(self, space: FlatSpace) -> list[int]:
        """The places of the sparse layers; where everything is kept, none is sparse."""
        places = sparse_places(space, self.layers)
        return places if self.share < 1 else []

    def largest_of(self, model: Tensor, space: FlatSpace) -> Masks:
        views = list(space.views(model).values())
        return {place: largest(views[place], self.share) for place in self.sparse(space)}

    def upload_numbers(self, space: FlatSpace) -> float:
        if self.mask == "local-dense-noise":
            return space.size
        sparse = [space.sizes[place] for place in self.sparse(space)]
        pattern = sum(sparse) / BITS_PER_NUMBER if self.mask == "local" else 0
        return space.size - sum(size - kept_of(size, self.share) for size in sparse) + pattern

    def plan_facts(self, rounds: int) -> dict[str, str]:
        kept = f"{self.share:g} of the weights in the last {self.layers} layers, {self.mask} mask"
        return {"sparse updates": kept if self.share < 1 else "none: share = 1 keeps every weight"}

    def round(self, number: int, state: State, federation: Federation) -> State:
        step = self.server_learning_rate / federation.expected_cohort
        if self.mask == "global":
            return self._round_under_one_mask(number, state, federation, step)
        turn = SparseTurn(method=self, masks=None, clip_norm=federation.clip_norm)
        model = state["model"]
        collect = federation.collect_on_support if self.mask == "local" else federation.collect_sum
        total = collect(number, Broadcast.of(model), turn)
        return {**state, "model": model + step * total.value}

    def _round_under_one_mask(self, number: int, state: State, federation: Federation, step: float) -> State:
        space, model = federation.space, state["model"]
        masks = self._regrown(number, self.largest_of(model, space), model, space)
        flat = flat_mask(space, masks, model.device)
        wanted = flat.nonzero()[:, 0]
        turn = SparseTurn(method=self, masks=masks, clip_norm=federation.clip_norm)
        total = federation.collect_sum(number, Broadcast.of(model, wanted=wanted), turn)
        moved = model.clone()
        moved[wanted] += step * total.value
        turnover = self._turnover(state.get("mask"), flat, space)
        return {**state, "model": moved, "mask": flat, "mask_turnover": turnover}

    def _regrown(self, number: int, masks: Masks, model: Tensor, space: FlatSpace) -> Masks:
        if not self.regrowth:
            return masks
        generator = torch.Generator()
        generator.manual_seed(stream_id("regrowth", number))
        views = list(space.views(model).values())
        return {place: regrown(mask, views[place], self.regrowth, generator) for place, mask in masks.items()}

    def _turnover(self, before: Tensor | None, now: Tensor, space: FlatSpace) -> Tensor:
        """The share of kept sparse weights that were not kept the round before."""
        places = self.sparse(space)
        if before is None or not places:
            return torch.zeros(())
        kept = flatten(list(masks_in(space, now, places).values()))
        kept_before = flatten(list(masks_in(space, before, places).values()))
        return (kept & ~kept_before).sum().cpu() / kept.sum().cpu()

    def public_figures(self, state: State) -> dict[str, float]:
        return {"mask_turnover": float(state["mask_turnover"])} if "mask_turnover" in state else {}

    def personalise(self, state: State, own: Tensor, examples: Examples, context: ClientContext) -> None:
        masks = self.largest_of(state["model"], context.space)
        self.tuned_head(self.head_view(state["model"], masks, context.space), own, examples, context)

    def head_view(self, model: Tensor, masks: Masks, space: FlatSpace) -> Tensor:
        """The extractor as heads see it."""
        if self.head_extractor == "dense" or not masks:
            return model
        return model * flat_mask(space, masks, model.device)


@dataclass(frozen=True, kw_only=True)
class SparseTurn:
    """One turn under a mask that all share, or (without one) under a mask of the client's own that follows its weights."""

    method: DpPfedDsu
    masks: Masks | None
    clip_norm: float

    def workload(self, examples: int) -> tuple[int, int]:
        return self.method.workload(examples)

    def upload_numbers(self, space: FlatSpace) -> float:
        return self.method.upload_numbers(space)

    def turn(self, start: Tensor, own: Tensor, examples: Examples, context: ClientContext) -> Turn:
        method, space = self.method, context.space
        masks = method.largest_of(start, space) if self.masks is None else self.masks
        head = method.tuned_head(method.head_view(start, masks, space), own, examples, context)
        trained, masks = self._train(start, masks, examples, context)
        update, support = flatten(trained) - start, flat_mask(space, masks, start.device)
        if self.masks is not None:
            return Turn(update=update[support], personal=head)
        return Turn(update=update * support, personal=head, support=support)

    def _train(
        self, start: Tensor, masks: Masks, examples: Examples, context: ClientContext
    ) -> tuple[list[Tensor], Masks]:
        """Phase two: every step uses θ⊙M and moves θ; the masks are those after the last step."""
        method, space, net = self.method, context.space, context.net
        space.write(net, start)
        parameters = space.parameters(net)
        dense = [parameter.detach().clone() for parameter in parameters]
        first = [weight.clone() for weight in dense]
        velocities = method.optimiser.velocities(dense)
        _write_masked(parameters, dense, masks)
        for gradients in method.gradients(parameters, examples, context):
            for place, mask in self._moving(dense, masks).items():
                gradients[place] *= mask
            if method.norm_weight:
                pull = norm_pull(_moved(dense, first, masks), bound=self.clip_norm, weight=method.norm_weight)
                torch._foreach_add_(gradients, pull)
            method.optimiser.step(dense, gradients, velocities, method.learning_rate)
            if self.masks is None:
                masks = {place: largest(dense[place], method.share) for place in masks}
            _write_masked(parameters, dense, masks)
        return dense, masks

    def _moving(self, dense: list[Tensor], masks: Masks) -> Masks:
        """The weights of sparse layers that a step moves, where not all."""
        method = self.method
        if self.masks is not None or method.straight_through == "kept":
            return masks
        if method.straight_through == "larger":
            return {place: largest(dense[place], method.backward_share) for place in masks}
        return {}


def _moved(dense: list[Tensor], first: list[Tensor], masks: Masks) -> list[Tensor]:
    moved = torch._foreach_sub(dense, first)
    return [part * masks[place] if place in masks else part for place, part in enumerate(moved)]


def _write_masked(parameters: list[Tensor], dense: list[Tensor], masks: Masks) -> None:
    with torch.no_grad():
        for place, (parameter, weight) in enumerate(zip(parameters, dense, strict=True)):
            parameter.copy_(weight * masks[place] if place in masks else weight)
