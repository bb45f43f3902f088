"""The server's side of a federation: draws the cohort, charges, sends grants, and adds up what comes back.

It knows a roster and prices, and nobody's rows. Clients bound and noise what they hand out; the server noises sums alone, where
noise is `central`, and fills empty seats.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sordino.core import Released, SordinoError
from sordino.engine.messages import Answer, Kind, Missing, Request
from sordino.engine.moved_clips import MovedClips
from sordino.engine.one_round import OneRound
from sordino.engine.roster import Roster
from sordino.engine.tally import Tally
from sordino.engine.tariff import Tariff
from sordino.engine.traffic import BYTES_PER_NUMBER, Traffic
from sordino.engine.transport import Transport
from sordino.engine.verbs import check_models, check_on_support, check_uploads
from sordino.methods.federation import Broadcast, Upload
from sordino.methods.jobs import ClientJob, Job, NoisySteps, PersonalJob
from sordino.models import FlatSpace
from sordino.privacy.clipping import Clip
from sordino.privacy.coins import Coins, FreshCoins
from sordino.privacy.door import Door
from sordino.privacy.grant import Grant
from sordino.privacy.ledger import Line
from sordino.privacy.mechanisms import UPDATE
from sordino.privacy.pricing import Price

GO_ON = "See to them, and go on with --resume."


class TooFew(SordinoError):
    """Fewer clients answered than a round needs; it has been charged all the same."""


@dataclass(frozen=True, kw_only=True)
class _Call:
    """One verb in one round: who was drawn, and what they are sent."""

    round: int
    repeat: int
    cohort: list[int]
    broadcast: Broadcast
    job: Job
    clip: Clip
    upload_shape: tuple[int, ...]


@dataclass(kw_only=True)
class FederationServer:
    """Implements what methods may ask of a federation; methods themselves are handed one round of it.

    Formal guarantee: a verb that the method was not priced for is refused before anything is drawn, worked on or charged.
    No two calls share their coins: a verb called again in a round draws its cohort and batches afresh. A client that does not
    answer leaves its seat empty: it was charged, denominators stay, and its share of the noise is drawn by the server.
    """

    roster: Roster
    space: FlatSpace
    tariff: Tariff
    door: Door
    transport: Transport
    keeps_state: bool = False
    """Whether the method's clients keep something from turn to turn."""
    clips: MovedClips = field(default_factory=MovedClips)
    traffic: Traffic = field(default_factory=Traffic)
    missing: list[Missing] = field(default_factory=list)
    """Everybody who did not answer, each time, and why; since the run began or was taken up again."""
    minimum_cohort: int = 1
    """How many clients must answer for a call to count."""
    keep_diagnostics: Callable[[int, Mapping[str, Tensor]], None] = lambda round_number, tensors: None
    _calls: Counter[int] = field(default_factory=Counter, init=False)
    """How often anything was collected in each round."""

    def for_round(self, number: int) -> OneRound:
        """What a method may see and do in this round."""
        return OneRound(self, number)

    @property
    def sizes(self) -> Sequence[int]:
        return self.roster.sizes

    @property
    def expected_cohort(self) -> float:
        return self.tariff.sampler.expected_cohort

    @property
    def clip_norm(self) -> float:
        return self._clip().bound

    def collect_sum(self, round_number: int, broadcast: Broadcast, job: ClientJob | PersonalJob) -> Released[Tensor]:
        check_uploads(self.tariff, "sum", job, keeps_state=self.keeps_state)
        call = self._call(round_number, broadcast, job)
        tally = self._central_sum(call) if self.tariff.placement == "central" else self._sum_of_shares(call)
        bound = self.tariff.mechanism.next_bound(tally.clip.bound, tally.besides, self.tariff.expected_units(0))
        if bound != tally.clip.bound:
            self.clips.move(0, bound)
        return tally.update

    def collect_on_support(self, round_number: int, broadcast: Broadcast, job: PersonalJob) -> Released[Tensor]:
        check_on_support(self.tariff, job, keeps_state=self.keeps_state)
        answers, _ = self._own_noise(self._call(round_number, broadcast, job), kind="support")
        total = Released.public(torch.zeros_like(broadcast.upload_like))
        for answer in answers:
            total = total.plus(answer.released[UPDATE])
        return total

    def collect_each(self, round_number: int, broadcast: Broadcast, job: ClientJob) -> list[Upload]:
        check_uploads(self.tariff, "each", job, keeps_state=self.keeps_state)
        answers, _ = self._own_noise(self._call(round_number, broadcast, job))
        return _uploads(answers)

    def collect_models(self, round_number: int, broadcast: Broadcast, job: NoisySteps) -> list[Upload]:
        check_models(self.tariff, job, self.sizes, keeps_state=self.keeps_state)
        call = self._call(round_number, broadcast, job)
        requests = [self._steps_request(call, client) for client in call.cohort]
        answers = self._exchange(requests, upload_numbers=self.space.size)
        for answer in answers:
            if answer.clip_bound is not None:
                self.clips.move(answer.client, answer.clip_bound)
        return _uploads(answers)

    def diagnose(self, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        self.keep_diagnostics(round_number, tensors)

    def _central_sum(self, call: _Call) -> Tally:
        """Bounded updates, added up and noised by the server."""
        grant = self.door.charge(self._line(call.round, call.cohort, owner="server", releases=1))
        requests = [self._request(call, client, grant, server_noises=True) for client in call.cohort]
        tally = self._tally(call, grant)
        tally.release(self.door.permit(grant, self.tariff.mechanism), self._exchange(requests, job=call.job))
        return tally

    def _sum_of_shares(self, call: _Call) -> Tally:
        """Updates that clients noised themselves, with noise for empty seats where all have the same share."""
        answers, grants = self._own_noise(call)
        tally = self._tally(call, grants[0])
        for answer in answers:
            tally.add(answer)
        if not self.tariff.per_client:
            permit = self.door.permit(grants[0], self.tariff.mechanism)
            tally.fill(permit, self.tariff.sampler.seats - len(answers))
        return tally

    def _own_noise(self, call: _Call, kind: Kind = "update") -> tuple[list[Answer], list[Grant]]:
        """Ask a cohort whose clients noise their own uploads, in groups that pay the same."""
        grants, requests = [], []
        for clients, price in self._by_price(call):
            line = self._line(call.round, clients, owner="each client", releases=len(clients), price=price)
            grants.append(self.door.charge(line))
            requests += [self._request(call, client, grants[-1], kind=kind) for client in clients]
        return self._exchange(requests, job=call.job), grants

    def _by_price(self, call: _Call) -> list[tuple[list[int], Price]]:
        """Groups that pay the same; of an empty cohort one empty group, whose seats are filled."""
        found = self.tariff.by_price(call.cohort, call.round)
        return found or [([], self.tariff.price(0, call.round))]

    def _request(
        self, call: _Call, client: int, grant: Grant, *, kind: Kind = "update", server_noises: bool = False
    ) -> Request:
        return Request(
            kind=kind,
            client=client,
            round=call.round,
            repeat=call.repeat,
            model=call.broadcast.to(client).value,
            upload_shape=call.upload_shape,
            job=call.job,
            clip=call.clip,
            grants={UPDATE: grant.share(client)},
            server_noises=server_noises,
        )

    def _steps_request(self, call: _Call, client: int) -> Request:
        """Charge for one client's steps."""
        tariff, steps = self.tariff, self.tariff.steps
        assert steps is not None
        count, clip, price = steps.local_steps, self._clip(client), tariff.price(client, call.round)
        line = self._line(
            call.round, [client], owner=f"client {client}", releases=count, price=price, label="steps", clip=clip
        )
        moving = dataclasses.replace(line, moving_clip=tariff.mechanism.moves_clip)
        request = self._request(call, client, self.door.charge(moving), kind="steps")
        return dataclasses.replace(request, clip=clip, grants={UPDATE: request.grant.share(client, releases=count)})

    def _exchange(
        self, requests: Sequence[Request], *, job: Job | None = None, upload_numbers: float | None = None
    ) -> list[Answer]:
        """Send requests; who does not answer is noted, and where nobody does the run stops."""
        sent = job.upload_numbers(self.space) if isinstance(job, PersonalJob) else (upload_numbers or self.space.size)
        self.traffic.down += len(requests) * self.space.size * BYTES_PER_NUMBER
        self.traffic.up += len(requests) * math.ceil(sent * BYTES_PER_NUMBER)
        found = self.transport.exchange(requests) if requests else []
        absent = [one for one in found if isinstance(one, Missing)]
        self.missing += absent
        answered, needed = len(requests) - len(absent), min(self.minimum_cohort, len(requests))
        if answered < needed:
            few = "None" if not answered else f"Only {answered}"
            raise TooFew(
                f"{few} of the {len(requests)} clients of round {requests[0].round} answered; {self.roster.name(absent[0].client)}: "
                f"{absent[0].because} {GO_ON}"
            )
        return [one for one in found if isinstance(one, Answer)]

    def _call(self, round_number: int, broadcast: Broadcast, job: Job) -> _Call:
        """Draw a cohort by coins of its own: those of the round, or others where the round's own were flipped before."""
        repeat = self._calls[round_number]
        self._calls[round_number] += 1
        source = self.door.source
        coins: Coins = FreshCoins(coins=source, repeat=repeat) if repeat else source
        cohort = self._cohort(round_number, coins)
        return _Call(
            round=round_number,
            repeat=repeat,
            cohort=cohort,
            broadcast=broadcast,
            job=job,
            clip=self._clip(),
            upload_shape=tuple(broadcast.upload_like.shape),
        )

    def _cohort(self, round_number: int, coins: Coins) -> list[int]:
        """Who was drawn and can still pay; who cannot has retired, and its seat is filled like any empty one."""
        drawn = [int(client) for client in self.tariff.sampler.draw(round_number, coins)]
        if not self.tariff.retires:
            return drawn
        return [
            client
            for client in drawn
            if self.door.ledger.affords(client, self.tariff.price(client, round_number).charges)
        ]

    def _clip(self, client: int = 0) -> Clip:
        return dataclasses.replace(self.tariff.clip, bound=self.clips.of(client, self.tariff.clip.bound))

    def _tally(self, call: _Call, grant: Grant) -> Tally:
        return Tally(clip=self._clip(), like=call.broadcast.upload_like, parts=grant.parts)

    def _line(
        self,
        round_number: int,
        clients: list[int],
        *,
        owner: str,
        releases: int,
        price: Price | None = None,
        label: str = "update",
        clip: Clip | None = None,
    ) -> Line:
        tariff, sampler = self.tariff, self.tariff.sampler
        price = price or tariff.price(clients[0] if clients else 0, round_number)
        return Line(
            round=round_number,
            label=label,
            unit=tariff.unit,
            owner=owner,
            mechanism=tariff.mechanism.noise,
            norm=tariff.clip.norm,
            clip_bound=(clip or self._clip()).sensitivity,
            noise_multiplier=price.noise_multiplier,
            releases=releases,
            period=sampler.period,
            residue=sampler.residue(round_number),
            participants=tuple(clients),
            others=price.others,
            charges=price.charges,
        )


def _uploads(answers: Sequence[Answer]) -> list[Upload]:
    """By client number, whatever order they were asked in."""
    uploads = [Upload(client=answer.client, value=answer.released[UPDATE]) for answer in answers]
    return sorted(uploads, key=lambda upload: upload.client)
