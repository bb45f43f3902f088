"""Which client holds which labels: exact counts, so a look at simulations alone."""

from __future__ import annotations

from pathlib import Path

from sordino.core import SordinoError
from sordino.data.beside import relative_to
from sordino.data.target import target_of
from sordino.engine.dealing import client_labels
from sordino.engine.resolved import resolve
from sordino.experiment import experiment
from sordino.files import to_json
from sordino.outside import look_beside
from sordino.report.drawing.elements import Markup, join
from sordino.report.drawing.heat import HeatMap
from sordino.report.page.pieces import figure, note
from sordino.report.page.told import Story, Told

MOST_MAPS, MOST_CLIENTS, MOST_CLASSES = 4, 120, 40
Shares = list[list[float]]
"""Of each client, the share of each label among its rows."""


def label_maps(story: Story) -> Markup:
    """One heat map for each way in which data were dealt out, of its first seed."""
    found: dict[str, Told] = {}
    for told in story.runs:
        if told.run.simulated:
            dealt = {
                key: value
                for key, value in told.run.settings.items()
                if key.startswith("data.") and key != "data.client_test_rows"
            }
            found.setdefault(to_json([dealt, told.run.method == "dp-sgd"]), told)
    dealt_out, unread = _dealt_out(list(found.values())[:MOST_MAPS])
    hidden = max(0, len(found) - MOST_MAPS)
    more = note(f"Data were dealt out in {hidden} more ways, which are not drawn.") if hidden else Markup("")
    return join(*(_map(*one, alone=len(dealt_out) == 1) for one in dealt_out), *unread, more)


def _dealt_out(found: list[Told]) -> tuple[list[tuple[Told, Shares, tuple[str, ...]]], list[Markup]]:
    """What each run's clients hold, once where it is the same; and notes on what cannot be read."""
    dealt: list[tuple[Told, Shares, tuple[str, ...]]] = []
    unread = []
    for told in found:
        try:
            shares, names = _shares(told)
        except (SordinoError, OSError) as error:
            unread.append(note(f"The labels of {told.run.settings['data.source']} cannot be shown: {error}"))
            continue
        if all(shares != other for _, other, _ in dealt):
            dealt.append((told, shares, names))
    return dealt, unread


def _map(told: Told, shares: Shares, names: tuple[str, ...], *, alone: bool) -> Markup:
    if len(shares) < 2 or len(shares[0]) > MOST_CLASSES:
        return Markup("")
    clients = len(shares)
    step = -(-clients // MOST_CLIENTS)
    kept = list(range(0, clients, step))
    classes = _groups(told) or [str(number) for number in range(len(shares[0]))]
    drawing = HeatMap(
        name=f"Share of each label in each of {clients} clients",
        values=[[shares[client][label] for client in kept] for label in range(len(classes))],
        row_names=list(classes),
        column_names=[names[client] if names else str(client) for client in kept],
        rows_are="label",
        columns_are="client",
        percent=True,
    )
    where = "" if alone else f" {told.run.settings['data.source']} for {told.run.method}."
    cut = f" Every {step}th client is drawn." if step > 1 else ""
    caption = (
        f"Share of each label among a client's rows, dealt out again as with seed {told.run.seed}.{where}{cut} "
        "Exact counts of a simulation, outside every ε."
    )
    return figure(drawing, title="Who holds which labels.", caption=caption)


def _groups(told: Told) -> list[str]:
    """The classes, or parts of the range of a number."""
    target = told.summary.get("target")
    return told.summary.get("class_names", []) if target is None else list(target_of(target).part_names)


def _shares(told: Told) -> tuple[Shares, tuple[str, ...]]:
    found = told.record.read_experiment()
    folder = Path(found["facts"]["folder"])
    look_beside(folder)
    with relative_to(folder):
        counts, names = client_labels(resolve(experiment(found["experiment"])), classes=len(_groups(told)))
    return [[float(value) / max(1, int(row.sum())) for value in row] for row in counts], names
