"""A real Chromium for tests of pages; where there is none they are skipped, and the end of the test run says so."""

import os
import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
NEEDED = "SORDINO_NEED_BROWSER"
"""Set by whoever takes skipped tests for failed ones."""


def open_browser():
    """A context manager that gives a browser."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        reason = "no Chromium is installed, so pages are not tested in a browser; on Debian: apt-get install chromium"
        if os.environ.get(NEEDED):
            pytest.fail(reason)
        pytest.skip(reason)
    return _opened(path)


class _opened:
    def __init__(self, path):
        self.path = path

    def __enter__(self):
        from playwright.sync_api import sync_playwright

        self.manager = sync_playwright()
        started = self.manager.__enter__()
        self.browser = started.chromium.launch(executable_path=self.path, args=FLAGS)
        return self.browser

    def __exit__(self, *error):
        self.browser.close()
        self.manager.__exit__(*error)
