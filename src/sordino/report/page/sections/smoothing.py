"""What FedCEO keeps of its last smoothing: singular values per frequency, and how rough the last layer is by class and client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sordino.report.drawing.elements import Markup, element, text
from sordino.report.drawing.frame import Series
from sordino.report.drawing.heat import HeatMap
from sordino.report.drawing.lines import Line, Lines
from sordino.report.page.pieces import details, figure, group, section
from sordino.report.page.told import Configuration, Story

if TYPE_CHECKING:
    from torch import Tensor

Tensors = Mapping[str, "Tensor"]
MOST, MOST_FREQUENCIES = 4, 6
BEFORE = "singular values before smoothing, "
LEAD = (
    "FedCEO stacks the models of clients and shrinks the singular values of the stack, frequency by frequency. Noise fills all of "
    "them, what clients have in common lies in few. Diagnostics of a simulation, outside every ε."
)


def smoothing(story: Story) -> Markup:
    """Of the first run of each configuration that kept any."""
    found = [(one, kept) for one in story.configurations if (kept := _last(one))]
    first, *others = [_one(one, *kept) for one, kept in found[:MOST]] or [Markup("")]
    more = details(f"{len(others)} more of the same", *others) if others else Markup("")
    return section("smoothing", "What smoothing does", first, more, lead=LEAD) if first else Markup("")


def _last(one: Configuration) -> tuple[int, Tensors] | None:
    by_round = one.first.record.read_diagnostics() if one.first.run.simulated else {}
    return max(by_round.items()) if by_round else None


def _one(one: Configuration, number: int, tensors: Tensors) -> Markup:
    names = [name.removeprefix(BEFORE) for name in tensors if name.startswith(BEFORE)]
    drawings = {name: _spectrum(name, number, tensors) for name in names}
    spectra = [
        figure(
            drawing, title=f"Singular values of {name}.", caption="Solid: before smoothing; dashed: after.", half=True
        )
        for name, drawing in drawings.items()
    ]
    maps = [
        _roughness(when, number, tensors) for when in ("before", "after") if f"roughness {when} smoothing" in tensors
    ]
    shown = group(list(drawings.values()), [*spectra[:2], *maps])
    more = details(f"{len(spectra) - 2} more layers", group([], spectra[2:])) if len(spectra) > 2 else Markup("")
    return element("div", element("h3", text(f"{one.name}, round {number}")), shown, more)


def _spectrum(name: str, number: int, tensors: Tensors) -> Lines:
    lines = []
    for dash, when in enumerate(("before", "after")):
        every = tensors[f"singular values {when} smoothing, {name}"].tolist()
        for frequency, values in enumerate(every[:MOST_FREQUENCIES]):
            series = Series(number=frequency, name=f"frequency {frequency}")
            points = [(float(rank), float(value)) for rank, value in enumerate(values, start=1)]
            lines.append(Line(series=series, name=f"frequency {frequency}, {when}", points=points, dash=dash))
    return Lines(
        name=f"Singular values of {name} before and after smoothing, round {number}",
        lines=lines,
        x_name="rank",
        x_word="rank",
        y_name="singular value",
        from_zero=True,
    )


def _roughness(when: str, number: int, tensors: Tensors) -> Markup:
    values = tensors[f"roughness {when} smoothing"].tolist()
    both = [tensors[name] for name in tensors if name.startswith("roughness")]
    drawing = HeatMap(
        name=f"Roughness of the last layer {when} smoothing, round {number}",
        values=values,
        row_names=[str(place) for place in range(len(values))],
        column_names=[str(place) for place in range(len(values[0]))],
        rows_are="class",
        columns_are="client",
        ends=(min(float(one.min()) for one in both), max(float(one.max()) for one in both)),
    )
    caption = "Mean squared distance of a client's last layer from the others', class by class."
    return figure(drawing, title=f"Roughness {when} smoothing.", caption=caption, half=True)
