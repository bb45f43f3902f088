"""Figures of a run as one stand-alone HTML page."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from sordino.files import write_whole

if TYPE_CHECKING:
    from torch import Tensor

Metrics = Sequence[Mapping[str, Any]]


def write_page(title: str, figures: Sequence[go.Figure], path: Path) -> None:
    """All figures below each other; the page needs no network."""
    parts = [
        figure.to_html(full_html=False, include_plotlyjs=index == 0, default_height="480px")
        for index, figure in enumerate(figures)
    ]
    head = f"<!doctype html><meta charset='utf-8'><title>{html.escape(title)}</title>"
    style = "<style>body{font-family:sans-serif;max-width:1100px;margin:2em auto}</style>"
    write_whole(path, "\n".join([head, style, f"<h1>{html.escape(title)}</h1>", *parts]).encode())


def accuracy_figure(runs: Mapping[str, Metrics]) -> go.Figure:
    """Accuracy over rounds, one line per run; the ε reached so far shows on hovering."""
    figure = go.Figure()
    charged = any(row.get("accuracy_charged") for metrics in runs.values() for row in metrics)
    for name, metrics in runs.items():
        figure.add_scatter(
            x=[row["round"] + 1 for row in metrics],
            y=[row["accuracy"] for row in metrics],
            text=[f"ε {row['epsilon']} ({row['view']} view)" for row in metrics],
            name=name,
            mode="lines+markers",
        )
        own = [row for row in metrics if "non_private_clients" in row]
        if own:
            figure.add_scatter(
                x=[row["round"] + 1 for row in own],
                y=[row["non_private_clients"]["mean"] for row in own],
                error_y={"array": [row["non_private_clients"]["standard_deviation"] for row in own]},
                name=f"{name}: clients in their own mix of labels (outside ε)",
                mode="lines+markers",
            )
    figure.update_layout(
        title="Accuracy on held-out rows, noised and charged" if charged else "Accuracy on the public test split",
        xaxis_title="round",
        yaxis_title="accuracy",
        yaxis_tickformat=".0%",
        template="plotly_white",
    )
    return figure


def sweep_figure(rows: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Accuracy over ε, or over the first swept setting, one line for each combination of the others, with the spread over seeds."""
    keys = list(rows[0]["settings"])
    across = "privacy.epsilon" if "privacy.epsilon" in keys else next((key for key in keys if key != "case"), "case")
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        others = {key: value for key, value in row["settings"].items() if key != across}
        lines.setdefault(", ".join(f"{key}={value}" for key, value in others.items()) or across, []).append(row)
    figure = go.Figure()
    for name, points in lines.items():
        figure.add_scatter(
            x=[point["settings"].get(across, "") for point in points],
            y=[point["accuracy"] for point in points],
            error_y={"array": [point["spread"] for point in points]},
            name=name,
            mode="lines+markers",
        )
    figure.update_layout(xaxis_title=across, yaxis_title="accuracy", yaxis_tickformat=".0%", template="plotly_white")
    return figure


def robustness_figure(found: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Accuracy over the noise on every parameter, one line per model, with the spread over draws."""
    figure = go.Figure()
    for one in found:
        rows = one["robust_accuracy"]
        figure.add_scatter(
            x=[row["noise"] for row in rows],
            y=[row["accuracy"] for row in rows],
            error_y={"array": [row["spread"] for row in rows]},
            name=str(one["folder"]),
            mode="lines+markers",
        )
    figure.update_layout(
        title="Accuracy under noise on every parameter",
        xaxis_title="standard deviation of the noise",
        yaxis_title="accuracy",
        yaxis_tickformat=".0%",
        template="plotly_white",
    )
    return figure


def diagnostics_figures(by_round: Mapping[int, Mapping[str, Tensor]]) -> list[go.Figure]:
    """What FedCEO keeps of its last smoothing: singular values per frequency, and roughness by class and client."""
    if not by_round:
        return []
    last, tensors = max(by_round.items())
    names = [name.removeprefix("singular values before smoothing, ") for name in tensors if "values before" in name]
    spectra = [_spectrum_figure(name, last, tensors) for name in names]
    return [*spectra, *([_roughness_figure(last, tensors)] if "roughness before smoothing" in tensors else [])]


def _spectrum_figure(name: str, round_number: int, tensors: Mapping[str, Tensor]) -> go.Figure:
    figure = make_subplots(1, 2, subplot_titles=("before smoothing", "after smoothing"), shared_yaxes=True)
    for column, when in enumerate(("before", "after"), start=1):
        for frequency, values in enumerate(tensors[f"singular values {when} smoothing, {name}"].tolist()):
            figure.add_scatter(y=values, name=f"frequency {frequency}", row=1, col=column, showlegend=column == 1)
    figure.update_layout(
        title=f"Singular values of {name} per frequency, round {round_number} (non-private diagnostic)",
        template="plotly_white",
    )
    return figure


def _roughness_figure(round_number: int, tensors: Mapping[str, Tensor]) -> go.Figure:
    figure = make_subplots(1, 2, subplot_titles=("before smoothing", "after smoothing"), shared_yaxes=True)
    for column, when in enumerate(("before", "after"), start=1):
        values = tensors[f"roughness {when} smoothing"]
        figure.add_heatmap(z=values.tolist(), coloraxis="coloraxis", row=1, col=column)
    figure.update_layout(
        title=f"Roughness of the last layer, class by client, round {round_number} (non-private diagnostic)",
        coloraxis={"colorscale": "RdBu_r"},
        template="plotly_white",
    )
    figure.update_xaxes(title="client")
    figure.update_yaxes(title="class")
    return figure
