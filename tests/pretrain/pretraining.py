"""A context and a small public set that tests of pre-training share."""

from pathlib import Path

import torch

from sordino.data.source import SourceSettings
from sordino.models import build
from sordino.pretrain.provenance import PrivateData
from sordino.pretrain.start import StartContext

DIGITS = {"source": "digits", "visibility": "public", "limit": 300}
MODEL = {"name": "mlp", "hidden": [12], "dropout": 0.2}


def context(**changes):
    settings = {
        "shape": (1, 8, 8),
        "classes": 10,
        "seed": 4,
        "device": torch.device("cpu"),
        "folder": Path(),
        "progress": lambda done, total: None,
        "model": MODEL,
        "build": lambda classes, seed: build(
            "mlp", shape=(1, 8, 8), classes=classes, seed=seed, hidden=[12], dropout=0.2
        ),
        "refuse_overlap": lambda source: None,
        "private": PrivateData(settings=SourceSettings(source="mnist5k", visibility="private")),
        **changes,
    }
    return StartContext(**settings)


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)
