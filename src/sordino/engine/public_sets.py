"""Public data sets beside the private one: refused where they cannot be free, and loaded for mechanisms that need some."""

from __future__ import annotations

import dataclasses

import torch

from sordino.core import SordinoError
from sordino.data.examples import Examples
from sordino.data.public import public_settings, public_source
from sordino.data.public_overlap import refuse_overlap, refuse_same_source
from sordino.data.settings import SourceFacts
from sordino.data.source import Source, SourceSettings, describe
from sordino.engine.resolved import Resolved
from sordino.privacy.streams import stream_id
from sordino.tuning import Task

ANCHORS = "privacy.mechanism.public"


def check_public_sets(resolved: Resolved, task: Task) -> None:
    """Refuse data sets that are to be free and cannot be, without reading an example of them."""
    if (table := resolved.start.public_data) is not None:
        _describe_public(resolved, public_settings(table, shape=(), where="start.data"))
    needed = resolved.mechanism.public_examples()
    if needed is None:
        return
    settings = public_settings(needed.source, shape=task.shape, where=ANCHORS)
    facts = _describe_public(resolved, settings)
    if needed.count > facts.n_train:
        raise SordinoError(
            f"[privacy] mechanism asks for {needed.count} anchors, but the public set {settings.source!r} has "
            f"{facts.n_train} examples; lower anchors."
        )
    if facts.shape != task.shape:
        raise SordinoError(
            f"[{ANCHORS}] needs examples of shape {task.shape} like the private ones, but {settings.source!r} has {facts.shape}; "
            "choose another public set."
        )


def _describe_public(resolved: Resolved, settings: SourceSettings) -> SourceFacts:
    refuse_same_source(resolved.source, settings)
    return describe(settings, seed=resolved.experiment.seed)


def public_anchors(resolved: Resolved, private: Source) -> Examples | None:
    """Public examples for a mechanism that needs some, with labels that the private model knows."""
    needed = resolved.mechanism.public_examples()
    if needed is None:
        return None
    seed = resolved.experiment.seed
    public = public_source(needed.source, shape=private.shape, seed=seed, where=ANCHORS)
    refuse_overlap(private, public)
    generator = torch.Generator().manual_seed(stream_id("anchors", seed))
    chosen = public.train.take(torch.randperm(len(public.train), generator=generator)[: needed.count])
    if public.classes == private.classes:
        return chosen
    if private.target is not None:
        return dataclasses.replace(chosen, labels=torch.rand(len(chosen), generator=generator))
    labels = torch.randint(private.classes, (len(chosen),), generator=generator)
    return dataclasses.replace(chosen, labels=labels)
