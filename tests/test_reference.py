"""The reference is what the code says: pages are up to date, every setting has words, commands print the same."""

import json
import sys
from pathlib import Path

import pytest

from sordino.cli import main
from sordino.core import SordinoError
from sordino.experiment import PrivacySection
from sordino.methods.dp_sgd import DpSgd
from sordino.reference.described import settings_of, type_words
from sordino.reference.notebooks import notebooks
from sordino.reference.pages import PAGES
from sordino.reference.parts import part, parts
from sordino.settings import AtLeastOne, Momentum
from tests.pages import blocks

DOCS = Path(__file__).resolve().parents[1] / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_what_the_code_says(name):
    assert (DOCS / name).read_text() == PAGES[name](), "run `make reference` and commit what it writes"


def test_notebooks_are_the_pages_whose_snippets_are_run():
    for name, text in notebooks(DOCS.parent).items():
        assert (DOCS.parent / "notebooks" / name).read_text() == text, "run `make reference` and commit what it writes"
        cells = json.loads(text)["cells"]
        page = blocks(f"docs/{name.removesuffix('.ipynb')}.md")
        written = ["".join(cell["source"]) + "\n" for cell in cells if cell["cell_type"] == "code"]
        assert written == [snippet for kind, snippet in page if kind == "python"]


def test_settings_have_types_defaults_and_words():
    found = {one.name: one for one in settings_of(DpSgd)}
    assert found["batch_size"].type == 'whole number at least 1 or "full" or "auto"'
    assert (
        found["learning_rate"].default == '"auto"' and "worked out from public facts" in found["learning_rate"].meaning
    )
    assert type_words(AtLeastOne | None) == "whole number at least 1"
    assert type_words(Momentum) == "number at least 0 and below 1"
    (clip,) = (one for one in settings_of(PrivacySection) if one.name == "clip_norm")
    assert clip.type == "number at least 1e-12 and at most 1e+12"


def test_every_example_line_names_its_part():
    for one in parts():
        assert one.name in one.example and one.text


def test_one_part_is_printed_and_a_misspelt_one_refused(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sordino", "methods", "dp-fedprox"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    printed = " ".join(capsys.readouterr().out.split())
    assert "mu: number at least 0; default 0.1. μ: the strength of the pull" in printed
    with pytest.raises(SordinoError, match="no part called 'dp-fedprx'; did you mean 'dp-fedprox'"):
        part("dp-fedprx")


def test_the_version_is_printed(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sordino", "--version"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.startswith("sordino 0.")
