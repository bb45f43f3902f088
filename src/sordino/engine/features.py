"""A frozen body runs once per example: the head is trained on its cached outputs."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor, nn

from sordino.data.examples import IDENTITY, Examples
from sordino.data.source import Source
from sordino.engine.feature_store import FeatureStore
from sordino.kernels import fastest
from sordino.models import Net
from sordino.pretrain.start import Progress

CHUNK = 16
"""Images at a time: a quarter of the memory of 64, at the same speed. All chunks are as large, since torch adds up otherwise in smaller
ones: what a row is described by must not depend on who else is described."""

Advance = Callable[[int], None]
"""Told how many more examples are done."""


def frozen_body(net: Net, trainable: Iterable[str]) -> bool:
    """Whether only the head is trained, on a body that computes anything at all."""
    head = set(net.parts()["head"])
    return set(trainable) <= head and bool(net.parts()["body"])


def body_outputs(net: Net, examples: Examples, device: torch.device, advance: Advance = lambda more: None) -> Tensor:
    """What a fast copy of the body makes of each example, chunk by chunk; the last one is filled up with its last example."""
    body = fastest(copy.deepcopy(net.body)).eval()
    chunks = []
    with torch.inference_mode():
        for rows in torch.arange(len(examples)).split(CHUNK):
            whole = torch.cat([rows, rows[-1:].expand(CHUNK - len(rows))])
            chunks.append(body(examples.take(whole).features(device)).flatten(1)[: len(rows)].cpu())
            advance(len(rows))
    return torch.cat(chunks)


def cached_outputs(
    net: Net,
    examples: Examples,
    device: torch.device,
    *,
    keep: bool = False,
    advance: Advance = lambda more: None,
) -> Examples:
    """The same examples with the body's outputs in place of their inputs; with `keep` they stay on disk for the next run."""
    compute = partial(body_outputs, net, device=device, advance=advance)
    outputs = FeatureStore(net.body, device).outputs(examples, compute, advance) if keep else compute(examples).clone()
    return Examples(inputs=outputs, labels=examples.labels, normalisation=IDENTITY)


def with_cached_features(
    net: Net,
    source: Source,
    device: torch.device,
    *,
    keep: bool = False,
    progress: Progress = lambda done, total: None,
) -> tuple[Net, Source]:
    """The same head on an empty body, and a source that holds the body's outputs in place of the inputs.

    Each output depends on its own example alone, so the cached rows belong to the same clients as before.
    """
    parts = [source.train] if source.test is None else [source.train, source.test]
    done, total = 0, sum(map(len, parts))

    def advance(more: int) -> None:
        nonlocal done
        done += more
        progress(done, total)

    train, *test = (cached_outputs(net, part, device, keep=keep, advance=advance) for part in parts)
    cached = dataclasses.replace(
        source, train=train, test=test[0] if test else None, shape=(train.inputs.shape[1],), kind="tabular"
    )
    return Net(body=nn.Identity(), head=net.head), cached
