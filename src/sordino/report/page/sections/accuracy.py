"""Accuracy over ε in each view, and which differences are more than noise."""

from __future__ import annotations

import math

from sordino.core import VIEWS, View
from sordino.report.comparison.comparing import Contest
from sordino.report.comparison.significance import LEVEL, Difference
from sordino.report.drawing.elements import Markup, element, join, text
from sordino.report.drawing.front import Front, Point
from sordino.report.page.pieces import details, figure, scrolled, section, tabs
from sordino.report.page.told import Story
from sordino.report.terminal import epsilon_text, mean_and_spread

MOST_DIFFERENCES = 60
SURE = 1e-3


def accuracy(story: Story) -> Markup:
    """For every axis a front in each view, and the differences at the budget."""
    count = len(story.contests["public"])
    parts = [_axis(story, number, alone=count == 1) for number in range(count)]
    lead = "Further left promises more, further up is better. A ringed mark is on the front: nothing is at least as good at no larger ε."
    return section("accuracy", "What privacy costs", *parts, lead=lead) if parts else Markup("")


def _axis(story: Story, number: int, *, alone: bool) -> Markup:
    axis = story.contests["public"][number].axis
    title = f"{axis.measure} on {axis.source}, {axis.unit} level, {axis.neighbours}, δ = {axis.delta:g}"
    panels = {f"{view} view": _panel(story, story.contests[view][number], view) for view in VIEWS}
    heading = Markup("") if alone else element("h3", text(title))
    return join(heading, tabs(f"front-{number}", "Whose ε", panels))


def make_front(story: Story, contest: Contest, view: View) -> Front:
    """The figure of one axis, also for files."""
    points = []
    for entry in contest.entries:
        one = story.of(entry)
        tip = [one.name, f"{contest.axis.measure} {mean_and_spread(entry.mean, entry.spread)}", _ways(entry.runs)]
        epsilons = {name: max(run.epsilon[name] for run in entry.runs.values()) for name in VIEWS}
        tip.append("ε " + ", ".join(f"{name} {epsilon_text(value)}" for name, value in epsilons.items()))
        points.append(
            Point(
                series=one.series,
                line=entry.line,
                epsilon=entry.epsilon,
                figures=tuple(entry.figures.values()),
                mean=entry.mean,
                spread=entry.spread,
                on_front=contest.is_on_front(entry),
                tip="\n".join(tip),
            )
        )
    name = f"{contest.axis.measure} over ε, {view} view: {len(points)} configurations. {contest.verdict.sentence}"
    return Front(name=name, points=points, measure=contest.axis.measure, view=view, budget=contest.verdict.budget)


def _ways(runs: object) -> str:
    count = len(runs)  # type: ignore[arg-type]
    return f"{count} seed{'s' if count != 1 else ''}"


def _panel(story: Story, contest: Contest, view: View) -> Markup:
    axis = contest.axis
    own = (
        " Clients are tested in their own mix of labels, which is outside every ε."
        if axis.measure != "accuracy"
        else ""
    )
    caption = f"Mean of seeds with one standard deviation; small dots are seeds.{own}"
    drawn = figure(
        make_front(story, contest, view), title=f"{axis.measure.capitalize()} over ε, {view} view.", caption=caption
    )
    verdict = element("p", text(contest.verdict.sentence), class_="small")
    return join(drawn, verdict, _differences(contest))


def _differences(contest: Contest) -> Markup:
    found = sorted(contest.verdict.differences, key=lambda one: 2.0 if one.corrected is None else one.corrected)
    if not found:
        return Markup("")
    head = element("tr", *(element("th", text(word), scope="col") for word in ("better", "than", "by points", "p", "")))
    rows = [element("tr", *(element("td", text(cell)) for cell in _cells(one))) for one in found[:MOST_DIFFERENCES]]
    real = sum(one.more_than_noise for one in found)
    cut = f" The {MOST_DIFFERENCES} surest are listed." if len(found) > MOST_DIFFERENCES else ""
    about = (
        f"Paired t-tests over seeds, p by Holm's correction for all {len(found)} pairs: the chance of calling any difference real that "
        f"is none stays below {LEVEL:.0%}.{cut}"
    )
    at = "" if math.isinf(contest.verdict.budget) else f" at ε ≤ {contest.verdict.budget:.4g}"
    table = element("table", element("thead", head), element("tbody", *rows), class_="plain")
    summary = f"Which differences are more than noise{at}: {real} of {len(found)}"
    return details(summary, element("p", text(about), class_="small"), scrolled(table, summary))


def _cells(one: Difference) -> list[str]:
    spread = "" if math.isnan(one.spread) else f" ± {100 * one.spread:.2f}"
    points = f"{100 * one.mean:.2f}{spread}" if one.pairs else "–"
    p = "–" if one.corrected is None else "< 0.001" if one.corrected < SURE else f"{one.corrected:.3f}"
    word = "untested" if one.corrected is None else "more than noise" if one.more_than_noise else "may be noise"
    return [one.first, one.second, points, p, word]
