"""Tutorials as notebooks: the prose and the snippets of a page, cell by cell."""

from __future__ import annotations

import json
import re
from pathlib import Path

TUTORIALS = ("library", "own-loop")
_SNIPPET = re.compile(r"^```python\n(.*?)^```\n", flags=re.MULTILINE | re.DOTALL)


def notebook(page: str) -> str:
    """A page of Markdown as a notebook of the fourth format; every Python snippet is a cell that can be run."""
    cells, end = [], 0
    for snippet in _SNIPPET.finditer(page):
        cells += [_prose(page[end : snippet.start()]), _code(snippet[1])]
        end = snippet.end()
    cells.append(_prose(page[end:]))
    kept = [{"id": f"cell-{number}", **cell} for number, cell in enumerate(cells) if cell["source"]]
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": kept, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def notebooks(docs: Path) -> dict[str, str]:
    """The text of every notebook by its name, made of the pages in this folder."""
    return {f"{name}.ipynb": notebook((docs / f"{name}.md").read_text(encoding="utf-8")) for name in TUTORIALS}


def _prose(text: str) -> dict[str, object]:
    return {"cell_type": "markdown", "metadata": {}, "source": text.strip().splitlines(keepends=True)}


def _code(text: str) -> dict[str, object]:
    source = text.strip().splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
