"""From a resolved experiment to its tariff: the mechanism, the clip, the sampler, and the noise that a target ε needs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from sordino.core import SordinoError
from sordino.engine.charged_evaluation import charged_evaluation
from sordino.engine.neighbours import refuse_counted_units
from sordino.engine.priced_steps import priced_steps
from sordino.engine.resolved import Resolved
from sordino.engine.tariff import Multipliers, Tariff
from sordino.experiment import Experiment, PrivacySection
from sordino.privacy.calibration import calibrate
from sordino.privacy.clipping import Clip
from sordino.privacy.mechanisms import Mechanism
from sordino.privacy.pricing import neighbours_in, unbounded
from sordino.privacy.samplers import SAMPLERS, CohortSampler

if TYPE_CHECKING:
    from sordino.privacy.event_kinds import DpEvent


def make_tariff(
    resolved: Resolved,
    *,
    clients: int,
    sizes: Sequence[int] | None,
    before: Mapping[DpEvent, int] = MappingProxyType({}),
    settled: Multipliers | None = None,
) -> Tariff:
    """The tariff of an experiment, with the noise worked out where a target ε was given, or `settled` when the run began."""
    method, privacy = resolved.method, resolved.privacy
    refuse_counted_units(resolved)
    tariff = Tariff(
        unit=method.unit,
        uses=method.uses,
        protected=method.protected,
        pooled=method.pooled,
        steps=priced_steps(method),
        sizes=sizes,
        mechanism_name=privacy.mechanism_table["name"],
        mechanism=_mechanism(resolved),
        placement=privacy.noise,
        sampler=make_sampler(resolved.experiment, clients=clients),
        clip=make_clip(resolved),
        colluders=privacy.colluders,
        noise_multiplier=privacy.noise_multiplier or 0.0,
        uncovered=method.uncovered,
        personal=method.personalised,
        before=before,
        evaluation=charged_evaluation(resolved, clients=clients, before=before),
        spare_rounds=privacy.spare_rounds,
    )
    _check_colluders(tariff)
    if not method.protected:
        return tariff
    tariff = dataclasses.replace(tariff, mechanism=tariff.mechanism.for_run(tariff.shape))
    return _with_noise(tariff, privacy, clients) if settled is None else _with_settled_noise(tariff, privacy, settled)


def _mechanism(resolved: Resolved) -> Mechanism:
    """The mechanism, if it suits the method."""
    method, mechanism = resolved.method, resolved.mechanism
    if method.unit == "client" and method.protected and mechanism.not_for_clients:
        raise SordinoError(
            f"Mechanism {resolved.privacy.mechanism_table['name']!r} is for example-level methods, but "
            f"{resolved.experiment.method['name']!r} protects clients: {mechanism.not_for_clients}; choose method 'dp-sgd' or another "
            "mechanism."
        )
    return mechanism


def _check_colluders(tariff: Tariff) -> None:
    """Refuse a number of colluders that leaves no noise share unknown; a lone client has nobody to hide from anyway."""
    colluders, clients, seats = tariff.colluders, tariff.sampler.clients, tariff.sampler.seats
    if colluders > max(1, clients - 1):
        raise SordinoError(
            f"[privacy] colluders = {colluders} is more than the {clients - 1} others that a client has among the {clients} that train; "
            "lower it."
        )
    shared = tariff.protected and tariff.steps is None and tariff.placement != "central" and tariff.uses == "sum"
    if shared and 1 < colluders >= seats:
        raise SordinoError(
            f"[privacy] colluders = {colluders} would know all {seats} noise shares of a round, so that none is left to hide a "
            "client; lower it or raise expected_cohort."
        )


def make_clip(resolved: Resolved) -> Clip:
    """How far one unit may move a sum: as the file says, and not at all limited where no privacy is claimed."""
    method, mechanism = resolved.method, resolved.mechanism
    groups = resolved.tuning.clip_groups() if method.protected else {}
    if groups and method.unit != "example":
        raise SordinoError(
            f"Method {resolved.experiment.method['name']!r} clips whole updates, but [tuning] clip = 'separate' clips "
            f"{' and '.join(groups)} apart in every example's gradient; set clip = 'joint', or choose method 'dp-sgd'."
        )
    if groups and mechanism.clips_as_one:
        raise SordinoError(
            f"Mechanism {resolved.privacy.mechanism_table['name']!r} clips each gradient as one, but [tuning] clip = 'separate' clips "
            f"{' and '.join(groups)} apart; set clip = 'joint', or choose another mechanism."
        )
    bound = resolved.privacy.clip_norm if method.protected else math.inf
    return Clip(bound=bound, norm=mechanism.norm, groups=groups)


def make_sampler(experiment: Experiment, *, clients: int) -> CohortSampler:
    privacy = experiment.privacy
    kind = SAMPLERS["everyone"] if clients == 1 else SAMPLERS[privacy.sampler]
    pools = 1 if privacy.participation_cap is None else math.ceil(experiment.rounds / privacy.participation_cap)
    everyone = max(1, clients // max(1, pools))
    asked = None if kind is SAMPLERS["everyone"] else privacy.expected_cohort
    return kind(
        clients=clients,
        rounds=experiment.rounds,
        participation_cap=privacy.participation_cap,
        expected_cohort=asked or everyone,
        bounded=privacy.noise != "central",
    )


def _with_settled_noise(tariff: Tariff, privacy: PrivacySection, settled: Multipliers) -> Tariff:
    return dataclasses.replace(
        tariff,
        noise_multiplier=settled.common,
        per_client=settled.per_client,
        retires=privacy.client_epsilon is not None,
    )


def _with_noise(tariff: Tariff, privacy: PrivacySection, clients: int) -> Tariff:
    own = privacy.client_budgets(clients)
    if own is not None and len(own) != clients:
        raise SordinoError(
            f"[privacy] client_epsilon lists {len(own)} budgets, but there are {clients} clients; give one for each."
        )
    if own is not None and tariff.placement == "central" and tariff.unit == "client":
        raise SordinoError(
            "Budgets per client need noise that each client draws itself; set [privacy] noise = 'local'."
        )
    if privacy.noise_multiplier is not None:
        fixed = dict.fromkeys(range(clients), privacy.noise_multiplier) if own is not None else {}
        return dataclasses.replace(tariff, per_client=fixed, retires=own is not None)
    if own is not None:
        apart = dataclasses.replace(tariff, uses="each")
        each = {client: _calibrated(apart, privacy, epsilon, client) for client, epsilon in enumerate(own)}
        return dataclasses.replace(tariff, per_client=each, noise_multiplier=max(each.values()), retires=True)
    if privacy.epsilon is None:
        raise SordinoError(
            "[privacy] needs epsilon (the target) or noise_multiplier, but got neither; set one, or choose method 'fedavg' for no privacy."
        )
    return dataclasses.replace(tariff, noise_multiplier=_calibrated_for_all(tariff, privacy, privacy.epsilon))


def _calibrated_for_all(tariff: Tariff, privacy: PrivacySection, epsilon: float) -> float:
    reference = dataclasses.replace(tariff, noise_multiplier=1.0)
    return max(_calibrated(tariff, privacy, epsilon, client) for client in reference.worst_bills(privacy.view))


def _calibrated(tariff: Tariff, privacy: PrivacySection, epsilon: float, client: int) -> float:
    """The least noise with which this client's worst bill over the whole run stays within ε in the chosen view."""

    def with_noise(noise_multiplier: float) -> Tariff:
        return dataclasses.replace(tariff, noise_multiplier=noise_multiplier)

    first_round = client % tariff.sampler.period
    reference = with_noise(1.0).price(client, first_round).in_view(privacy.view)
    if unbounded(reference.event):
        raise SordinoError(
            f"No noise can reach ε = {epsilon:g} in the {privacy.view} view, because {reference.because}; "
            "choose another [privacy] view or noise."
        )
    neighbours = neighbours_in(privacy.view, privacy.neighbours)
    return calibrate(
        lambda noise: with_noise(noise).bill(client, privacy.view),
        epsilon=epsilon,
        delta=privacy.delta,
        neighbours=neighbours,
    )
