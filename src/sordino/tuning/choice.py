"""The choice of `tuning = "auto"`: from released statistics to a verdict, with how sure it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sordino.core import SordinoError
from sordino.methods.noisy_sgd import NoisySgd, number
from sordino.models import FlatSpace, Net
from sordino.tuning.rule import FLIP_DRAWS, Coefficient, Estimate, Rule, Statistics, flip_chance, noise_power
from sordino.tuning.survey import Choice, NoiseFacts, RunFacts


def noisy_steps(run: RunFacts) -> NoisySgd:
    """The steps that the rule is about: one for each round, with noise inside the client."""
    steps = run.job
    if not isinstance(steps, NoisySgd) or steps.local_steps != 1:
        raise SordinoError(
            "tuning = 'auto' chooses for one noisy step inside each client and round, but got another method; set [method] "
            "name = 'dp-sgd' with local_steps = 1, give 'fedceo' such noisy_steps, or choose tuning = 'head' or 'full'."
        )
    return steps


def full_batches(run: RunFacts) -> bool:
    steps = noisy_steps(run)
    return all(steps.rate(rows) >= 1 for rows in run.sizes)


def shares(sizes: Sequence[int]) -> list[float]:
    """How much each client counts, by its rows."""
    return [rows / sum(sizes) for rows in sizes]


def make_rule(net: Net, run: NoiseFacts, coefficient: Coefficient, *, c2: float | None = None) -> Rule:
    """The bound's constants for the noise that this run will draw, or that the paper's formula gives with this constant."""
    steps = noisy_steps(run)
    deviations = [
        multiplier * run.clip.bound / (steps.rate(rows) * rows)
        for multiplier, rows in zip(run.multipliers, run.sizes, strict=True)
    ]
    if c2 is not None:
        deviations = _published_deviations(run, c2)
    per_scale = 2.0 if run.noise == "laplace" else 1.0
    return Rule(
        noise_power=noise_power(
            body_parameters=FlatSpace(net, net.parts()["body"]).size,
            weights=shares(run.sizes),
            variances=[per_scale * deviation**2 for deviation in deviations],
            cohort_share=run.cohort_share,
        ),
        rounds=run.rounds,
        clients=len(run.sizes),
        beta=number(steps.learning_rate, "learning_rate") * math.sqrt(run.rounds),
        coefficient=coefficient,
    )


def _published_deviations(run: NoiseFacts, c2: float) -> list[float]:
    """σ_i = c2·ξ·√(T·ln(1/δ))/(d_i·ε_i) of each client."""
    if run.noise != "gaussian" or not run.client_epsilons or not run.delta:
        raise SordinoError(
            "[tuning] c2 is the constant of the paper's Gaussian noise at a given ε and δ, but got "
            + (f"{run.noise} noise" if run.noise != "gaussian" else "no target ε or δ")
            + "; set [privacy] epsilon, delta and mechanism = 'gaussian', or leave c2 out."
        )
    root = math.sqrt(run.rounds * math.log(1 / run.delta))
    return [c2 * run.clip.bound * root / (rows * own) for rows, own in zip(run.sizes, run.client_epsilons, strict=True)]


def verdict(rule: Rule, found: Statistics, run: NoiseFacts) -> Choice:
    """What the rule prefers at these statistics."""
    letter = "C" if run.noise == "laplace" else "E"
    head, full = (float(constant) for constant in rule.constants(found))
    chosen = bool(rule.prefers_full(found))
    return {
        "strategy": "FT" if chosen else "HT",
        "head_rounds": 0 if chosen else run.rounds,
        "constants": {f"{letter}1": head, f"{letter}2": full},
        "units": "8β²L²/T²" if found.smoothness is None else "1",
        "margin": head - full,
        "coefficient": rule.coefficient,
        "noise_power": rule.noise_power,
        "break_even_noise_power": rule.break_even(found),
    }


def decided(rule: Rule, estimates: Mapping[str, Estimate], run: NoiseFacts, *, epsilon: float) -> Choice:
    """The verdict on released statistics, with what their own noise may have done to it."""
    found = Statistics.named({name: estimate.value for name, estimate in estimates.items()})
    choice = {
        **verdict(rule, found, run),
        "flip_chance": flip_chance(rule, estimates),
        "epsilon": epsilon,
        "statistics": {
            name: {
                "value": estimate.value,
                "noise_deviation": estimate.deviation,
                "noise_to_signal": estimate.deviation / estimate.value if estimate.value > 0 else math.inf,
            }
            for name, estimate in estimates.items()
        },
    }
    return {**choice, "sentence": sentence(choice)}


def sentence(choice: Mapping[str, Any]) -> str:
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
    noisy = ", ".join(f"{name} {each['noise_to_signal']:.2g}" for name, each in choice["statistics"].items())
    chance = f"{choice['flip_chance']:.2g}" if choice["flip_chance"] else f"below {1 / FLIP_DRAWS:g}"
    return f"; the statistics' own noise would turn the choice with chance {chance} (noise to signal: {noisy})"
