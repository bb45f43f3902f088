"""The plan: noise, ε per view, memory and time, worked out of public facts before anything is trained."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.core import View
from sordino.data.beside import relative_to
from sordino.data.kept import keeping
from sordino.data.source import describe
from sordino.engine.bought_statistics import statistic_facts
from sordino.engine.building import check_start, start_facts
from sordino.engine.client_names import client_names
from sordino.engine.costing.subject import Costs, Subject
from sordino.engine.dealing import client_sizes
from sordino.engine.effort import Effort
from sordino.engine.evaluation_rows import evaluation_fact, refuse_silent_split, warnings_about_test_rows
from sordino.engine.guessed_words import refuse_guessed_words
from sordino.engine.process_cost import process_facts
from sordino.engine.public_part import part_facts, warnings_about_part
from sordino.engine.resolved import resolve
from sordino.engine.row_checks import refuse_bad_rows
from sordino.engine.run_facts import noise_facts
from sordino.engine.setup import make_parts
from sordino.engine.simulate.dropping import check_dropping
from sordino.engine.tariff import Tariff, warnings_of
from sordino.engine.traffic import BYTES_PER_NUMBER
from sordino.engine.turns import turn_facts
from sordino.experiment import Experiment, PrivacySection
from sordino.kernels.native import about_missing
from sordino.methods import Method
from sordino.models import FlatSpace
from sordino.outside import look_beside
from sordino.privacy.accounting import Spent
from sordino.sentences import first_line
from sordino.threads import compute_threads
from sordino.tuning import Task


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run will promise and cost."""

    experiment: Experiment
    tariff: Tariff
    epsilon: dict[View, Spent]
    client_names: tuple[str, ...]
    epsilon_per_client: dict[int, float]
    """In the promised view, where clients pay unequally and there are few."""
    warnings: list[str]
    parameters: int
    trained_parameters: int
    work: float
    """Multiplications of the whole run, by counts alone."""
    costs: Costs | None
    """Seconds and memory on this machine; None where nobody asked for a trial."""
    bytes_per_client_and_round: int
    method_facts: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        tariff, privacy = self.tariff, self.experiment.privacy
        charges = {charge.view: charge for charge in tariff.price(0, 0).charges}
        return {
            "name": self.experiment.name,
            "method": self.experiment.method["name"],
            "unit": tariff.unit,
            "neighbours": privacy.neighbours,
            "view": privacy.view,
            "noise_multiplier": tariff.noise_multiplier,
            "noise_per_release": tariff.price(0, 0).noise_multiplier,
            "clip_norm": tariff.clip.bound,
            "mechanism": tariff.mechanism_name,
            "noise": tariff.noise_drawn,
            "noise_source": privacy.noise_source,
            "clients": tariff.sampler.clients,
            "expected_cohort": tariff.sampler.expected_cohort,
            "rounds": self.experiment.rounds,
            "most_participations": tariff.sampler.turns(0),
            "epsilon": {
                view: {
                    "epsilon": price.epsilon,
                    "delta": price.delta,
                    "accountant": price.accountant,
                    "also": dict(price.also),
                    "because": charges[view].because,
                    "note": price.note,
                }
                for view, price in self.epsilon.items()
            },
            "client_names": list(self.client_names),
            "epsilon_per_client": {str(client): epsilon for client, epsilon in self.epsilon_per_client.items()},
            "parameters": self.parameters,
            "trained_parameters": self.trained_parameters,
            "work": self.work,
            "costs": None if self.costs is None else self.costs.to_json(),
            "bytes_per_client_and_round": self.bytes_per_client_and_round,
            "method_facts": self.method_facts,
            "warnings": self.warnings,
        }


def make_plan(
    experiment: Experiment,
    *,
    all_accountants: bool = False,
    folder: Path | None = None,
    measure: bool = False,
    before: float = 0.0,
) -> Plan:
    """Plan a run; with `all_accountants`, ε also by those that do not vouch for it, which takes longer.

    What a run would refuse is refused here, and rows are looked at for that alone. Each client's number of rows, which is declared
    public, is learnt by making the simulated partition from the labels; no figure depends on anything else of the data. Relative
    paths begin in `folder`. With `measure`, time and memory are found by a trial of a few seconds on made-up rows; `before` are
    seconds that the process took to get here, which a run takes too.
    """
    begin = folder or Path.cwd()
    look_beside(begin)
    with relative_to(begin):
        # as a single worker does: on a busy machine, several threads would mostly wait for each other
        with compute_threads(1), keeping():
            plan, subject = _planned(experiment, all_accountants=all_accountants, folder=begin)
        if not measure:
            return plan
        from sordino.engine.costing.costs import measure as tried

        try:
            costs = tried(dataclasses.replace(subject, before=before + subject.before))
        except Exception as error:  # a method, model or mechanism of the user's own may raise anything
            unknown = f"Time and memory are not known, because a trial on made-up rows ended with: {first_line(error)}"
            return dataclasses.replace(plan, warnings=[*plan.warnings, unknown])
        return dataclasses.replace(plan, costs=costs)


def _planned(experiment: Experiment, *, all_accountants: bool, folder: Path) -> tuple[Plan, Subject]:
    resolved = resolve(experiment)
    tuning = resolved.tuning
    look = time.process_time()
    facts = describe(resolved.source, seed=experiment.seed, test=resolved.test_rows)
    looking = time.process_time() - look
    refuse_silent_split(resolved, facts)
    refuse_guessed_words(resolved, facts)
    sizes = client_sizes(resolved)
    task = Task(shape=facts.shape, classes=facts.classes)
    begin = time.perf_counter()
    parts = make_parts(resolved, task=task, vocabulary=facts.vocabulary, sizes=sizes)
    priced = time.perf_counter() - begin
    resolved, tariff, model = parts.resolved, parts.tariff, parts.model
    each = tariff.each(experiment.privacy)
    method, net, space = resolved.method, model.net, parts.spaces[-1]
    known_to_start = start_facts(resolved, model, folder=folder)
    start_warnings = check_start(resolved, model, known_to_start)
    held_out = facts.n_train - sum(sizes)
    effort = Effort(
        resolved=resolved,
        net=net,
        phase=parts.phases[-1],
        shape=facts.shape,
        tokens=facts.kind == "text",
        sizes=sizes,
        cohort=tariff.sampler.expected_cohort,
        test_rows=facts.n_test,
    )
    looked = refuse_bad_rows(resolved, facts, known_to_start)
    subject = Subject(
        parts=parts,
        facts=facts,
        sizes=sizes,
        folder=folder,
        before=priced,
        looking=looking,
        evaluations=effort.evaluations,
        looked=looked,
    )
    plan = Plan(
        experiment=experiment,
        tariff=tariff,
        epsilon=tariff.worst(experiment.privacy, all_accountants=all_accountants),
        client_names=client_names(resolved, facts.group_names, clients=len(sizes)),
        epsilon_per_client=each,
        warnings=[
            *warnings_of(tariff, experiment.privacy, rows=facts.n_train),
            *warnings_about_test_rows(resolved, facts),
            *facts.notes,
            *looked.notes,
            *start_warnings,
            *warnings_about_part(resolved, facts, folder=folder),
            *_about_unequal(each, experiment.privacy),
            *about_missing(),
        ],
        parameters=sum(parameter.numel() for parameter in net.parameters()),
        trained_parameters=space.size,
        work=effort.whole,
        costs=None,
        bytes_per_client_and_round=_traffic(method, space),
        method_facts={
            **method.plan_facts(experiment.rounds),
            **tuning.plan_facts(net),
            **tuning.choice_facts(net, noise_facts(resolved, tariff, sizes)),
            **statistic_facts(resolved),
            **tariff.noise_facts(),
            **turn_facts(resolved, tariff, sizes=sizes),
            **tariff.spare_facts(experiment.privacy),
            **process_facts(experiment, clients=len(sizes)),
            **check_dropping(experiment),
            **part_facts(resolved, facts, folder=folder),
            "evaluation": evaluation_fact(effort, facts, tariff.evaluation, held_out=held_out),
        },
    )
    return plan, subject


def _about_unequal(each: dict[int, float], privacy: PrivacySection) -> list[str]:
    """What whoever promises one ε should know where clients pay unequally."""
    if not each or privacy.epsilon is None or privacy.client_epsilon is not None:
        return []
    return [
        f"Clients pay unequally, from ε = {min(each.values()):.3g} to {max(each.values()):.3g}, because the noise is worked out for the "
        "one that pays most. Set [privacy] client_epsilon = 'equal' to give each the noise that it needs, and not more."
    ]


def _traffic(method: Method, space: FlatSpace) -> int:
    return math.ceil((space.size + method.upload_numbers(space)) * BYTES_PER_NUMBER)
