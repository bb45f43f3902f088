"""Figures as files of their own: SVG with its style and legend inside, and PNG."""

from __future__ import annotations

from pathlib import Path

from sordino.core import SordinoError
from sordino.files import write_whole
from sordino.report.drawing.elements import Markup, element, text
from sordino.report.drawing.front import Front
from sordino.report.drawing.palette import GROUND, LIGHT, series_class, shape_path

WIDTH, ROW, PER_ROW = 720, 20, 3
PNG_ZOOM = 2
STYLE = (
    "text{fill:#444;font:12px 'DejaVu Sans',Arial,sans-serif}.mid{text-anchor:middle}.end{text-anchor:end}.grid{stroke:#e3e6eb}"
    ".base{stroke:#888}.budget{stroke:#666;stroke-dasharray:3 4}.seed{opacity:.5}.bar{stroke-width:2;stroke-opacity:.55}"
    ".ring{stroke-width:1.5}.thread{stroke-width:1.5;stroke-opacity:.45}"
)


def write_figure(front: Front, path: Path) -> None:
    """Write the figure as the ending of the path says."""
    drawn = standalone(front)
    if path.suffix == ".svg":
        write_whole(path, drawn.encode())
    elif path.suffix == ".png":
        write_whole(path, _png(drawn))
    else:
        raise SordinoError(f"A figure is written as .svg or .png, but got {path.name!r}; choose one of these endings.")


def standalone(front: Front) -> str:
    """The figure with a legend below it, in colours for white ground."""
    body = front.svg(WIDTH)
    tall = float(body.split('height="', 1)[1].split('"', 1)[0])
    keys = [_key(number, one.number, one.name, tall) for number, one in enumerate(front.legend)]
    height = tall + ROW * (1 + (len(keys) - 1) // PER_ROW) + 12
    ground = element("rect", width=float(WIDTH), height=height, fill=GROUND["light"])
    style = element("style", Markup(STYLE + "".join(map(_colours, range(len(LIGHT))))))
    return element(
        "svg",
        style,
        ground,
        body,
        *keys,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height:g}",
        width=WIDTH,
        height=height,
    )


def _key(place: int, number: int, name: str, top: float) -> Markup:
    x, y = 54 + (place % PER_ROW) * (WIDTH - 60) / PER_ROW, top + 14 + ROW * (place // PER_ROW)
    mark = element("path", class_="mark", d=shape_path(number, x, y - 4, 5))
    return element("g", mark, element("text", text(name), x=x + 12, y=y), class_=series_class(number))


def _colours(number: int) -> str:
    c, colour = f".s{number}", LIGHT[number]
    return f"{c} .mark,{c} .seed{{fill:{colour}}}{c} .bar,{c} .ring,{c}.thread{{stroke:{colour};fill:none}}"


def _png(drawn: str) -> bytes:
    try:
        from resvg_py import svg_to_bytes
    except ImportError as error:
        raise SordinoError('PNG needs one more package: pip install "sordino[png]"; .svg needs none.') from error
    return bytes(svg_to_bytes(svg_string=drawn, zoom=PNG_ZOOM))
