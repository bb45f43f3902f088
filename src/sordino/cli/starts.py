"""Commands about public starts: pretrain, robustness."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.application import AsJson, ExperimentFile, Overrides, app
from sordino.cli.output import show_value
from sordino.core import SordinoError
from sordino.startup import quick_imports


@app.command()
def pretrain(
    file: ExperimentFile,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Default pretrained/NAME.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train the public start of an experiment by itself; an experiment with this start then finds it done."""
    with quick_imports():
        from sordino.engine.moment import Moment
        from sordino.engine.pretraining import pretrain as train
        from sordino.experiment import read
        from sordino.report.progress import watching
        from sordino.report.terminal import pretrained_table

    experiment = read(file, tuple(overrides or ()))
    folder = out or Path("pretrained") / experiment.name
    with watching(quiet=as_json) as watch:
        record = train(
            experiment,
            folder,
            folder=file.resolve().parent,
            progress=lambda done, total: watch(Moment("pre-training", done, total)),
        )
    show_value(record, as_json, lambda: pretrained_table(record, str(folder)))


@app.command()
def robustness(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Folders of `run` or `pretrain`.")],
    data: Annotated[
        str | None, typer.Option("--data", metavar="NAME", help="A public set to test on; default the model's own.")
    ] = None,
    noise: Annotated[
        str, typer.Option("--noise", metavar="S1,S2", help="Standard deviations of the noise on every parameter.")
    ] = "0,0.01,0.02,0.05,0.1,0.2,0.3",
    draws: Annotated[int, typer.Option("--draws", help="Noisy copies at each standard deviation.")] = 5,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="HTML", help="Also draw it into this page.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Accuracy of models under noise on their parameters, and how far noise can move their output."""
    with quick_imports():
        from sordino.engine.moment import Moment
        from sordino.engine.robustness import measure, open_subject
        from sordino.report.progress import watching
        from sordino.report.terminal import robustness_table

    scales = _numbers(noise)
    found = []
    with watching(quiet=as_json) as watch:
        for model in models:
            subject = open_subject(model, data)
            stage = f"{model}"
            result = measure(
                subject,
                noise=scales,
                draws=draws,
                seed=seed,
                progress=lambda done, total, stage=stage: watch(Moment(stage, done, total)),  # type: ignore[misc]
            )
            found.append({**result.to_json(), "folder": str(model)})
    if figure is not None:
        from sordino.report.page.robustness import write_robustness

        write_robustness(found, figure)
    show_value(found, as_json, lambda: robustness_table(found))


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise SordinoError(f"--noise takes numbers with commas between, but got {text!r}; write 0,0.05,0.1.") from error
