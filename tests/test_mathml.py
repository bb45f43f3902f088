"""Formulas of the site are drawn without scripts."""

import pytest

pytest.importorskip("latex2mathml")

from sordino.reference.mathml import on_page_content


def test_formulas_become_mathml_and_the_rest_stays():
    page = '<p>a <span class="arithmatex">\\(x_k &lt; \\frac{1}{m}\\)</span> b</p><div class="arithmatex">\\[\\sum_k z\\]</div>'
    found = on_page_content(page, page=None)
    assert found.count("<math ") == 2 and 'display="block"' in found and "<mfrac>" in found and "&#x0003C;" in found
    assert found.startswith("<p>a <math") and "arithmatex" not in found
