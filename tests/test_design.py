"""docs/design.md is true: its walk is the order in which a run calls the package, and the files that it names exist."""

import re
import sys
from pathlib import Path

import pytest

from tests.walk import ROOT, command, walked

DOCS = Path(__file__).parent.parent / "docs"
PAGES = [DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
TINY = """
rounds = 2
model = "logistic"
method = "dp-fedavg"
data = { source = "digits", clients = 20, test = "public-split" }
privacy = { epsilon = 8.0, delta = 1e-3, expected_cohort = 10, noise_source = "secure" }
engine = { schedule = "workers" }
"""


def walk_of_the_page():
    """Rows of the walk: a file, and the function of it that is called."""
    return re.findall(r"^\| `(\S+\.py)` \| `(\S+)` \|", (DOCS / "design.md").read_text(), flags=re.MULTILINE)


def test_a_run_goes_through_the_files_as_the_page_says(tmp_path, monkeypatch):
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["sordino", "run", "tiny.toml"])
    called, told = walked(command), walk_of_the_page()
    assert not set(told) - set(called)
    assert told == sorted(told, key=called.index)
    assert len({file for file, _ in told}) == len(told) > 30


@pytest.mark.parametrize(
    "page",
    [DOCS / "design.md", DOCS / "wire.md", *sorted((DOCS / "decisions").glob("*.md"))],
    ids=lambda page: page.stem,
)
def test_files_of_the_package_that_a_page_names_exist(page):
    rooms = {path.name for path in Path(ROOT).iterdir()}
    named = {name for name in re.findall(r"`([\w/]+\.py)`", page.read_text()) if name.split("/")[0] in rooms}
    assert not [name for name in named if not (Path(ROOT) / name).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS.parent)))
def test_links_between_pages_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    assert not [link for link in links if "://" not in link and not (page.parent / link).exists()]
