"""Formulas of the documentation as MathML, made when the site is built: a hook of mkdocs, so that pages need no script and no network."""

from __future__ import annotations

import html
import importlib
import re
from typing import Any

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **page: Any) -> str:
    """What mkdocs calls with every page."""
    return FORMULA.sub(lambda found: drawn(html.unescape(found[3]), block=found[2] == "["), content)


def drawn(formula: str, *, block: bool) -> str:
    """One formula, which browsers draw by themselves."""
    convert: Any = importlib.import_module("latex2mathml.converter").convert
    return str(convert(formula.strip(), display="block" if block else "inline"))
