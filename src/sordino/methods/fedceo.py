"""FedCEO: noisy client models are smoothed against each other by tensor low-rank approximation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from sordino.core import SordinoError, Unit
from sordino.methods.idle import changed, in_words
from sordino.methods.local_sgd import LOCAL_SETTINGS, LocalSgd
from sordino.methods.method import METHODS, Broadcast, Federation, Method, State, Upload
from sordino.methods.noisy_sgd import NoisySgd
from sordino.methods.tensor_lowrank import shrink_average, smooth_with_spectrum, threshold_at
from sordino.models import FlatSpace, Net
from sordino.privacy.pricing import Uses
from sordino.sentences import listed
from sordino.settings import AtLeastOne, Positive

NOBODY = torch.zeros(0, dtype=torch.int64)

Copies = dict[int, Tensor]
"""Released models by the client that starts its turn from them."""
_IN_NOISY_STEPS = {"epochs": "local_steps", "full_batch": 'batch_size = "full"'}
"""Local settings that noisy steps have under other names."""


@METHODS.register("fedceo")
@dataclass(frozen=True, kw_only=True)
class FedCeo(Method, LocalSgd):
    """FedAvg with noise on uploads, whose client models the server smooths every few rounds (tensor low rank).

    Formal guarantee: smoothing is post-processing. With `personal` copies each upload shapes what its sender is sent next, so uploads
    are used one by one and priced so. Without them only the average matters, and the average of smoothed copies is the
    average with its singular values shrunk by τ/K: the model depends on the uploads through their sum alone, and is priced so.
    With `noisy_steps` the noise is drawn inside each client's own steps instead, and the promise is per example.
    """

    regularisation: Positive = 1.0
    """λ: the smaller, the smoother."""
    growth: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    """ϑ: how much the threshold grows from one smoothing to the next."""
    interval: AtLeastOne = 10
    """I: rounds from one smoothing to the next."""
    personal: bool = True
    """Whether a client that took part in a smoothing starts the next round from its own smoothed copy."""
    copies: Literal["next-round", "next-turn", "public-code"] = "next-round"
    """How long personal copies wait: for the round after the smoothing, as the method says; until their client's next turn,
    however late; or as the authors' public code has it, where every client drawn in the round after a smoothing starts from
    what it sent last, smoothed or not and however old. The server then keeps a model for every client."""
    layers: tuple[str, ...] = ()
    """Parameters to smooth, by the beginnings of their names; none means all."""
    noisy_steps: NoisySgd | None = None
    """Clients' work as noisy steps, with the settings of `dp-sgd`: local_steps, batch_size, learning_rate and so on. They take the
    place of all local settings beside them: epochs, batch_size, learning_rate, momentum, weight_decay and full_batch."""

    def __post_init__(self) -> None:
        if self.copies != "next-round" and not self.personal:
            raise SordinoError(
                f"[method] copies = {self.copies!r} says how long personal copies wait, but got personal = false, where there are "
                "none; set personal = true, or leave copies out."
            )
        if (steps := self.noisy_steps) is not None:
            self._refuse_other_work()
            steps.refuse_idle_momentum(steps.local_steps, where="method.noisy_steps", steps="local_steps = 1")
            steps.refuse_open()

    def _refuse_other_work(self) -> None:
        """Refuse local work of the method's own beside noisy steps, which are all that clients do then."""
        if idle := changed(self, LOCAL_SETTINGS):
            instead = [f"{name} as {other}" for name, other in _IN_NOISY_STEPS.items() if name in idle]
            raise SordinoError(
                f"[method] leaves clients' work to noisy_steps, but got {in_words(idle)} beside them, which would do nothing; say that "
                f"under [method.noisy_steps]{f' ({listed(instead)})' if instead else ''}, or leave it out."
            )

    @property
    def unit(self) -> Unit:
        return "client" if self.noisy_steps is None else "example"

    @property
    def uses(self) -> Uses:
        return "each" if self.personal or self.noisy_steps is not None else "sum"

    @property
    def job(self) -> LocalSgd | NoisySgd:
        return self if self.noisy_steps is None else self.noisy_steps

    @property
    def server_period(self) -> int:
        return self.interval

    def plan_facts(self, rounds: int) -> dict[str, str]:
        smoothings = [number for number in range(1, rounds + 1) if number % self.interval == 0]
        if not smoothings:
            return {"smoothing": f"never: the interval of {self.interval} rounds is longer than the run"}
        shown = [*smoothings[:3], *([smoothings[-1]] if len(smoothings) > 3 else [])]
        thresholds = ", ".join(f"{self._threshold(number):.4g} in round {number}" for number in shown)
        return {"smoothing": f"{len(smoothings)} times, threshold τ = {thresholds}"}

    def check(self, net: Net, shared: FlatSpace) -> None:
        self._smoothed_names(shared)

    def round(self, number: int, state: State, federation: Federation) -> State:
        smoothing = (number + 1) % self.interval == 0
        threshold = self._threshold(number + 1) if smoothing else 0.0
        job = self.job
        if self.uses == "sum":
            assert isinstance(job, LocalSgd)
            return self._shrink_sum(number, state, federation, job, threshold)
        waiting = _copies(state)
        broadcast = Broadcast.of(state["model"], waiting if self._uses_copies(number) else {})
        models = _client_models(number, broadcast, federation, job)
        if not models:
            return {"model": state["model"], **_kept(self._left_of(waiting, models, smoothing=False))}
        stack = torch.stack(list(models.values()))
        if smoothing:
            stack, diagnostics = self.smooth_models(stack, threshold, federation.space)
            federation.diagnose(number, diagnostics)
            models = dict(zip(models, stack, strict=True))
        return {"model": stack.mean(0), **_kept(self._left_of(waiting, models, smoothing=smoothing))}

    def _uses_copies(self, number: int) -> bool:
        """Whether a client that has a copy starts this round from it."""
        return self.copies != "public-code" or number % self.interval == 0

    def _left_of(self, waiting: Copies, models: Mapping[int, Tensor], *, smoothing: bool) -> Copies:
        """The copies that wait for their clients after a round that gave these models, smoothed where it smooths."""
        if not self.personal:
            return {}
        new = dict(models) if smoothing or self.copies == "public-code" else {}
        old = {} if self.copies == "next-round" else {k: copy for k, copy in waiting.items() if k not in models}
        return {**old, **new}

    def _threshold(self, round_number: int) -> float:
        return threshold_at(
            round_number, regularisation=self.regularisation, growth=self.growth, interval=self.interval
        )

    def _shrink_sum(self, number: int, state: State, federation: Federation, job: LocalSgd, threshold: float) -> State:
        total = federation.collect_sum(number, Broadcast.of(state["model"]), job).value
        average = state["model"] + total / federation.expected_cohort
        for parameter in self._smoothed_views(average, federation.space).values() if threshold else ():
            parameter.copy_(shrink_average(parameter, threshold / federation.expected_cohort))
        return {"model": average}

    def smooth_models(self, stack: Tensor, threshold: float, space: FlatSpace) -> tuple[Tensor, dict[str, Tensor]]:
        """The models, one row each, smoothed against each other; and figures of both, which are not private."""
        smoothed, spectra = stack.clone(), {}
        for name, parameter in self._smoothed_views(smoothed, space).items():
            copies, values = smooth_with_spectrum(parameter, threshold)
            parameter.copy_(copies)
            if parameter.dim() > 2:
                spectra[f"singular values before smoothing, {name}"] = values
                spectra[f"singular values after smoothing, {name}"] = (values - threshold).clamp(min=0)
        maps = {
            f"roughness {when} smoothing": roughness(models, space)
            for when, models in (("before", stack), ("after", smoothed))
        }
        return smoothed, {**spectra, **maps}

    def _smoothed_views(self, flat: Tensor, space: FlatSpace) -> dict[str, Tensor]:
        views = space.views(flat)
        return {name: views[name] for name in self._smoothed_names(space)}

    def _smoothed_names(self, space: FlatSpace) -> list[str]:
        chosen = [name for name in space.names if not self.layers or name.startswith(self.layers)]
        if not chosen:
            raise SordinoError(
                f"[method] layers = {list(self.layers)} names none of the parameters {', '.join(space.names)}."
            )
        return chosen


@METHODS.register("udp-fedavg-svt")
@dataclass(frozen=True, kw_only=True)
class ShrunkAverage(FedCeo):
    """FedAvg with noise on uploads whose average has its singular values shrunk: FedCEO without personal copies."""

    personal: bool = False

    def __post_init__(self) -> None:
        if self.personal or self.copies != "next-round":
            got = "personal = true" if self.personal else f'copies = "{self.copies}"'
            raise SordinoError(
                f"[method] udp-fedavg-svt has no personal copies, but got {got}; leave it out, or choose method 'fedceo', which has them."
            )
        super().__post_init__()


def _copies(state: State) -> Copies:
    owners = state.get("copy_owners", NOBODY).tolist()
    return dict(zip(owners, state["copies"], strict=True)) if owners else {}


def _kept(copies: Copies) -> State:
    if not copies:
        return {}
    return {"copies": torch.stack(list(copies.values())), "copy_owners": torch.tensor(list(copies))}


def _client_models(
    number: int, broadcast: Broadcast, federation: Federation, job: LocalSgd | NoisySgd
) -> Mapping[int, Tensor]:
    """Whole noisy models by client, in the fixed order of client numbers."""
    if isinstance(job, NoisySgd):
        return {upload.client: upload.value.value for upload in federation.collect_models(number, broadcast, job)}

    def model(upload: Upload) -> Tensor:
        return broadcast.to(upload.client).value + upload.value.value

    return {upload.client: model(upload) for upload in federation.collect_each(number, broadcast, job)}


def roughness(stack: Tensor, space: FlatSpace) -> Tensor:
    """Class by client: the mean squared distance of a client's last-layer row from the other clients' rows (graph Laplacian)."""
    last = next(view for view in reversed(space.views(stack).values()) if view.dim() == 3)
    distances = torch.cdist(last.transpose(0, 1), last.transpose(0, 1)).square()
    return distances.mean(-1)
