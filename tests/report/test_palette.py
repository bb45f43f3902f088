"""Series can be told apart by those who see fewer colours, and from the ground they are drawn on."""

import itertools

import numpy as np
import pytest

from sordino.report.drawing.palette import DARK, GROUND, LIGHT, SEQUENTIAL, series_class, shape_path

# Viénot, Brettel and Mollon (1999) for the first two, and Brettel's plane nearest for the third, on linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]]),
    "deuteranopia": np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]]),
    "tritanopia": np.array([[1, 0.1446, -0.1446], [0, 0.8592, 0.1408], [0, 0.8592, 0.1408]]),
}


def linear(colour):
    values = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE L*a*b* of linear RGB."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(rgb, 0, 1)
    x, y, z = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in xyz / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def luminance(colour):
    return float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour))


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("kind", BLINDNESS)
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_any_two_colours_differ_visibly_for_all_eyes(colours, kind):
    """A difference of 2.3 can just be seen; thin lines need several times that."""
    seen = [lab(BLINDNESS[kind] @ linear(colour)) for colour in colours]
    assert min(np.linalg.norm(one - other) for one, other in itertools.combinations(seen, 2)) > 12


@pytest.mark.parametrize(("theme", "colours"), [("light", LIGHT), ("dark", DARK)])
def test_marks_stand_out_from_the_ground(theme, colours):
    """At least 3 to 1, as WCAG asks of graphics."""
    assert min(contrast(colour, GROUND[theme]) for colour in colours) >= 3


@pytest.mark.parametrize("theme", SEQUENTIAL)
def test_heat_can_be_read_without_colour(theme):
    levels = [luminance(colour) for colour in SEQUENTIAL[theme]]
    assert levels == sorted(levels, reverse=theme == "light")


def test_the_first_36_series_have_marks_of_their_own():
    assert len({(series_class(number), shape_path(number, 0, 0, 5)) for number in range(36)}) == 36
