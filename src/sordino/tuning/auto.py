"""Choose between tuning the head and tuning everything before the budget is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sordino.core import SordinoError
from sordino.methods.noisy_sgd import number
from sordino.models import Net
from sordino.settings import AtLeastOne, NotNegative, Scale
from sordino.tuning.choice import decided, full_batches, make_rule, noisy_steps, sentence, shares, verdict
from sordino.tuning.full import Full
from sordino.tuning.gradient_statistics import GradientSurvey, StatisticName, noise_multiplier
from sordino.tuning.head import Head
from sordino.tuning.rule import Coefficient, Estimate, Statistics
from sordino.tuning.strategy import TUNINGS, Phase, Tuning
from sordino.tuning.survey import AskClients, Choice, NoiseFacts, RunFacts
from sordino.tuning.unified import head_then_all

if TYPE_CHECKING:
    from sordino.privacy.event_kinds import DpEvent

SMALLEST_SMOOTHNESS = 1e-6
"""As a share of the largest: at zero, both constants would vanish and say nothing."""


@TUNINGS.register("auto")
@dataclass(frozen=True, kw_only=True)
class Auto(Tuning):
    """The head alone or everything, whichever the convergence bound prefers, by a few private statistics.

    Formal guarantee: each statistic is a Laplace release of every client, and all of a client's together cost `epsilon` by plain
    composition; the noise of the training is worked out for what the budget leaves. The choice is post-processing.
    """

    epsilon: Scale = 0.01
    """Of all statistics together, for each client."""
    statistics: Literal["decisive", "all"] = "decisive"
    coefficient: Coefficient = "printed"
    largest_gradient: Scale | None = None
    """The longest mean gradient that is told apart; by default the clip norm. A smaller one needs less noise."""
    probe_radius: Scale = 0.1
    """How far apart the two points are between which smoothness is measured."""
    iterations: AtLeastOne = 1
    """Local steps over which a client averages its moments and variances; the paper takes 5. All points but the first follow the
    client's rows, so that the noise must cover their whole range: see the plan for what that leaves of the choice."""
    c2: Scale | None = None
    """The constant that the paper leaves open: the rule then reckons with σ = c2·ξ·√(T·ln(1/δ))/(d·ε) in place of the noise that is drawn.
    The noise that is drawn stays what the budget needs."""
    assumed: tuple[NotNegative, NotNegative] | None = None
    """G1² and G2² that a plan shows the choice for; a run does not read them."""

    def trainable(self, net: Net) -> list[str]:
        Head().trainable(net)
        return Full().trainable(net)

    def names(self, *, full_batches: bool) -> tuple[StatisticName, ...]:
        """What is released. With full batches Λ1 and Λ2 are known to be zero; Γ follows from G2² and Λ2²."""
        if self.statistics == "decisive":
            return "G1²", "G2²"
        return ("G1²", "G2²", "L") if full_batches else ("G1²", "G2²", "Λ1²", "Λ2²", "L")

    def charges_before(self, run: RunFacts) -> Mapping[DpEvent, int]:
        """Budgets that do not cover the statistics are refused."""
        from sordino.privacy.event_kinds import LaplaceDpEvent

        names = self.names(full_batches=full_batches(run))
        for whose, epsilon in run.budgets.items():
            if epsilon <= self.epsilon:
                raise SordinoError(
                    f"The statistics of tuning = 'auto' cost ε = {self.epsilon:g}, but {whose} is {epsilon:g} and must leave some "
                    "for training; raise it or lower [tuning] epsilon."
                )
        return {LaplaceDpEvent(self._noise_multiplier(names, run)): len(names)}

    def choice_facts(self, net: Net, run: NoiseFacts) -> dict[str, str]:
        """Noise power, break-even, and the choice for assumed statistics."""
        rule = make_rule(net, run, self.coefficient, c2=self.c2)
        reach = self._largest_gradient(run) ** 2
        most = rule.break_even(Statistics(head_moment=reach, full_moment=reach))
        needed = rule.noise_power / rule.break_even(Statistics(head_moment=0.5, full_moment=0.5))
        possible = "FT is possible" if most >= rule.noise_power else "HT, whatever the statistics say"
        facts = {
            "noise power": f"P = {rule.noise_power:.4g} on the body's coordinates; FT is chosen from G1² + G2² = {needed:.4g} on, and "
            f"full batches of gradients clipped at {math.sqrt(reach):g} reach at most {2 * reach:.4g}: {possible}",
            "statistics": f"ε {self.epsilon:g} of each client's budget, Laplace noise; the training gets the rest",
        }
        if self.iterations > 1:
            facts["statistics"] += self._noise_of_iterations(net, run)
        if self.c2 is not None:
            drawn = make_rule(net, run, self.coefficient).noise_power
            facts["noise power"] += (
                f"; reckoned with c2 = {self.c2:g}, while the noise that is drawn has P = {drawn:.4g}"
            )
        if self.assumed is not None:
            head, full = self.assumed
            facts["choice"] = sentence(verdict(rule, Statistics(head_moment=head, full_moment=full), run))
        return facts

    def survey(self, net: Net, run: RunFacts) -> GradientSurvey:
        steps, names = noisy_steps(run), self.names(full_batches=full_batches(run))
        return GradientSurvey(
            names=names,
            noise_multiplier=self._noise_multiplier(names, run),
            steps=steps,
            clip=run.clip,
            largest_gradient=self._largest_gradient(run),
            probe_radius=self.probe_radius,
            head=tuple(net.parts()["head"]),
            chunk=steps.chunk or steps.workload(max(run.sizes))[0],
            iterations=self.iterations,
            pace=number(steps.learning_rate, "learning_rate") if self.iterations > 1 else 0.0,
        )

    def _noise_of_iterations(self, net: Net, run: NoiseFacts) -> str:
        """What averaging over a client's own steps costs, as the end of a plan's line."""
        survey, rows = self.survey(net, run), min(run.sizes)
        bound = survey.bound("G2²", rows)
        scale = survey.noise_multiplier * bound.sensitivity
        return (
            f"; averaged over {self.iterations} of a client's own steps, G² lies in [0, {bound.largest:.3g}] and gets noise of scale "
            f"{scale:.3g} from each client"
        )

    def decide(self, net: Net, run: NoiseFacts, ask: AskClients) -> Choice:
        """Estimate the statistics of every client, which is charged, and decide."""
        survey, weights = self.survey(net, run), shares(run.sizes)
        estimates = {
            name: Estimate(
                released=sum(w * value for w, value in zip(weights, values, strict=True)),
                smallest=SMALLEST_SMOOTHNESS * survey.bound("L", run.sizes[0]).largest if name == "L" else -math.inf,
                scales=[
                    w * survey.noise_multiplier * survey.bound(name, rows).sensitivity
                    for w, rows in zip(weights, run.sizes, strict=True)
                ],
            )
            for name, values in ask(survey).items()
        }
        return decided(make_rule(net, run, self.coefficient, c2=self.c2), estimates, run, epsilon=self.epsilon)

    def chosen_phases(self, net: Net, rounds: int, choice: Choice) -> tuple[Phase, ...]:
        return head_then_all(net, first=choice["head_rounds"], rounds=rounds)

    def _largest_gradient(self, run: RunFacts) -> float:
        return min(self.largest_gradient or math.inf, run.clip.bound)

    def _noise_multiplier(self, names: Sequence[StatisticName], run: RunFacts) -> float:
        return noise_multiplier(
            epsilon=self.epsilon, statistics=len(names), replace_one=run.neighbours == "replace-one"
        )
