"""The command line. Heavy imports happen inside commands, so that help is instant.

One file a group of commands; each joins `app` when it is imported, in the order in which help lists them.
"""

from importlib import import_module

from sordino.cli.application import app, data_app
from sordino.cli.process import STOPPED, main, stopped_sentence

for _group in (
    "running",
    "looking",
    "attacking",
    "sweeping",
    "recommending",
    "using",
    "starts",
    "catalogues",
    "demonstration",
    "provisioning",
    "operating",
    "auditing",
    "watching",
    "federating",
):
    import_module(f"{__name__}.{_group}")
app.add_typer(data_app, name="data")

__all__ = ["STOPPED", "app", "main", "stopped_sentence"]
