"""A frozen body runs once per example: the head is trained on its cached outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import partial

import torch
from torch import Tensor, nn

from sordino.data.examples import IDENTITY, Examples
from sordino.data.source import Source
from sordino.engine.feature_store import FeatureStore
from sordino.models import Net

CHUNK = 64


def frozen_body(net: Net, trainable: Iterable[str]) -> bool:
    """Whether only the head is trained, on a body that computes anything at all."""
    head = set(net.parts()["head"])
    return set(trainable) <= head and bool(net.parts()["body"])


def body_outputs(net: Net, examples: Examples, device: torch.device) -> Tensor:
    """What the body makes of each example, in small chunks that stay in the processor's cache."""
    trained = net.training
    net.eval()
    with torch.inference_mode():
        chunks = [
            net.body(examples.take(rows).features(device)).flatten(1).cpu()
            for rows in torch.arange(len(examples)).split(CHUNK)
        ]
    net.train(trained)
    return torch.cat(chunks)


def cached_outputs(net: Net, examples: Examples, device: torch.device, *, keep: bool = False) -> Examples:
    """The same examples with the body's outputs in place of their inputs; with `keep` they stay on disk for the next run."""
    compute = partial(body_outputs, net, device=device)
    outputs = FeatureStore(net.body, device).outputs(examples, compute) if keep else compute(examples).clone()
    return Examples(inputs=outputs, labels=examples.labels, normalisation=IDENTITY)


def with_cached_features(net: Net, source: Source, device: torch.device, *, keep: bool = False) -> tuple[Net, Source]:
    """The same head on an empty body, and a source that holds the body's outputs in place of the inputs.

    Each output depends on its own example alone, so the cached rows belong to the same clients as before.
    """
    train, test = (cached_outputs(net, part, device, keep=keep) for part in (source.train, source.test))
    cached = dataclasses.replace(source, train=train, test=test, shape=(train.inputs.shape[1],), kind="tabular")
    return Net(body=nn.Identity(), head=net.head), cached
