"""What a frozen body makes of a row depends on that row alone, to the last bit, and in few bytes."""

from __future__ import annotations

import pytest
import torch

from sordino.data.examples import Examples, Normalisation
from sordino.engine.features import CHUNK, body_outputs
from sordino.models import build

CPU = torch.device("cpu")


def images(count, side):
    generator = torch.Generator().manual_seed(count)
    pixels = torch.randint(256, (count, 3, side, side), dtype=torch.uint8, generator=generator)
    return Examples(inputs=pixels, labels=torch.zeros(count, dtype=torch.long), normalisation=Normalisation())


@pytest.mark.parametrize(("name", "side"), [("cnn", 16), ("resnet20", 16), ("efficientnet_lite0", 64)])
def test_a_client_describes_its_rows_as_all_of_them_are_described_together(name, side):
    net = build(name, shape=(3, side, side), classes=4, vocabulary=0, seed=0)
    rows = images(2 * CHUNK + 5, side)
    together = body_outputs(net, rows, CPU)
    assert together.shape[0] == len(rows)
    for first, last in ((0, 3), (CHUNK - 1, CHUNK + 8), (2 * CHUNK + 4, 2 * CHUNK + 5)):
        alone = body_outputs(net, rows.take(torch.arange(first, last)), CPU)
        assert torch.equal(alone, together[first:last])


def test_progress_counts_rows_and_not_what_fills_a_chunk_up():
    net = build("cnn", shape=(3, 16, 16), classes=4, vocabulary=0, seed=0)
    told = []
    body_outputs(net, images(CHUNK + 3, 16), CPU, told.append)
    assert told == [CHUNK, 3]
