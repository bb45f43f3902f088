"""Commands that look from outside: audit, attack."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from sordino.cli.application import AsJson, Overrides, app
from sordino.cli.output import show_value
from sordino.core import SordinoError
from sordino.startup import quick_imports

BEATEN = 1
"""The exit code where an audit proves more than the ledger claims."""
LARGEST_BATCH = 8
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}

Target = Annotated[
    Path | None,
    typer.Argument(metavar="FILE|DIR", help="An experiment file (TOML), or the folder of a run.", show_default=False),
]


@app.command()
def audit(
    target: Target = None,
    overrides: Overrides = None,
    view: Annotated[
        list[str] | None, typer.Option("--view", help="Whose eyes: public, server or client; default all three.")
    ] = None,
    budget: Annotated[str, typer.Option("--budget", metavar="TIME", help="How long canaries run: 30s, 5m, 1h.")] = "1m",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Default audits/NAME, or the run's own folder.")
    ] = None,
    final_model: Annotated[
        bool,
        typer.Option("--final-model", help="Also somebody who sees the last model alone; canaries are whole clients."),
    ] = False,
    publish: Annotated[
        bool, typer.Option("--publish", help="Put the verdict into the release of a secure run, too.")
    ] = False,
    self_test: Annotated[
        bool, typer.Option("--self-test", help="Audit the audits: broken twins of real parts, each to be caught.")
    ] = False,
    every_method: Annotated[
        bool, typer.Option("--all", help="Audit small experiments of every method and placement; --budget is for each.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Hold the ledger's ε against what canaries in real rounds prove from outside; exit code 1 where they prove more."""
    seconds = read_seconds(budget)
    if self_test:
        _self_test(as_json)
        return
    if every_method:
        _every_method(seconds, out, as_json)
        return
    if target is None:
        raise SordinoError(
            "An audit needs an experiment file or the folder of a run, but got neither; name one, or say --self-test."
        )
    with quick_imports():
        from sordino.audit.auditing import audit_experiment
        from sordino.audit.record import AUDIT, publish_audit, write_found
        from sordino.audit.target import read_target
        from sordino.report.audit_progress import watching_stages
        from sordino.report.audit_table import audit_report
        from sordino.report.comparison.runs import read_view

    found = read_target(target, tuple(overrides or ()))
    views = tuple(read_view(one) for one in view or ("public", "server", "client"))
    with watching_stages(quiet=as_json) as progress:
        result = audit_experiment(
            found.experiment,
            views=views,
            budget_seconds=seconds,
            folder=found.folder,
            settled=found.settled,
            declared=found.declared,
            final_model=final_model,
            progress=progress,
        )
    content: dict[str, Any] = result.to_json()
    write_found(out or found.place("audits"), AUDIT, content)
    if publish:
        publish_audit(target, content)
    show_value(content, as_json, lambda: audit_report(content))
    if not result.holds:
        raise typer.Exit(BEATEN)


@app.command()
def attack(
    target: Target = None,
    overrides: Overrides = None,
    batch: Annotated[
        list[int] | None, typer.Option("--batch", help="Rows of the attacked step; default 1 and 4.")
    ] = None,
    iterations: Annotated[int, typer.Option("--iterations", help="Of each search for images.")] = 300,
    inversion: Annotated[bool, typer.Option(help="Invert gradients.")] = True,
    membership: Annotated[bool, typer.Option(help="Infer who was trained on.")] = True,
    shadows: Annotated[int, typer.Option("--shadows", help="Shadow models of LiRA; 0 for none.")] = 16,
    epochs: Annotated[int, typer.Option("--epochs", help="Of each shadow model.")] = 30,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Default attacks/NAME, or the run's own folder.")
    ] = None,
    every_method: Annotated[
        bool, typer.Option("--all", help="Infer membership from small runs of every method, one of them overfitted.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Invert gradients and infer membership, on what each view sees; exit code 1 where an attack does better than ε allows."""
    with quick_imports():
        from sordino.audit.attacks.attacking import attack_target
        from sordino.audit.attacks.inverting import ATTACKS
        from sordino.audit.record import ATTACK, write_found
        from sordino.audit.target import read_target
        from sordino.report.attack_table import attack_report
        from sordino.report.audit_progress import watching_stages

    if every_method:
        _attack_every_method(shadows, epochs, out, as_json)
        return
    if target is None:
        raise SordinoError(
            "An attack needs an experiment file or the folder of a run, but got neither; name one, or say --all."
        )
    if not all(1 <= rows <= LARGEST_BATCH for rows in batch or ()):
        raise SordinoError(f"--batch takes 1 to {LARGEST_BATCH} rows, but got {batch}; more cannot be told apart.")
    found = read_target(target, tuple(overrides or ()))
    place = out or found.place("attacks")
    with watching_stages(quiet=as_json) as progress:
        content = attack_target(
            found,
            place,
            attacks=ATTACKS if inversion else (),
            batches=batch or (1, 4),
            iterations=iterations,
            membership=membership,
            shadows=shadows,
            epochs=epochs,
            progress=progress,
        )
    write_found(place, ATTACK, content)
    show_value(content, as_json, lambda: attack_report(content, place))
    if not content["holds"]:
        raise typer.Exit(BEATEN)


def _every_method(seconds: float, out: Path | None, as_json: bool) -> None:
    with quick_imports():
        from sordino.audit.catalogue import audit_catalogue
        from sordino.files import make_folder, write_whole
        from sordino.report.audit_progress import watching_stages
        from sordino.report.audit_table import catalogue_markdown, catalogue_report

    with watching_stages(quiet=as_json) as progress:
        content = audit_catalogue(budget_seconds=seconds, progress=progress)
    if out is not None:
        make_folder(out)
        write_whole(out / "audits.md", (catalogue_markdown(content) + "\n").encode())
    show_value(content, as_json, lambda: catalogue_report(content))
    if not all(one["holds"] for one in content):
        raise typer.Exit(BEATEN)


def _attack_every_method(shadows: int, epochs: int, out: Path | None, as_json: bool) -> None:
    with quick_imports():
        from sordino.audit.attacks.every_method import attack_every_method
        from sordino.files import make_folder, to_json, write_whole
        from sordino.report.attack_table import every_method_markdown, every_method_report
        from sordino.report.audit_progress import watching_stages

    with watching_stages(quiet=as_json) as progress:
        content = attack_every_method(shadows=shadows, epochs=epochs, progress=progress)
    if out is not None:
        make_folder(out)
        write_whole(out / "attacks.md", (every_method_markdown(content) + "\n").encode())
        write_whole(out / "attacks.json", (to_json(content, indent=2) + "\n").encode())
    show_value(content, as_json, lambda: every_method_report(content))
    if not all(one["holds"] for one in content):
        raise typer.Exit(BEATEN)


def _self_test(as_json: bool) -> None:
    with quick_imports():
        from sordino.audit.self_test.running import self_test, to_json
        from sordino.report.audit_progress import watching_stages
        from sordino.report.audit_table import self_test_report

    with watching_stages(quiet=as_json) as progress:
        content = to_json(self_test(progress=progress))
    show_value(content, as_json, lambda: self_test_report(content))
    if not content["holds"]:
        raise typer.Exit(BEATEN)


def read_seconds(text: str) -> float:
    """A time such as 90s, 5m or 1h, in seconds."""
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if matched is None or float(matched[1]) <= 0:
        raise SordinoError(f"--budget takes a time such as 30s, 5m or 1h, but got {text!r}.")
    return float(matched[1]) * _UNITS[matched[2] or "s"]
