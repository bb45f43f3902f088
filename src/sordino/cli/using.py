"""Trained models in use."""

from __future__ import annotations

from sordino.cli.application import app
from sordino.predict.commands import export, predict

app.command()(predict)
app.command()(export)
