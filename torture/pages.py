"""What pages say, word by word and uncut: `make test` shortens long commands and leaves out what needs a server."""

from __future__ import annotations

from tests.page_cuts import FOLLOWED
from torture.ground import Ground
from torture.own_tests import run_python
from torture.report import Outcome

SWITCH = "SORDINO_WHOLE_PAGES"


def pages(ground: Ground, outcome: Outcome) -> None:
    """One case for each page that tests follow."""
    cases = ground.chosen(FOLLOWED)
    outcome.planned = len(cases)
    for page, test in cases.items():
        only = [f"{test}::test_what_a_page_says_is_done[{page}]"] if test == "tests/test_docs.py" else [test]
        done = run_python(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", *only], {SWITCH: "1"})
        why = None if done.returncode == 0 else done.stdout.strip().splitlines()[-1]
        outcome.judge(why, case=page, reproduction=f"{SWITCH}=1 python -m pytest '{only[0]}'")
