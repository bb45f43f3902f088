"""What was promised to whom, in words that need no course in differential privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sordino.core import VIEWS, View
from sordino.report.drawing.elements import Markup, element, join, text
from sordino.report.page.pieces import details, section, swatch
from sordino.report.page.told import Configuration, Story
from sordino.report.terminal import epsilon_text

ONLOOKERS: Mapping[View, str] = {
    "public": "anybody who sees every released model",
    "server": "the server, which sees every upload and who sent it",
    "client": "another client, which sees what it was sent and knows its own noise",
}
SURE = 0.9995
"""A belief that no reader tells from certainty."""
FEW = 6
"""Promises that are spelled out at once; more are folded."""

LEAD = (
    "Every ε names who looks. Below it is how sure they can become at most, apart from the chance δ, that a certain contribution was "
    "in the training, if it was a coin toss for them before."
)


def promises(story: Story) -> Markup:
    """One row for each promise, with the configurations that made it."""
    groups: dict[str, list[Configuration]] = {}
    for one in story.configurations:
        groups.setdefault(_promise(one), []).append(one)
    rows = [_row(members) for members in groups.values()]
    folded = details(f"{len(rows) - FEW} more promises", _table(rows[FEW:])) if len(rows) > FEW else Markup("")
    return section("promises", "What was promised, and to whom", _table(rows[:FEW]), folded, lead=LEAD)


def _table(rows: Sequence[Markup]) -> Markup:
    heads = [
        element("th", element("strong", text(f"{view} view")), text(who), scope="col")
        for view, who in ONLOOKERS.items()
    ]
    head = element("tr", element("th", element("strong", text("what is hidden")), scope="col"), *heads)
    return element("table", element("thead", head), element("tbody", *rows), class_="promise")


def _promise(configuration: Configuration) -> str:
    summary = configuration.first.summary
    about = [summary["unit"], summary["neighbours"], _delta(summary)]
    return str(
        [
            *about,
            *(epsilon_text(_worst(configuration, view)) for view in VIEWS),
            *(_because(summary, view) for view in VIEWS),
        ]
    )


def _worst(configuration: Configuration, view: View) -> float:
    return max(told.run.epsilon[view] for told in configuration.runs)


def _because(summary: Mapping[str, Any], view: View) -> str:
    return str(summary["epsilon"][view].get("because", ""))


def _delta(summary: Mapping[str, Any]) -> float:
    return float(summary["epsilon"]["public"]["delta"])


def _row(members: Sequence[Configuration]) -> Markup:
    first = members[0]
    names = [element("li", swatch(one.series), text(one.name)) for one in members[:8]]
    more = [element("li", text(f"and {len(members) - 8} more"))] if len(members) > 8 else []
    told = [element("p", text(sentence)) for sentence in (_hidden(first), _beyond(first)) if sentence]
    return element(
        "tr",
        element("th", element("ul", *names, *more, class_="names"), *told, scope="row"),
        *(_cell(first, view) for view in VIEWS),
    )


def _cell(configuration: Configuration, view: View) -> Markup:
    epsilon = _worst(configuration, view)
    because = _because(configuration.first.summary, view)
    return element(
        "td",
        element("span", text(f"ε {epsilon_text(epsilon)}"), class_="figure"),
        _belief(epsilon),
        element("small", text(because)) if because else Markup(""),
        data_who=f"{view} view: {ONLOOKERS[view]}",
    )


def belief(epsilon: float) -> float:
    """How sure somebody becomes at most for whom it was a coin toss: e^ε / (1 + e^ε)."""
    return 1.0 if math.isinf(epsilon) else 1 / (1 + math.exp(-epsilon))


def _belief(epsilon: float) -> Markup:
    if math.isinf(epsilon):
        return text("certain: nothing is promised")
    sure = belief(epsilon)
    word = "nearly certain, over 99.9 %" if sure > SURE else f"{sure:.1%} sure" if sure > 0.99 else f"{sure:.0%} sure"
    meter = element("span", class_="meter", style=f"--share:{100 * (2 * sure - 1):.0f}%", aria_hidden="true")
    return join(meter, text(word))


def _hidden(configuration: Configuration) -> str:
    summary = configuration.first.summary
    if all(math.isinf(_worst(configuration, view)) for view in VIEWS):
        return "Nothing is hidden from anybody: whoever looks may find out who took part, and with what."
    whose = "all that one client holds" if summary["unit"] == "client" else "one row of one client"
    other = {
        "zero-out": "contributes nothing",
        "replace-one": "is replaced by another",
    }.get(str(summary["neighbours"]), f"is changed ({summary['neighbours']})")
    return f"Hidden is {whose}: releases are nearly as likely if it {other}. δ = {_delta(summary):g}."


def _beyond(configuration: Configuration) -> str:
    """What is outside the promise."""
    told = configuration.first
    if told.run.personalised:
        return "Clients keep models of their own. They are outside every ε: such a model hides the others, and not its owner."
    if told.summary.get("accuracy_charged"):
        return "Accuracy was measured on rows that stay private, with noise, and is paid for in these ε."
    return ""
