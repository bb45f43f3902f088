"""What a person should know before trusting the figures: the warnings of runs, each with those that have it."""

from __future__ import annotations

from sordino.report.drawing.elements import Markup, element, text
from sordino.report.page.pieces import section
from sordino.report.page.told import Story

FEW = 4


def notes(story: Story) -> Markup:
    found: dict[str, list[str]] = {}
    for one in story.configurations:
        for warning in dict.fromkeys(warning for told in one.runs for warning in told.summary["warnings"]):
            found.setdefault(warning, []).append(one.name)
    if not found:
        return Markup("")
    items = [
        element("li", text(warning), element("small", text(_whose(names, len(story.configurations)))))
        for warning, names in found.items()
    ]
    return section("notes", "Before you trust the figures", element("ul", *items, class_="warnings"))


def _whose(names: list[str], every: int) -> str:
    if len(names) == every:
        return "all configurations" if every > 1 else ""
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return f"{', '.join(names[:FEW])}{more}"
