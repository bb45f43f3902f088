"""Pictures as stand-alone HTML pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go


def accuracy_picture(runs: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> None:
    """Accuracy over rounds, one line per run; the ε reached so far shows on hovering."""
    figure = go.Figure()
    for name, metrics in runs.items():
        figure.add_scatter(
            x=[row["round"] + 1 for row in metrics],
            y=[row["accuracy"] for row in metrics],
            text=[f"ε {row['epsilon']} ({row['view']} view)" for row in metrics],
            name=name,
            mode="lines+markers",
        )
    figure.update_layout(
        title="Accuracy over rounds",
        xaxis_title="round",
        yaxis_title="accuracy",
        yaxis_tickformat=".0%",
        template="plotly_white",
    )
    figure.write_html(path, include_plotlyjs=True)
