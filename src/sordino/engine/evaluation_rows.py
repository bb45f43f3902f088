"""What plans and runs say about the rows that a model is tested on, and when they refuse."""

from __future__ import annotations

from typing import Protocol

from sordino.core import SordinoError
from sordino.data.evaluation_rows import WAYS, SeparateSource, SetAside
from sordino.engine.charged_evaluation import ChargedEvaluation
from sordino.engine.effort import Effort
from sordino.engine.resolved import Resolved


class Known(Protocol):
    """What is known of a source, loaded or not."""

    @property
    def set_aside(self) -> bool: ...

    @property
    def n_test(self) -> int: ...


def refuse_silent_split(resolved: Resolved, source: Known) -> None:
    """A secure run makes no private row public without a word of the person whose rows they are."""
    if not resolved.simulated and _silently_public(resolved, source):
        raise SordinoError(
            f"[data] source {resolved.experiment.data.source!r} has no test split of its own, and a secure run does not make private "
            f"rows a public one without a word; in [data], {WAYS}."
        )


def warnings_about_test_rows(resolved: Resolved, source: Known) -> list[str]:
    """What a simulation should know of the rows it was tested on."""
    if not _silently_public(resolved, source):
        return []
    return [
        f"{source.n_test} rows of {resolved.experiment.data.source!r} were set aside as a test split that counts as public, and what "
        f"is measured on them is not charged. A secure run refuses that: in [data], {WAYS}."
    ]


def _silently_public(resolved: Resolved, source: Known) -> bool:
    rows = resolved.test_rows
    declared = isinstance(rows, SetAside) and rows.declared
    return source.set_aside and not declared and resolved.experiment.data.visibility == "private"


def evaluation_fact(effort: Effort, source: Known, evaluation: ChargedEvaluation | None, *, held_out: int) -> str:
    """One line of a plan: on what the model is evaluated, how often, and at what cost."""
    resolved = effort.resolved
    experiment, rows = resolved.experiment, resolved.test_rows
    times = _times(len(effort.evaluations))
    if evaluation is not None:
        return _charged_fact(times, evaluation, held_out)
    if isinstance(rows, SeparateSource):
        what = f"{source.n_test} rows of {rows.source!r}, declared public"
    elif not source.set_aside:
        what = f"{source.n_test} rows of the source's own test split, which counts as public"
    elif experiment.data.visibility == "public":
        what = f"{source.n_test} public rows set aside"
    else:
        said = "declared public" if not _silently_public(resolved, source) else "which count as public"
        what = f"{source.n_test} rows set aside from {experiment.data.source!r}, {said}"
    return f"{times} on {what}; it costs nothing" + (effort.fact and f"; {effort.fact}")


def _charged_fact(times: str, evaluation: ChargedEvaluation, held_out: int) -> str:
    error = 100 * evaluation.deviation(held_out)
    return (
        f"{times} on {held_out} rows held out by the clients, which stay private; ε {evaluation.epsilon:g} in all, "
        f"{evaluation.mechanism.noise} noise: each accuracy "
        f"is ± {error:.2g} points (standard deviation of the noise); the training gets the rest"
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
