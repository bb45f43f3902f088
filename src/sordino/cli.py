"""The command line. Heavy imports happen inside commands, so that help is instant."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from sordino.core import SordinoError
from sordino.predict.commands import export, predict
from sordino.sentences import first_line, shown
from sordino.startup import quick_imports, with_what_it_needs

app = typer.Typer(
    help="Federated learning under differential privacy, with an ε that can be defended.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(
    help="Data sets: what is known here, and how an experiment spreads them over clients.", no_args_is_help=True
)
app.add_typer(data_app, name="data")

ExperimentFile = Annotated[Path, typer.Argument(metavar="FILE", help="An experiment file (TOML).")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one setting, e.g. privacy.epsilon=2.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

STOPPED = 130
"""The exit code after Ctrl-C, and what typer makes of it."""
STOPPED_SENTENCE = "sordino: stopped; a run keeps its completed rounds and its ledger, and goes on with --resume.\n"


@app.command()
def run(
    file: ExperimentFile,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="The run folder; default runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an unfinished run in its folder.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment."""
    from sordino.experiment import read
    from sordino.report.terminal import summary_table, watching

    experiment = read(file, tuple(overrides or ()))
    folder = out or Path("runs") / experiment.name
    with quick_imports():
        from sordino.engine.run import run_experiment

    with watching(quiet=as_json) as watch:
        summary = run_experiment(experiment, folder, resume=resume, folder=file.resolve().parent, watch=watch)
    _show(summary, as_json, lambda: summary_table([summary]))


@app.command()
def plan(
    file: ExperimentFile,
    overrides: Overrides = None,
    all_accountants: Annotated[bool, typer.Option("--all-accountants", help="Show RDP beside PLD too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Work out noise, ε per view, memory and time, without touching private data."""
    with quick_imports(whole_torch=False):
        from sordino.engine.plan import make_plan
        from sordino.experiment import read
        from sordino.report.terminal import plan_table

    experiment = read(file, tuple(overrides or ()))
    folder = file.resolve().parent
    planned = with_what_it_needs(lambda: make_plan(experiment, all_accountants=all_accountants, folder=folder))
    _show(planned.to_json(), as_json, lambda: plan_table(planned.to_json()))


@app.command()
def finish(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of an unfinished run.")],
    as_json: AsJson = False,
) -> None:
    """Make model and summary of the rounds that an unfinished run has completed and paid for, and train no more."""
    from sordino.report.terminal import summary_table, watching

    with quick_imports():
        from sordino.engine.run import finish as finish_run

    with watching(quiet=as_json) as watch:
        summary = finish_run(folder, watch=watch)
    _show(summary, as_json, lambda: summary_table([summary]))


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.")],
    as_json: AsJson = False,
    check: Annotated[
        bool,
        typer.Option("--verify", help="Price the ledger again from its file alone, and compare with what is told."),
    ] = False,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="HTML", help="Also draw the run into this page.")
    ] = None,
) -> None:
    """Show a finished run, or check that a run folder holds together."""
    if check:
        with quick_imports():
            from sordino.engine.verify import verify
            from sordino.report.terminal import verification_table

        found = verify(folder)
        _show(found, as_json, lambda: verification_table(found))
        return
    with quick_imports():
        from sordino.engine.record import RunRecord, read_summary
        from sordino.report.scores import scores_tables
        from sordino.report.terminal import curve, summary_table

    summary = read_summary(folder)
    record = RunRecord(folder)
    metrics = record.read_metrics()
    if figure is not None:
        from sordino.report.figures import accuracy_figure, diagnostics_figures, write_page

        figures = [accuracy_figure({summary["name"]: metrics}), *diagnostics_figures(record.read_diagnostics())]
        write_page(summary["name"], figures, figure)
    _show(
        {**summary, "metrics": metrics},
        as_json,
        lambda: [summary_table([summary]), *scores_tables(summary), curve(metrics)],
    )


@app.command()
def pretrain(
    file: ExperimentFile,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Default pretrained/NAME.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train the public start of an experiment by itself; an experiment with this start then finds it done."""
    with quick_imports():
        from sordino.engine.pretraining import pretrain as train
        from sordino.engine.run import Moment
        from sordino.experiment import read
        from sordino.report.terminal import pretrained_table, watching

    experiment = read(file, tuple(overrides or ()))
    folder = out or Path("pretrained") / experiment.name
    with watching(quiet=as_json) as watch:
        record = train(
            experiment,
            folder,
            folder=file.resolve().parent,
            progress=lambda done, total: watch(Moment("pre-training", done, total)),
        )
    _show(record, as_json, lambda: pretrained_table(record, str(folder)))


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
        from sordino.engine.robustness import measure, open_subject
        from sordino.engine.run import Moment
        from sordino.report.terminal import robustness_table, watching

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
        from sordino.report.figures import robustness_figure, write_page

        write_page("Robustness to noise on parameters", [robustness_figure(found)], figure)
    _show(found, as_json, lambda: robustness_table(found))


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise SordinoError(f"--noise takes numbers with commas between, but got {text!r}; write 0,0.05,0.1.") from error


@app.command()
def sweep(
    file: ExperimentFile,
    over: Annotated[list[str], typer.Option("--over", metavar="KEY=V1,V2", help="Values to try; repeat for a grid.")],
    seeds: Annotated[int, typer.Option("--seeds", help="Runs of each configuration.")] = 3,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Default sweeps/NAME.")] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="HTML", help="Where it is drawn; default DIR/sweep.html.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a grid of settings with several seeds; what is done already is skipped."""
    with quick_imports():
        from sordino.engine.sweep import Sweep, read_axes, run_sweep
        from sordino.experiment import read_table
        from sordino.report.terminal import sweep_table, watching

    table = read_table(file, tuple(overrides or ()))
    grid = Sweep(table=table, axes=read_axes(over), seeds=seeds)
    folder = out or Path("sweeps") / str(table["name"])
    with watching(quiet=as_json) as watch:
        rows = run_sweep(grid, folder, folder=file.resolve().parent, watch=watch)
    from sordino.report.figures import sweep_figure, write_page

    write_page(str(table["name"]), [sweep_figure(rows)], figure or folder / "sweep.html")
    _show(rows, as_json, lambda: sweep_table(rows))


app.command()(predict)
app.command()(export)


@app.command()
def methods(as_json: AsJson = False) -> None:
    """List every choice on every axis."""
    with quick_imports():
        from sordino.report.catalogue import axes
        from sordino.report.terminal import axes_table

    catalogue = axes()
    _show(catalogue, as_json, lambda: axes_table(catalogue))


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the three runs go.")] = Path("runs/demo"),
    as_json: AsJson = False,
) -> None:
    """Compare no privacy, private from scratch, and private from a public start, on embedded data."""
    with quick_imports():
        from sordino.demo import run_demo
        from sordino.report.terminal import summary_table, watching

    with watching(quiet=as_json) as watch:
        summaries = run_demo(out, watch)
    _show(summaries, as_json, lambda: summary_table(summaries))


@data_app.command("list")
def data_list(as_json: AsJson = False) -> None:
    """Data sets that can be used by name on this machine."""
    with quick_imports():
        from sordino.data.source import known
        from sordino.report.terminal import sources_table

    sources = [{"name": entry.name, "format": entry.format, "path": str(entry.path or "")} for entry in known()]
    _show(sources, as_json, lambda: sources_table(sources))


@data_app.command("show")
def data_show(file: ExperimentFile, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Draw which client of an experiment holds which labels (a non-private look at a simulation)."""
    with quick_imports():
        from sordino.data.columns import tables_of
        from sordino.data.label_chart import label_chart
        from sordino.data.locate import relative_to
        from sordino.engine.dealing import federate
        from sordino.engine.resolved import resolve
        from sordino.experiment import read
        from sordino.outside import look_beside
        from sordino.report.columns import columns_tables

    experiment = read(file, tuple(overrides or ()))
    look_beside(file.resolve().parent)
    with relative_to(file.resolve().parent):
        federated = federate(resolve(experiment))
    source = federated.source
    labels = source.train.labels.numpy()
    counts: dict[str, Any] = {
        "clients": federated.partition.clients,
        "client_names": federated.names,
        "sizes": federated.sizes,
        "classes": source.classes,
        "class_names": source.class_names,
        "columns": tables_of(source.layout),
        "test": source.n_test,
        "held_out": 0 if federated.held_out is None else len(federated.held_out.indices),
    }
    _show(
        counts,
        as_json,
        lambda: [
            *columns_tables(counts["columns"]),
            label_chart(federated.partition, labels, source.class_names, federated.names),
        ],
    )


def _show(value: Any, as_json: bool, draw: Any) -> None:
    if as_json:
        from sordino.files import to_json

        sys.stdout.write(to_json(value, indent=2) + "\n")
        return
    from rich.console import Console

    drawn = draw()
    for item in drawn if isinstance(drawn, list) else [drawn]:
        Console(emoji=False).print(item)


def main() -> None:
    """The command in `sys.argv`: a mistake gets one sentence and exit code 2; Ctrl-C says how to go on."""
    try:
        app()
    except SordinoError as error:
        _refuse(str(error))
    except (OSError, MemoryError, RuntimeError) as error:
        sentence = _blame_the_machine(error)
        if sentence is None:
            raise
        _refuse(sentence)
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop, SystemExit) and stop.code != STOPPED:
            raise
        sys.stderr.write(STOPPED_SENTENCE)
        sys.exit(STOPPED)


def _refuse(sentence: str) -> NoReturn:
    sys.stderr.write(json.dumps({"error": sentence}) + "\n" if "--json" in sys.argv else f"sordino: {sentence}\n")
    sys.exit(2)


def _blame_the_machine(error: Exception) -> str | None:
    """A sentence for what the machine refused: a file, a folder, memory; None where it may be a mistake of ours."""
    if isinstance(error, OSError):
        where = shown(str(error.filename)) if error.filename else "A file or folder"
        return f"{where} cannot be used ({first_line(error)}); check the path and its permissions."
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return "There is not enough memory for this; choose a smaller model, cohort or batch."
    return None
