"""Figures: values stand where they should, words are escaped, and thousands of values stay small."""

import math
import re
from xml.etree import ElementTree

import pytest

from sordino.report.drawing.elements import element, text
from sordino.report.drawing.frame import Series
from sordino.report.drawing.front import Front, Point
from sordino.report.drawing.heat import HeatMap
from sordino.report.drawing.lines import MOST_POINTS, Line, Lines
from sordino.report.drawing.palette import LIGHT
from sordino.report.drawing.ranges import Range, Ranges
from sordino.report.drawing.scales import Epsilon, Linear

HOSTILE = '"><script>alert(1)</script>&'
ONE, OTHER = Series(number=0, name="one"), Series(number=1, name=HOSTILE)


def point(series, epsilon, mean):
    return Point(
        series=series, line="", epsilon=epsilon, figures=(mean,), mean=mean, spread=0.01, on_front=True, tip=series.name
    )


FIGURES = [
    Front(
        name=HOSTILE,
        points=[point(ONE, 1, 0.5), point(ONE, 8, 0.7), point(OTHER, math.inf, 0.9)],
        measure=HOSTILE,
        view="public",
        budget=2,
    ),
    Lines(
        name="l",
        lines=[Line(series=OTHER, name=HOSTILE, points=[(1, 0.1), (2, 0.3)], band=[(0, 0.2), (0.2, 0.4)])],
        x_name="round",
        x_word="round",
        y_name="y",
        percent=True,
    ),
    Ranges(
        name="r",
        ranges=[Range(series=ONE, name=HOSTILE, value=0.5, low=0.4, high=0.6, second=0.2, tip=HOSTILE)],
        x_name="x",
        value_name="v",
        range_name="r",
    ),
    HeatMap(
        name="h",
        values=[[0.0, 1.0], [0.5, math.nan]],
        row_names=["a", HOSTILE],
        column_names=["0", "1"],
        rows_are="label",
        columns_are="client",
    ),
]


@pytest.mark.parametrize("width", [344, 500, 680])
@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: type(figure).__name__)
def test_a_figure_is_well_formed_within_its_frame_and_named(figure, width):
    drawn = figure.svg(width)
    root = ElementTree.fromstring(drawn)
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert "<script" not in drawn
    assert "nan" not in re.sub(r'data-\w+="[^"]*"', "", drawn)
    wide, tall = float(root.get("width")), float(root.get("height"))
    for path in root.iter("{http://www.w3.org/2000/svg}path"):
        for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.get("d")):
            assert -1 <= float(x) <= wide + 1
            assert -1 <= float(y) <= tall + 1
    rows = figure.grid().rows
    assert rows
    assert {len(row) for row in rows} == {len(figure.grid().head)}


def test_text_and_attributes_are_escaped():
    assert element("a", text("a < b"), href='"x"') == '<a href="&quot;x&quot;">a &lt; b</a>'


def test_epsilon_stands_on_a_logarithmic_axis_with_infinity_at_its_end():
    scale = Epsilon(values=[1, 2, 4, math.inf], start=0, end=100)
    steps = [scale.place(value) for value in (1, 2, 4)]
    assert steps[1] - steps[0] == pytest.approx(steps[2] - steps[1])
    assert scale.place(4) < scale.last_finite < scale.place(math.inf) < 100
    assert scale.ticks()[-1][1] == "∞"


def test_counted_axes_have_whole_ticks():
    words = [word for _, word in Linear(low=1, high=10, start=0, end=100, whole=True, most_ticks=5).ticks()]
    assert words == ["3", "6", "9"]


def test_points_at_one_epsilon_do_not_hide_each_other():
    series = [Series(number=number, name=str(number)) for number in range(5)]
    drawn = Front(name="f", points=[point(one, 2.0, 0.5) for one in series], measure="accuracy", view="public").svg(680)
    places = re.findall(r'data-at="([\d.]+),', drawn)
    assert len(set(places)) == 5


def test_long_lines_and_large_maps_stay_small():
    line = Line(series=ONE, name="one", points=[(x, math.sin(x)) for x in range(5000)])
    lines = Lines(name="l", lines=[line], x_name="x", x_word="x", y_name="y")
    assert len(lines.grid().rows) == MOST_POINTS
    assert lines.grid().rows[-1][0] == "4999"
    heat = HeatMap(
        name="h",
        values=[[0.5] * 100] * 10,
        row_names=["r"] * 10,
        column_names=["c"] * 100,
        rows_are="r",
        columns_are="c",
    )
    assert len(heat.svg(680)) < 60_000


def test_a_figure_is_a_file_of_its_own(tmp_path):
    from io import BytesIO

    from PIL import Image

    from sordino.core import SordinoError
    from sordino.report.drawing.standalone import write_figure

    write_figure(FIGURES[0], tmp_path / "front.svg")
    root = ElementTree.fromstring((tmp_path / "front.svg").read_text())
    assert "var(--" not in (tmp_path / "front.svg").read_text()
    write_figure(FIGURES[0], tmp_path / "front.png")
    image = Image.open(BytesIO((tmp_path / "front.png").read_bytes())).convert("RGB")
    assert image.width == 2 * float(root.get("width"))
    assert tuple(bytes.fromhex(LIGHT[0][1:])) in {colour for _, colour in image.getcolors(1 << 20)}
    with pytest.raises(SordinoError, match=r"written as \.svg or \.png"):
        write_figure(FIGURES[0], tmp_path / "front.gif")
