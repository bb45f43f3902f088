"""One epoch of head tuning: on cached outputs of a frozen ResNet-20 body, and with the body run again each time."""

from __future__ import annotations

import json
import sys
from functools import partial

import torch
from torch import Tensor

from benchmarks.effort import interleaved_seconds, quick, repeats
from sordino.data.examples import Examples, Normalisation
from sordino.data.source import Source
from sordino.engine.features import with_cached_features
from sordino.engine.simulate.allocator import tune_allocator
from sordino.methods.local_sgd import LocalSgd
from sordino.methods.method import ClientContext
from sordino.models import FlatSpace, Net, build

SHAPE, CLASSES = (3, 32, 32), 10
CPU = torch.device("cpu")
EPOCH = LocalSgd(batch_size=64, learning_rate=0.1)


def measure() -> list[dict[str, object]]:
    """Median milliseconds per epoch, the ratio, and how far apart the two trained heads are."""
    tune_allocator()
    rows = 256 if quick() else 1024
    net = build("resnet20", shape=SHAPE, classes=CLASSES, seed=0)
    net.body.requires_grad_(False)
    source = _source(rows)
    head_net, cached = with_cached_features(net, source, CPU)
    net.train()
    recompute, reuse = partial(_epoch, net, source.train), partial(_epoch, head_net, cached.train)
    before, after = recompute(), reuse()
    medians = interleaved_seconds({"recomputed": recompute, "cached": reuse}, repeats(5))
    return [
        {
            "benchmark": "cached_head",
            "rows": rows,
            "recomputed ms": 1e3 * medians["recomputed"],
            "cached ms": 1e3 * medians["cached"],
            "recomputed / cached": medians["recomputed"] / medians["cached"],
            "relative difference of the heads": float((before - after).norm() / before.norm()),
        }
    ]


def _epoch(net: Net, examples: Examples) -> Tensor:
    """The head's update after one epoch from the weights it started with."""
    space = FlatSpace(net, net.parts()["head"])
    start = torch.zeros(space.size)
    context = ClientContext(net=net, space=space, client=0, round=0, size=len(examples), seed=0, device=CPU)
    return EPOCH.run(start, examples, context)


def _source(rows: int) -> Source:
    generator = torch.Generator().manual_seed(0)

    def examples(count: int) -> Examples:
        return Examples(
            inputs=torch.randint(256, (count, *SHAPE), generator=generator, dtype=torch.uint8),
            labels=torch.randint(CLASSES, (count,), generator=generator),
            normalisation=Normalisation(),
        )

    return Source(
        name="made up",
        train=examples(rows),
        test=examples(CLASSES),
        classes=CLASSES,
        shape=SHAPE,
        kind="image",
        visibility="private",
        class_names=tuple(map(str, range(CLASSES))),
        columns={},
        vocabulary=0,
    )


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
