"""Settings: what all runs share, in which they differ, and any two beside each other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sordino.files import to_json
from sordino.report.drawing.elements import Markup, element, join, text
from sordino.report.page.pieces import details, scrolled, section, swatch
from sordino.report.page.told import Configuration, Story


def settings(story: Story) -> Markup:
    every = story.configurations
    shared, varied = split_settings(every)
    differ = _differ(every, varied) if varied else element("p", text("There is one configuration, so nothing differs."))
    return section(
        "settings",
        "Settings",
        differ,
        _beside(every, varied) if len(every) > 1 else Markup(""),
        details(f"{len(shared)} settings that all runs share", _listed(shared)),
        details("Versions", _versions(story)),
    )


def split_settings(every: Sequence[Configuration]) -> tuple[dict[str, Any], list[str]]:
    """Settings with one value in all configurations, and the names of the others."""
    tables = [one.first.run.settings for one in every]
    keys = list(dict.fromkeys(key for table in tables for key in table))
    varied = [key for key in keys if len({to_json([table.get(key, "–")]) for table in tables}) > 1]
    return {key: tables[0][key] for key in keys if key not in varied}, varied


def _differ(every: Sequence[Configuration], varied: Sequence[str]) -> Markup:
    head = element(
        "tr",
        element("th", text("configuration"), scope="col"),
        *(element("th", text(key), scope="col") for key in varied),
    )
    rows = [
        element(
            "tr",
            element("th", swatch(one.series), text(one.name), scope="row"),
            *(element("td", text(_shown(one.first.run.settings.get(key)))) for key in varied),
        )
        for one in every
    ]
    table = element("table", element("thead", head), element("tbody", *rows), class_="plain")
    return details(f"{len(varied)} settings in which configurations differ", scrolled(table, "Settings that differ"))


def _beside(every: Sequence[Configuration], varied: Sequence[str]) -> Markup:
    """Two lists to choose from; the page's script lists in which settings the chosen two differ."""
    data = {
        "keys": list(varied),
        "values": [[_shown(one.first.run.settings.get(key)) for key in varied] for one in every],
    }
    choices = [[_option(one, number, chosen=number == place) for number, one in enumerate(every)] for place in (0, 1)]
    selects = [
        element("label", text(word), element("select", *options, id=f"beside-{place}"))
        for place, (word, options) in enumerate(zip(("This ", "beside that "), choices, strict=True))
    ]
    return element(
        "div",
        element("h3", text("Two beside each other")),
        element("div", *selects, class_="choices"),
        element("div", id="beside", aria_live="polite"),
        element(
            "script",
            Markup(json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")),
            type="application/json",
            id="beside-data",
        ),
        class_="scripted",
    )


def _option(one: Configuration, number: int, *, chosen: bool) -> Markup:
    return element("option", text(one.name), value=str(number), selected=chosen)


def _listed(table: Mapping[str, Any]) -> Markup:
    return element(
        "dl",
        *(
            element("div", element("dt", text(key)), element("dd", text(_shown(value))))
            for key, value in sorted(table.items())
        ),
        class_="facts",
    )


def _versions(story: Story) -> Markup:
    found: dict[str, set[str]] = {}
    for told in story.runs:
        for name, version in told.record.read_experiment()["versions"].items():
            found.setdefault(name, set()).add(str(version))
    return join(_listed({name: ", ".join(sorted(versions)) for name, versions in found.items()}))


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else to_json(value)
