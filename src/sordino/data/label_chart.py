"""The labels of every client as a chart in the terminal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sordino.data.partition import Labels, Partition

CLIENTS_SHOWN = 20
CHART_WIDTH = 50
SHADES = "░▒▓█"
COLD, HOT = (58, 84, 140), (255, 196, 61)


def label_chart(
    partition: Partition, labels: Labels, class_names: tuple[str, ...], client_names: tuple[str, ...] = ()
) -> RenderableType:
    """One line per client and one block per class, brighter and fuller the larger the class's share of the client.

    Exact counts are not private: the chart is a diagnostic of a simulation, and says so.
    """
    shown = min(partition.clients, CLIENTS_SHOWN)
    bins = min(len(class_names), CHART_WIDTH)
    width = max(1, min(CHART_WIDTH // bins, max(map(len, class_names)) + 1))
    counts = np.stack(
        [np.bincount(labels[partition.of(client)], minlength=len(class_names)) for client in range(shown)]
    )
    shares = _binned(counts, bins) / counts.sum(1, keepdims=True)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Labels of each client", title_justify="left")
    table.add_column("client", justify="right")
    table.add_column("examples", justify="right")
    table.add_column(_header(class_names, bins, width), no_wrap=True)
    table.add_column("classes", justify="right")
    for client in range(shown):
        held = int((counts[client] > 0).sum())
        table.add_row(
            client_names[client] if client_names else str(client),
            f"{counts[client].sum():,}",
            _blocks(shares[client] / shares.max(), width),
            str(held),
        )
    legend = f"{SHADES[-1]} is {shares.max():.0%} of a client's examples."
    note = f"{legend} Exact counts: a non-private diagnostic of a simulation."
    return Group(table, _summary(partition, labels, len(class_names), shown), Text(note, style="dim italic"))


def _binned(counts: NDArray[np.int64], bins: int) -> NDArray[np.int64]:
    """Neighbouring classes together, where there are more classes than places."""
    edges = np.arange(bins) * counts.shape[1] // bins
    binned: NDArray[np.int64] = np.add.reduceat(counts, edges, axis=1)
    return binned


def _header(class_names: tuple[str, ...], bins: int, width: int) -> Text:
    if len(class_names) == bins and (width > 4 or max(map(len, class_names)) < width):
        return Text("".join(name[: width - 1].ljust(width) for name in class_names))
    return Text(f"0 … {len(class_names) - 1}")


def _blocks(strengths: NDArray[np.float64], width: int) -> Text:
    line = Text()
    for strength in np.sqrt(strengths):  # the root keeps small shares visible
        if strength == 0:
            line.append("·".ljust(width), style="dim")
            continue
        shade = SHADES[min(int(strength * len(SHADES)), len(SHADES) - 1)]
        red, green, blue = (round(cold + strength * (hot - cold)) for cold, hot in zip(COLD, HOT, strict=True))
        line.append(shade * width, style=f"rgb({red},{green},{blue})")
    return line


def _summary(partition: Partition, labels: Labels, classes: int, shown: int) -> Text:
    sizes = partition.sizes
    held = np.unique(partition.owners() * classes + labels[partition.indices]) // classes
    per_client = np.bincount(held, minlength=partition.clients)
    hidden = f"… and {partition.clients - shown:,} more. " if partition.clients > shown else ""
    return Text(
        f"{hidden}{partition.clients:,} clients hold {sizes.sum():,} examples: "
        f"{sizes.min():,} to {sizes.max():,} each, median {np.median(sizes):,.0f}; "
        f"{per_client.min()} to {per_client.max()} classes each, median {np.median(per_client):.0f}."
    )
