"""How long a real Chromium takes to open the report of a hundred runs, and how much it weighs."""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import sordino
from benchmarks.command import write_experiment
from benchmarks.effort import repeats
from sordino.report.page.writing import tell, write_report

RUNS = 100
_OPENED = "() => performance.getEntriesByType('navigation')[0].loadEventEnd"


def measure() -> list[dict[str, object]]:
    """Median milliseconds from asking for the page to its load event, each time in a new window."""
    with tempfile.TemporaryDirectory(prefix="sordino-bench-") as folder:
        page = _page(Path(folder))
        milliseconds = _milliseconds(page)
        return [
            {
                "benchmark": "page_opening",
                "what": f"report of {RUNS} runs",
                "seconds": statistics.median(milliseconds) / 1e3,
                "slowest": max(milliseconds) / 1e3,
                "megabytes": page.stat().st_size / 1e6,
            }
        ]


def _page(folder: Path) -> Path:
    """A report of copies of one run that differ in seed and epochs."""
    sordino.run(write_experiment(folder), out=folder / "first")
    for number in range(RUNS):
        run = folder / "runs" / str(number)
        shutil.copytree(folder / "first", run)
        record = json.loads((run / "experiment.json").read_text())
        record["experiment"]["seed"] = number
        record["experiment"]["method"]["epochs"] = 1 + number // 4
        (run / "experiment.json").write_text(json.dumps(record))
    write_report(tell([folder / "runs"]), folder / "page.html")
    return folder / "page.html"


def _milliseconds(page: Path) -> list[float]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        found = []
        for _ in range(repeats(7)):
            window = browser.new_page()
            window.goto(page.as_uri())
            window.wait_for_load_state("load")
            window.wait_for_timeout(50)
            found.append(float(window.evaluate(_OPENED)))
            window.close()
        browser.close()
    return found
