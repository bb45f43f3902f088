"""Whether two data sets share examples: data that is private in one place cannot be public in another."""

from __future__ import annotations

import dataclasses

from torch import Tensor

from sordino.core import SordinoError
from sordino.data import images
from sordino.data.locate import same_source
from sordino.data.overlap import overlap
from sordino.data.row_pool import parts_of_one_set
from sordino.data.source import Source, SourceSettings, load, raw_inputs, raw_shape

INSTEAD = "what is private in one place cannot be public in another, so choose another public set"


def refuse_overlap(private: Source, public: Source) -> None:
    """Refuse a public set that holds training or test examples of a private one.

    Rows are compared bit for bit: as they are trained on, with the public ones brought to the private shape, and as they stand in
    their files, before any resizing; where one has colours and the other has not, in grey. Otherwise changed copies are not found.
    """
    if private.visibility == "public":
        return
    if private.origin is not None and public.origin is not None:
        refuse_same_source(private.origin.settings, public.origin.settings)
    fitted = _in_shape_of(private, public)
    for part, examples in (("training", private.train), ("test", private.test)):
        if examples is not None:
            _refuse(overlap(examples.inputs, fitted.train.inputs), part, private, public)
    if private.kind == public.kind == "image":
        _refuse_shared_files(private, public)


def refuse_same_source(private: SourceSettings, public: SourceSettings) -> None:
    """Refuse to call public what is also called private, however it is resized, limited or split."""
    if private.visibility == "public" or not same_source(private.source, public.source):
        return
    if parts_of_one_set(private, public):
        return
    raise SordinoError(
        f"The public set {public.source!r} is the private set {private.source!r} again, so all its examples are also training or "
        f"test examples of the private set; {INSTEAD}, or divide one with the same public_share, or with rows, in both places."
    )


def _in_shape_of(private: Source, public: Source) -> Source:
    """The public set as it is, or read again in the private set's shape where that is another."""
    if public.shape == private.shape or public.kind != private.kind or public.origin is None:
        return public
    settings, seed = public.origin.settings, public.origin.seed
    if public.kind == "image" and private.shape[1] == private.shape[2]:
        return load(dataclasses.replace(settings, resize=private.shape[1], channels=private.shape[0]), seed=seed)
    if public.kind == "text":
        return load(dataclasses.replace(settings, length=private.shape[0], vocabulary=private.vocabulary), seed=seed)
    return public


def _refuse_shared_files(private: Source, public: Source) -> None:
    """Compare images as they stand in their files, where these have one size."""
    if private.origin is None or public.origin is None:
        return
    try:
        shapes = raw_shape(private.origin), raw_shape(public.origin)
        if shapes[0][1:] != shapes[1][1:] or shapes == (private.shape, private.shape):
            return  # none can be equal, or they have been compared as they are
        own, others = raw_inputs(private.origin), raw_inputs(public.origin)[0]
    except SordinoError:
        return  # images of several sizes have been compared in the private shape
    for part, inputs in zip(("training", "test"), own, strict=False):
        _refuse(overlap(*_alike(inputs, others)), part, private, public)


def _alike(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Images with the same number of channels."""
    if a.shape[1] == b.shape[1]:
        return a, b
    grey_a, grey_b = (images.fit(each, resize=None, channels=1) for each in (a, b))
    return grey_a, grey_b


def _refuse(shared: int, part: str, private: Source, public: Source) -> None:
    if shared:
        raise SordinoError(
            f"{shared} examples of the public set {public.name!r} are also {part} examples of the private set {private.name!r}; "
            f"{INSTEAD}."
        )
