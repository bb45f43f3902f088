"""The page as one file: markup, style and script together, with a policy that lets a browser load nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from sordino import __version__
from sordino.core import View
from sordino.files import write_whole
from sordino.report.comparison.runs import find_runs
from sordino.report.drawing.elements import Markup, element, text
from sordino.report.drawing.palette import class_rules, theme_variables
from sordino.report.drawing.standalone import write_figure
from sordino.report.page.sections.accuracy import accuracy, make_front
from sordino.report.page.sections.audits import audits
from sordino.report.page.sections.clients import clients
from sordino.report.page.sections.configurations import configurations
from sordino.report.page.sections.notes import notes
from sordino.report.page.sections.promises import promises
from sordino.report.page.sections.settings import settings
from sordino.report.page.sections.short import in_short
from sordino.report.page.sections.smoothing import smoothing
from sordino.report.page.sections.training import training
from sordino.report.page.told import Story, read_told

SECTIONS = {
    "short": ("In short", in_short),
    "accuracy": ("Cost of privacy", accuracy),
    "promises": ("Promises", promises),
    "runs": ("Table", configurations),
    "training": ("Rounds", training),
    "clients": ("Clients", clients),
    "audits": ("Audits", audits),
    "smoothing": ("Smoothing", smoothing),
    "settings": ("Settings", settings),
    "notes": ("Notes", notes),
}
"""Anchors, their names in the navigation, and what makes them."""


def tell(
    folders: Sequence[Path],
    *,
    title: str = "",
    by: str | None = None,
    epsilon: float | None = None,
    remarks: Sequence[str] = (),
    trials_before: int = 0,
) -> Story:
    """Read the runs of these folders: runs, sweeps, or folders with runs somewhere below. `remarks` stand first on the page.

    `trials_before` are those that settings were chosen by, which the page then tells of.
    """
    runs = [read_told(run) for run in find_runs(folders)]
    return Story(
        title=title or _title(folders),
        by=by,
        epsilon=epsilon,
        runs=runs,
        folders=folders,
        remarks=remarks,
        trials_before=trials_before,
    )


def draw_fronts(folders: Sequence[Path], path: Path, *, by: str | None, view: View, epsilon: float | None) -> None:
    """Accuracy over ε as a file of its own; where runs need several axes, further files are numbered."""
    story = tell(folders, by=by, epsilon=epsilon)
    for number, contest in enumerate(story.contests[view], start=1):
        place = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        write_figure(make_front(story, contest, view), place)


def _title(folders: Sequence[Path]) -> str:
    return ", ".join(folder.resolve().name for folder in folders[:3]) + (
        f" and {len(folders) - 3} more" if len(folders) > 3 else ""
    )


def write_report(story: Story, path: Path) -> None:
    """Write the page; it is whole, or not there."""
    made = {name: (word, make(story)) for name, (word, make) in SECTIONS.items()}
    shown = {name: pair for name, pair in made.items() if pair[1]}
    links = {name: word for name, (word, _) in shown.items()}
    write_page(story.title, links, [body for _, body in shown.values()], path)


def write_page(title: str, links: dict[str, str], sections: Sequence[Markup], path: Path) -> None:
    """Any sections as a page."""
    style, script = _style(), _asset("page.js")
    page = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_policy(script)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">',
        element("title", text(f"{title} · Sordino")),
        f"<style>{style}</style></head><body>",
        '<a class="skip" href="#content">Skip to the content</a>',
        _header(title, links),
        element("main", *sections, id="content"),
        element(
            "footer",
            text(
                f"Made by Sordino {__version__} from run records. This page needs no network and sends nothing anywhere."
            ),
        ),
        '<div id="tip" role="status" aria-live="polite" hidden></div>',
        f"<script>{script}</script></body></html>",
    ]
    write_whole(path, "\n".join(page).encode())


def _header(title: str, links: dict[str, str]) -> Markup:
    nav = element(
        "nav", *(element("a", text(word), href=f"#{name}") for name, word in links.items()), aria_label="Sections"
    )
    theme = element("button", text("Theme: auto"), type="button", id="theme", class_="scripted")
    top = element(
        "div", element("p", text("Sordino report"), class_="brand"), element("h1", text(title)), class_="title"
    )
    return element("header", element("div", top, theme, class_="bar"), nav)


def _style() -> str:
    """The style sheet, with the colours of both themes."""
    marked = "/* themes */"
    light, dark = theme_variables("light"), theme_variables("dark")
    themes = (
        f":root{{{light}}}@media(prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f":root[data-theme=dark]{{{dark}}}@media print{{:root:root{{{light}}}}}{class_rules()}"
    )
    return _asset("page.css").replace(marked, themes)


def _policy(script: str) -> str:
    """Nothing from elsewhere, and no script but this one."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"


def _asset(name: str) -> str:
    return (files("sordino.report.page") / "assets" / name).read_text(encoding="utf-8")
