"""Head tuning reads cached features."""

import math

from torch import nn

import sordino
from sordino.data.source import SourceSettings, describe
from sordino.engine.features import CHUNK


def test_a_frozen_body_sees_every_example_once_however_many_rounds_there_are(tiny, tmp_path, monkeypatch):
    seen = []
    honest = nn.Conv2d.forward

    def counted(self, inputs):
        seen.append(len(inputs))
        return honest(self, inputs)

    monkeypatch.setattr(nn.Conv2d, "forward", counted)
    facts = describe(SourceSettings(source="digits", visibility="private"))
    table = tiny(
        rounds=6,
        model={"name": "cnn", "features": 4},
        tuning={"name": "head"},
        method={"name": "dp-sgd", "batch_size": 8},
        engine={"evaluate_every": 1},
    )
    sordino.run(table, out=tmp_path / "run")
    convolutions = 2
    chunks = math.ceil(facts.n_train / CHUNK) + math.ceil(facts.n_test / CHUNK)  # the last of each is filled up
    assert seen == [CHUNK] * convolutions * chunks
