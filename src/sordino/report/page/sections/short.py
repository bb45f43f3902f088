"""In short: who wins at which budget, on how many runs, and what a reader must know first."""

from __future__ import annotations

from collections.abc import Mapping

from sordino.core import View
from sordino.report.comparison.axes import NOT_ON_ONE_AXIS
from sordino.report.comparison.choices import about_choice
from sordino.report.comparison.comparing import Contest
from sordino.report.drawing.elements import Markup, element, text
from sordino.report.page.pieces import bullets, cards, details, note, section
from sordino.report.page.told import Story
from sordino.report.terminal import epsilon_text

SIMULATED = (
    "These runs are simulations: their noise is seeded and can be drawn again. The figures hold for runs with secure noise; the "
    "models of these very runs are not private releases."
)
SECRET = (
    "The ε of a choice holds only while the other runs stay secret, and this page shows them: keep it with the server."
)


def in_short(story: Story) -> Markup:
    contests = story.contests["public"]
    verdicts = [
        element("p", text(_sentence(contest, several=len(contests) > 1)), class_="verdict") for contest in contests
    ]
    apart = note(NOT_ON_ONE_AXIS.format(count=len(contests))) if len(contests) > 1 else Markup("")
    tried = len(story.configurations)
    return section(
        "short",
        "In short",
        *(element("p", text(remark), class_="verdict") for remark in story.remarks),
        cards(_cards(story)),
        *verdicts,
        apart,
        note(
            SIMULATED if story.is_simulated else "",
            about_choice(tried, story.folders, before=story.trials_before),
            SECRET if _has_choice(story) else "",
        ),
        _failed(story),
    )


def _sentence(contest: Contest, *, several: bool) -> str:
    where = f"{contest.axis.source}, {contest.axis.measure}, {contest.axis.unit} level: " if several else ""
    return f"{where}{contest.verdict.sentence}"


def _cards(story: Story) -> Mapping[str, str]:
    runs = story.runs
    best = max(
        (
            entry.mean
            for contest in story.contests["public"]
            for entry in contest.entries
            if contest.axis.measure == "accuracy"
        ),
        default=None,
    )
    facts = {"runs": str(len(runs)), "configurations": str(len(story.configurations))}
    if best is not None:
        facts["best accuracy"] = f"{best:.1%}"
    return {**facts, **{f"ε {view}": _span(story, view) for view in story.contests}}


def _span(story: Story, view: View) -> str:
    """From the smallest to the largest ε of a view."""
    found = sorted({told.run.epsilon[view] for told in story.runs})
    low, high = epsilon_text(found[0]), epsilon_text(found[-1])
    return low if low == high else f"{low} – {high}"


def _has_choice(story: Story) -> bool:
    return any(sweep.get("choice") for sweep in story.sweeps)


def _failed(story: Story) -> Markup:
    """Cells of sweeps that could not be run."""
    told = [
        f"{', '.join(f'{key}={value}' for key, value in one['settings'].items())}, seed {one['seed']}: {one['sentence']}"
        for sweep in story.sweeps
        for one in sweep["problems"]
    ]
    return details(f"{len(told)} cells of the sweep failed or could not be run", bullets(told)) if told else Markup("")
