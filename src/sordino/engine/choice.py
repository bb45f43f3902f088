"""The choice of `tuning = "auto"`: private statistics through the door, then the rule, before the first round."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sordino.core import Private, SordinoError
from sordino.engine.schedule import Task, Workers
from sordino.engine.tariff import Tariff
from sordino.experiment import Experiment
from sordino.methods.method import ClientContext, Method
from sordino.methods.noisy_sgd import NoisySgd
from sordino.models import FlatSpace, Net
from sordino.privacy.clipping import StatisticBound, bound_statistic
from sordino.privacy.door import Door
from sordino.privacy.ledger import Line
from sordino.privacy.mechanisms import Laplace
from sordino.privacy.pricing import price_local_steps
from sordino.tuning import Tuning
from sordino.tuning.auto import Auto
from sordino.tuning.gradient_statistics import Measure, StatisticName, Subject, measure
from sordino.tuning.rule import FLIP_DRAWS, Estimate, Rule, Statistics, flip_chance, noise_power

if TYPE_CHECKING:
    from sordino.engine.setup import Setup
    from sordino.privacy.event_kinds import DpEvent

SMALLEST_SMOOTHNESS = 1e-6
"""As a share of the largest: at zero, both constants would vanish and say nothing."""

Choice = dict[str, Any]
"""What was chosen and why, as it is kept in the run record."""


def charges_before(
    experiment: Experiment, tuning: Tuning, method: Method, sizes: Sequence[int] | None
) -> Mapping[DpEvent, int]:
    """What every client pays for the choice, if the tuning makes one; budgets that do not cover it are refused."""
    if not isinstance(tuning, Auto):
        return {}
    steps = _noisy_steps(method)
    privacy = experiment.privacy
    budgets = {f"the budget of client {k}": epsilon for k, epsilon in enumerate(privacy.client_epsilon or ())}
    if privacy.epsilon is not None:
        budgets["[privacy] epsilon"] = privacy.epsilon
    tuning.check_budgets(budgets)
    return tuning.charges(full_batches=_full_batches(steps, sizes or ()), neighbours=privacy.neighbours)


def choose_tuning(setup: Setup, tuning: Auto, door: Door, workers: Workers) -> Choice:
    """Estimate the statistics of every client, charge them, and decide."""
    measures = _measures(setup, tuning)
    names = tuning.names(full_batches=_full_batches(_noisy_steps(setup.method), setup.loaded.sizes))
    weights, multiplier = _weights(setup.loaded.sizes), _multiplier(setup, tuning)
    found = _private_statistics(setup, names, measures, workers)
    estimates: dict[str, Estimate] = {}
    for name in names:
        bounds = [public.bound(name) for public in measures]
        released = [
            release_statistic(
                found[client].map(itemgetter(name)),
                bound,
                door=door,
                client=client,
                noise_multiplier=multiplier,
                server_holds_data=setup.tariff.pooled,
            )
            for client, bound in enumerate(bounds)
        ]
        estimates[name] = Estimate(
            released=sum(w * value for w, value in zip(weights, released, strict=True)),
            smallest=SMALLEST_SMOOTHNESS * bounds[0].largest if name == "L" else -math.inf,
            scales=[w * multiplier * bound.sensitivity for w, bound in zip(weights, bounds, strict=True)],
        )
    rule = make_rule(setup.experiment, tuning, setup.method, setup.tariff, setup.whole)
    return _decided(rule, estimates, tuning, setup.experiment)


def make_rule(experiment: Experiment, tuning: Auto, method: Method, tariff: Tariff, net: Net) -> Rule:
    """The bound's constants for the noise that this tariff will draw."""
    assert tariff.sizes is not None
    steps, sizes = _noisy_steps(method), tariff.sizes
    deviations = [
        tariff.multiplier(client) * tariff.clip.bound / (steps.rate(rows) * rows) for client, rows in enumerate(sizes)
    ]
    per_scale = 2.0 if tariff.mechanism_name == "laplace" else 1.0
    return Rule(
        noise_power=noise_power(
            body_parameters=FlatSpace(net, net.parts()["body"]).size,
            weights=_weights(sizes),
            variances=[per_scale * deviation**2 for deviation in deviations],
            cohort_share=tariff.sampler.expected_cohort / len(sizes),
        ),
        rounds=experiment.rounds,
        clients=len(sizes),
        beta=steps.learning_rate * math.sqrt(experiment.rounds),
        coefficient=tuning.coefficient,
    )


def plan_facts(experiment: Experiment, tuning: Tuning, method: Method, tariff: Tariff, net: Net) -> dict[str, str]:
    """What a plan can say of the choice without any data: noise power, break-even, and the choice for assumed statistics."""
    if not isinstance(tuning, Auto):
        return {}
    rule = make_rule(experiment, tuning, method, tariff, net)
    reach = min(tuning.largest_gradient or math.inf, tariff.clip.bound) ** 2
    most = rule.break_even(Statistics(head_moment=reach, full_moment=reach))
    needed = rule.noise_power / rule.break_even(Statistics(head_moment=0.5, full_moment=0.5))
    verdict = "FT is possible" if most >= rule.noise_power else "HT, whatever the statistics say"
    facts = {
        "noise power": f"P = {rule.noise_power:.4g} on the body's coordinates; FT is chosen from G1² + G2² = {needed:.4g} on, and "
        f"full batches of gradients clipped at {math.sqrt(reach):g} reach at most {2 * reach:.4g}: {verdict}",
        "statistics": f"ε {tuning.epsilon:g} of each client's budget, Laplace noise; the training gets the rest",
    }
    if tuning.assumed is not None:
        head, full = tuning.assumed
        facts["choice"] = _sentence(_verdict(rule, Statistics(head_moment=head, full_moment=full), experiment))
    return facts


def _sentence(choice: Mapping[str, Any]) -> str:
    """The choice in one line."""
    one, other = choice["constants"]
    return (
        f"{choice['strategy']}: {one} = {choice['constants'][one]:.4g}, {other} = {choice['constants'][other]:.4g}, margin "
        f"{choice['margin']:+.4g} ({choice['coefficient']} coefficient); noise power {choice['noise_power']:.4g}, break-even at "
        f"{choice['break_even_noise_power']:.4g}" + _doubt(choice)
    )


def _doubt(choice: Mapping[str, Any]) -> str:
    if "flip_chance" not in choice:
        return ""
    shares = ", ".join(f"{name} {each['noise_to_signal']:.2g}" for name, each in choice["statistics"].items())
    chance = f"{choice['flip_chance']:.2g}" if choice["flip_chance"] else f"below {1 / FLIP_DRAWS:g}"
    return f"; the statistics' own noise would turn the choice with chance {chance} (noise to signal: {shares})"


def _decided(rule: Rule, estimates: Mapping[str, Estimate], tuning: Auto, experiment: Experiment) -> Choice:
    found = Statistics.named({name: estimate.value for name, estimate in estimates.items()})
    choice = {
        **_verdict(rule, found, experiment),
        "flip_chance": flip_chance(rule, estimates),
        "epsilon": tuning.epsilon,
        "statistics": {
            name: {
                "value": estimate.value,
                "noise_deviation": estimate.deviation,
                "noise_to_signal": estimate.deviation / estimate.value if estimate.value > 0 else math.inf,
            }
            for name, estimate in estimates.items()
        },
    }
    return {**choice, "sentence": _sentence(choice)}


def _verdict(rule: Rule, found: Statistics, experiment: Experiment) -> Choice:
    letter = "C" if experiment.privacy.mechanism_table["name"] == "laplace" else "E"
    head, full = (float(constant) for constant in rule.constants(found))
    chosen = bool(rule.prefers_full(found))
    return {
        "strategy": "FT" if chosen else "HT",
        "head_rounds": 0 if chosen else experiment.rounds,
        "constants": {f"{letter}1": head, f"{letter}2": full},
        "units": "8β²L²/T²" if found.smoothness is None else "1",
        "margin": head - full,
        "coefficient": rule.coefficient,
        "noise_power": rule.noise_power,
        "break_even_noise_power": rule.break_even(found),
    }


def _private_statistics(
    setup: Setup, names: Sequence[StatisticName], measures: Sequence[Measure], workers: Workers
) -> list[Private[dict[str, float]]]:
    start = setup.space.read(setup.net)
    steps = _noisy_steps(setup.method)
    chunk = steps.chunk or steps.workload(max(setup.loaded.sizes))[0]

    def work(task: Task, context: ClientContext) -> Private[dict[str, float]]:
        subject = Subject(
            net=context.net,
            space=context.space,
            start=start,
            head=setup.whole.parts()["head"],
            chunk=chunk,
            device=context.device,
        )
        return task.data.map(functools.partial(measure, names=names, subject=subject, public=measures[task.client]))

    tasks = [
        Task(client=client, round=0, size=rows, start=start, data=setup.loaded.client(client))
        for client, rows in enumerate(setup.loaded.sizes)
    ]
    return workers.each(tasks, work)


def release_statistic(
    value: Private[float],
    bound: StatisticBound,
    *,
    door: Door,
    client: int,
    noise_multiplier: float,
    server_holds_data: bool,
) -> float:
    """One number of one client, through the door with Laplace noise."""
    price = price_local_steps(
        mechanism=Laplace(),
        noise_multiplier=noise_multiplier,
        rate=1.0,
        steps=1,
        server_holds_data=server_holds_data,
    )
    permit = door.open(
        Line(
            round=0,
            label="statistic",
            unit="example",
            owner=f"client {client}",
            mechanism="laplace",
            norm="l1",
            clip_bound=bound.sensitivity,
            noise_multiplier=noise_multiplier,
            releases=1,
            participants=(client,),
            charges=price.charges,
        )
    )
    return float(permit.release(bound_statistic(value, bound)).value)


def _measures(setup: Setup, tuning: Auto) -> list[Measure]:
    steps = _noisy_steps(setup.method)
    clip = setup.tariff.clip
    return [
        Measure(
            rows=rows,
            rate=steps.rate(rows),
            clip=clip,
            largest_gradient=min(tuning.largest_gradient or math.inf, clip.bound),
            probe_radius=tuning.probe_radius,
        )
        for rows in setup.loaded.sizes
    ]


def _multiplier(setup: Setup, tuning: Auto) -> float:
    return tuning.noise_multiplier(
        full_batches=_full_batches(_noisy_steps(setup.method), setup.loaded.sizes),
        neighbours=setup.experiment.privacy.neighbours,
    )


def _noisy_steps(method: Method) -> NoisySgd:
    """The steps that the rule is about: one for each round, with noise inside the client."""
    steps = method.job
    if not isinstance(steps, NoisySgd) or steps.local_steps != 1:
        raise SordinoError(
            "tuning = 'auto' chooses for one noisy step inside each client and round, but got another method; set [method] "
            "name = 'dp-sgd' with local_steps = 1, give 'fedceo' such noisy_steps, or choose tuning = 'head' or 'full'."
        )
    return steps


def _full_batches(steps: NoisySgd, sizes: Sequence[int]) -> bool:
    return all(steps.rate(rows) >= 1 for rows in sizes)


def _weights(sizes: Sequence[int]) -> list[float]:
    return [rows / sum(sizes) for rows in sizes]
