"""What one round's release costs in each view, by where the noise is drawn and how uploads are used.

Formal guarantee: for `m` seats, multiplier z and clip C (client level, zero-out):

| noise drawn | server view | public view, sum alone | public view, one by one | client view (k colluders) |
|---|---|---|---|---|
| `central`: z·C on the sum | nothing holds | z, sampled | (not offered) | as public |
| `distributed`: z·C/√m per upload | z/√m per participation | z, sampled | z/√m per participation | z·√((m−k)/m), sampled |
| `local`: z·C per upload | z per participation | z·√m, sampled | z per participation | z·√(m−k), sampled |

Uploads used one by one show who sent how many, so sampling earns nothing there. Missing seats are filled with the same
noise by the server, so the total never depends on who turned up.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sordino.core import Neighbours, SordinoError, View
from sordino.privacy.clipping import widening
from sordino.privacy.events import joint
from sordino.privacy.mechanisms import Mechanism, Part
from sordino.privacy.samplers import CohortSampler

if TYPE_CHECKING:
    from sordino.privacy.event_kinds import DpEvent

Placement = Literal["central", "distributed", "local"]
Uses = Literal["sum", "each"]
Whom = Literal["pool", "participants"]


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What everyone concerned pays in one view for one release, and why, in one sentence."""

    view: View
    whom: Whom
    event: DpEvent
    because: str


@dataclass(frozen=True, kw_only=True)
class Price:
    """The charges of one release, and the multiplier its noise is really drawn with."""

    noise_multiplier: float
    charges: tuple[Charge, ...]
    others: tuple[Part, ...] = ()
    """What else is released from the same batch, with its real noise."""

    def divided(self, parts: Sequence[Part]) -> Price:
        """The same price for several values released from one batch: the multiplier that was priced is their joint one."""
        if len(parts) == 1:
            return self
        counted = joint(*(part.noise_multiplier for part in parts))
        share = self.noise_multiplier / counted if counted else 0.0
        real = [dataclasses.replace(part, noise_multiplier=part.noise_multiplier * share) for part in parts]
        what = " and ".join(f"{part.name} {part.noise_multiplier:.4g}" for part in real)
        why = (
            f"one batch gives several releases (multipliers: {what}), which count as one of {self.noise_multiplier:.4g}"
        )
        charges = tuple(
            dataclasses.replace(charge, because=f"{charge.because}; {why}") if not unbounded(charge.event) else charge
            for charge in self.charges
        )
        return Price(noise_multiplier=real[0].noise_multiplier, charges=charges, others=tuple(real[1:]))

    def in_view(self, view: View) -> Charge:
        return next(charge for charge in self.charges if charge.view == view)


def price_upload(
    *,
    placement: Placement,
    uses: Uses,
    mechanism: Mechanism,
    noise_multiplier: float,
    sampler: CohortSampler,
    colluders: int = 1,
) -> Price:
    """Client-level price of one round of uploads."""
    if placement == "central":
        return _central(uses, mechanism, noise_multiplier, sampler)
    if placement == "distributed" and not mechanism.divisible:
        raise SordinoError(
            "Shares of Laplace noise do not add up to Laplace noise; choose noise = 'central' or 'local', or mechanism = 'gaussian'."
        )
    per_upload = noise_multiplier / math.sqrt(sampler.seats) if placement == "distributed" else noise_multiplier
    server = Charge(
        view="server",
        whom="participants",
        event=mechanism.event(per_upload),
        because=f"the server sees each upload with noise multiplier {per_upload:.4g} and knows its sender",
    )
    if uses == "each" or not mechanism.divisible:
        why = "uploads are used one by one" if uses == "each" else "a sum of Laplace noises is not Laplace noise"
        rest = [
            Charge(
                view=view, whom="participants", event=server.event, because=f"{why}, so each stands on its own noise"
            )
            for view in _OTHERS
        ]
        return Price(noise_multiplier=per_upload, charges=(rest[0], server, rest[1]))
    return Price(noise_multiplier=per_upload, charges=(*_sum_alone(mechanism, per_upload, sampler, colluders), server))


_OTHERS: tuple[View, View] = ("public", "client")


def _sum_alone(
    mechanism: Mechanism, per_upload: float, sampler: CohortSampler, colluders: int
) -> tuple[Charge, Charge]:
    total = per_upload * math.sqrt(sampler.seats)
    unknown = per_upload * math.sqrt(max(0, sampler.seats - colluders))
    return (
        Charge(
            view="public",
            whom="pool",
            event=sampler.event(mechanism.event(total)),
            because=f"only the sum is used, and {sampler.seats} noise shares give it multiplier {total:.4g}",
        ),
        Charge(
            view="client",
            whom="pool",
            event=sampler.event(mechanism.event(unknown)),
            because=f"{colluders} of {sampler.seats} noise shares {'is' if colluders == 1 else 'are'} known to the onlooker, "
            f"which leaves multiplier {unknown:.4g}",
        ),
    )


def _central(uses: Uses, mechanism: Mechanism, noise_multiplier: float, sampler: CohortSampler) -> Price:
    from sordino.privacy.event_kinds import NonPrivateDpEvent

    if uses == "each":
        raise SordinoError(
            "This method uses uploads one by one, which [privacy] noise = 'central' leaves bare; choose noise = 'local' or 'distributed'."
        )
    event = sampler.event(mechanism.event(noise_multiplier))
    why = "the server adds the noise to the sum before anyone else sees it"
    return Price(
        noise_multiplier=noise_multiplier,
        charges=(
            Charge(view="public", whom="pool", event=event, because=why),
            Charge(view="client", whom="pool", event=event, because=why),
            Charge(
                view="server",
                whom="participants",
                event=NonPrivateDpEvent(),
                because="the server sees the sum before it adds the noise",
            ),
        ),
    )


def price_local_steps(
    *,
    mechanism: Mechanism,
    noise_multiplier: float,
    rate: float,
    steps: int,
    server_holds_data: bool = False,
    clip_groups: int = 0,
) -> Price:
    """Example-level price of one participation: `steps` releases, each from a fresh Poisson batch of one client's rows.

    Formal guarantee: each row lives on one client, so every onlooker outside it sees at most these releases. Groups of
    parameters that are clipped apart are one release from one batch: together they move by the norm of their bounds, so the
    same noise counts as that much less. Charging each group as a sampled release of its own would be too little.
    """
    from sordino.privacy.event_kinds import NonPrivateDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

    counted = noise_multiplier / widening(clip_groups, mechanism.norm)
    inner = mechanism.event(counted)
    step = inner if rate >= 1 else PoissonSampledDpEvent(rate, inner)
    event = SelfComposedDpEvent(step, steps) if steps > 1 else step
    why = f"{'one noisy step' if steps == 1 else f'{steps} noisy steps'} on batches drawn at rate {rate:.4g} from this client's own rows"
    if clip_groups > 1:
        why += (
            f"; {clip_groups} groups are clipped apart, so an example moves all of them at once, and noise of multiplier "
            f"{noise_multiplier:.4g} on each counts as {counted:.4g} on the whole"
        )
    outside = tuple(Charge(view=view, whom="participants", event=event, because=why) for view in ("public", "client"))
    server = (
        Charge(view="server", whom="participants", event=NonPrivateDpEvent(), because="the data lie with the server")
        if server_holds_data
        else Charge(view="server", whom="participants", event=event, because=why)
    )
    return Price(noise_multiplier=counted, charges=(*outside, server))


def price_unprotected(because: str = "") -> Price:
    """The price of a method without privacy: infinite for everybody."""
    from sordino.privacy.event_kinds import NonPrivateDpEvent

    views: tuple[View, ...] = ("public", "server", "client")
    event = NonPrivateDpEvent()
    why = because or "this method adds no noise"
    return Price(
        noise_multiplier=0.0, charges=tuple(Charge(view=view, whom="pool", event=event, because=why) for view in views)
    )


def price_uncovered(price: Price, because: str) -> Price:
    """The price of uploads that show something no noise covers: infinite for everybody, whatever noise is drawn besides."""
    from sordino.privacy.event_kinds import NonPrivateDpEvent

    event = NonPrivateDpEvent()
    charges = (Charge(view=one.view, whom=one.whom, event=event, because=because) for one in price.charges)
    return Price(noise_multiplier=price.noise_multiplier, charges=tuple(charges))


def unbounded(event: DpEvent) -> bool:
    from sordino.privacy.event_kinds import NonPrivateDpEvent

    return isinstance(event, NonPrivateDpEvent)


def neighbours_in(view: View, neighbours: Neighbours) -> Neighbours:
    """The server knows who is there, so adding or removing somebody is plain to it: it is promised zero-out instead."""
    return "zero-out" if view == "server" and neighbours == "add-remove" else neighbours
