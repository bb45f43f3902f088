"""Pages that promise their commands work: files are written and commands run as they stand there; tests/page_cuts.py has the exceptions."""

import shutil

import numpy as np
import pytest

from tests.page_cuts import FOLLOWED
from tests.pages import ROOT, walk

PAGES = [page for page, test in FOLLOWED.items() if test == "tests/test_docs.py"]
TERMINAL = {"docs/comparing.md": 80}
"""Pages of tables, which must fit a terminal of so many columns."""


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_is_done(page, tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("*.csv", "*.npz"))
    np.savez(tmp_path / "rows.npz", x_test=np.zeros((3, 1, 28, 28), np.uint8), y_test=np.zeros(3, np.int64))
    walk(page, tmp_path, widest=TERMINAL.get(page))
