"""SVG and HTML elements as text, with everything escaped that came from outside."""

from __future__ import annotations

import html
from typing import NewType

Markup = NewType("Markup", str)
"""Text that is markup already; whatever else enters an element is escaped."""

Value = str | float | int | bool | None


def element(tag: str, /, *children: Markup | str, **attributes: Value) -> Markup:
    """An element; `class_` and `data_tip` become `class` and `data-tip`, None and False leave an attribute out.

    Example: `element("a", text("a < b"), href="#x")` gives `<a href="#x">a &lt; b</a>`.
    """
    told = "".join(
        _attribute(name, value) for name, value in attributes.items() if value is not None and value is not False
    )
    if tag in VOID and not children:
        return Markup(f"<{tag}{told}/>" if tag in SVG_VOID else f"<{tag}{told}>")
    return Markup(f"<{tag}{told}>{''.join(children)}</{tag}>")


SVG_VOID = {"circle", "line", "path", "rect", "use"}
VOID = {*SVG_VOID, "input", "br", "meta", "img"}


def text(value: object) -> Markup:
    """Escaped text."""
    return Markup(html.escape(str(value), quote=False))


def join(*parts: Markup) -> Markup:
    return Markup("".join(parts))


def _attribute(name: str, value: Value) -> str:
    name = name.rstrip("_").replace("_", "-") if name != "viewBox" else name
    if value is True:
        return f" {name}"
    told = short(value) if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(told)}"'


def short(value: float) -> str:
    """A coordinate with as few digits as a screen can show."""
    told = f"{value:.1f}"
    return told.removesuffix(".0") if told != "-0.0" else "0"
