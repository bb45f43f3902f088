"""The command that makes the case: demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.application import AsJson, app
from sordino.cli.output import show_value
from sordino.startup import quick_imports


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where data and runs go.")] = Path("runs/demo"),
    page: Annotated[Path, typer.Option("--report", metavar="HTML", help="Where its report goes.")] = Path("demo.html"),
    seeds: Annotated[int, typer.Option("--seeds", help="Runs of each case.")] = 3,
    jobs: Annotated[int, typer.Option("--jobs", help="Runs side by side.")] = 2,
    as_json: AsJson = False,
) -> None:
    """What privacy costs, and what a public start, tuning and the place of the noise give back, on embedded images."""
    with quick_imports():
        from sordino import demo as story
        from sordino.report.demo_story import demo_sentences, demo_table, rows_by_case
        from sordino.report.page.writing import tell, write_report
        from sordino.report.sweep_progress import watching_sweep
        from sordino.sweeps.grid import read_sweep
        from sordino.sweeps.running import run_sweep

    with story.prepared(out) as file:
        grid = read_sweep(file, (), over=(), seeds=seeds)
        with watching_sweep(quiet=as_json) as look:
            results = run_sweep(grid, story.sweep_folder(out), folder=out.resolve(), jobs=jobs, look=look)
        alone = story.public_alone(file, seeds)
    rows = rows_by_case(results.to_json())
    names = (story.NOTHING, story.SCRATCH, story.START, story.HEAD, story.SERVER)
    sentences = demo_sentences(rows, alone, names=names)
    told = tell(
        [story.sweep_folder(out)],
        title="What privacy costs, and what gives it back",
        remarks=sentences,
        trials_before=story.TRIALS,
    )
    write_report(told, page)
    content = {"rows": rows, "public_alone": alone, "sentences": sentences, "report": str(page)}
    ending = f"Everything is on one page: open {page} in a browser. The runs are in {out}, and {out}/demo.toml is how they were made."
    show_value(content, as_json, lambda: [demo_table(rows, alone), *(f"{one}\n" for one in sentences), ending])
