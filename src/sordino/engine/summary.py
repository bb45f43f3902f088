"""The summary of a finished run: what was reached, at which ε, for whom. docs/run-record.md describes the schema."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sordino.core import View
from sordino.engine.evaluate import accuracy_epsilon_area
from sordino.engine.evaluation_rows import warnings_about_test_rows
from sordino.engine.messages import Missing
from sordino.engine.scoring import about_accuracy
from sordino.engine.setup import Setup
from sordino.engine.tariff import warnings_of
from sordino.engine.traffic import Traffic
from sordino.models import FlatSpace
from sordino.privacy.ledger import LISTED, Ledger, ViewReport

NOT_MEASURED = "The budget was spent before the final model's accuracy could be released, so nobody knows it."


def epsilon_by_view(ledger: Ledger) -> dict[View, dict[str, Any]]:
    return {view: _view(report, ledger) for view, report in ledger.report().items()}


def _view(report: ViewReport, ledger: Ledger) -> dict[str, Any]:
    each = report.per_client
    return {
        "epsilon": report.worst.epsilon,
        "delta": ledger.delta,
        "accountant": report.worst.accountant,
        "also": dict(report.worst.also),
        "worst_client": report.worst_client,
        "median_client": statistics.median(each.values()) if each else 0.0,
        "per_client": {str(client): epsilon for client, epsilon in each.items()} if ledger.clients <= LISTED else {},
        "because": report.because,
        "note": report.worst.note,
    }


def _absences(missing: Sequence[Missing]) -> dict[str, dict[str, Any]]:
    """Who left seats empty: how often, and why the last time."""
    times = Counter(one.client for one in missing)
    return {str(one.client): {"times": times[one.client], "because": one.because} for one in missing}


def summarise(
    setup: Setup,
    *,
    metrics: Sequence[Mapping[str, Any]],
    ledger: Ledger,
    rounds: int,
    ended: str,
    seconds: float,
    traffic: Traffic,
    choice: dict[str, Any],
    schedule: str,
    missing: Sequence[Missing],
    diagnostics: dict[str, Any],
) -> dict[str, Any]:
    """The scores are those of the final model; none where the budget was spent before they could be released.

    `ended` says why there were fewer `rounds` than planned; nothing where there were not.
    """
    experiment, tariff = setup.experiment, setup.tariff
    privacy = experiment.privacy
    simulated = privacy.noise_source == "seeded"
    last = metrics[-1] if metrics and metrics[-1]["round"] == rounds - 1 else {}
    return {
        "name": experiment.name,
        "method": experiment.method["name"],
        "tuning": experiment.tuning["name"],
        "tuning_facts": setup.resolved.tuning.plan_facts(setup.whole),
        "class_names": list(setup.loaded.source.class_names),
        "target": None if setup.loaded.source.target is None else setup.loaded.source.target.to_json(),
        "accuracy": last.get("accuracy"),
        "auroc": last.get("auroc"),
        **about_accuracy(last),
        "accuracy_epsilon_area": accuracy_epsilon_area(metrics),
        "unit": tariff.unit,
        "neighbours": privacy.neighbours,
        "view": privacy.view,
        "epsilon": epsilon_by_view(ledger),
        "noise_multiplier": tariff.noise_multiplier,
        "clip_norm": tariff.clip.bound,
        "mechanism": tariff.mechanism_name,
        "noise": tariff.noise_drawn,
        "noise_source": privacy.noise_source,
        "simulation": simulated,
        "simulation_note": "the seed is stored beside the releases, so this is a simulation and not a private release"
        if simulated
        else "",
        "clients": tariff.sampler.clients,
        "client_names": list(setup.loaded.names) if ledger.clients <= LISTED else [],
        "expected_cohort": tariff.sampler.expected_cohort,
        "rounds": rounds,
        "rounds_planned": experiment.rounds,
        "ended_early": ended,
        "parameters": sum(parameter.numel() for parameter in setup.whole.parameters()),
        "trained_parameters": setup.space.size,
        "phases": [
            {"first_round": phase.first_round, "trained_parameters": FlatSpace(setup.whole, phase.trainable).size}
            for phase in setup.phases
        ],
        "choice": choice,
        "seconds": seconds,
        "bytes_up": traffic.up,
        "bytes_down": traffic.down,
        "schedule": schedule,
        "missing": _absences(missing),
        "ledger_head": ledger.head,
        "ledger_lines": len(ledger.lines),
        "warnings": [
            *([ended] if ended else []),
            *([] if last else [NOT_MEASURED]),
            *warnings_of(tariff, privacy, rows=sum(setup.federated.sizes)),
            *warnings_about_test_rows(setup.resolved, setup.loaded.source),
            *setup.loaded.source.notes,
            *setup.start_warnings,
        ],
        "non_private_diagnostics": diagnostics,
    }
