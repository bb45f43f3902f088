"""Rows that are private in one place and public in another, found before and after resizing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from sordino.core import SordinoError, Visibility
from sordino.data.public_overlap import refuse_overlap
from sordino.data.source import Source, SourceSettings, load

Pixels = NDArray[np.uint8]


def pixels(*, side: int = 12, channels: int = 1, count: int = 40, seed: int = 0) -> Pixels:
    shape = (count, side, side) if channels == 1 else (count, side, side, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def stored(path: Path, images: Pixels) -> str:
    np.savez(path, x_train=images, y_train=np.arange(len(images)) % 4)
    return str(path)


def opened(source: str, visibility: Visibility, **settings: int) -> Source:
    return load(SourceSettings(source=source, visibility=visibility, classes=4, **settings), seed=1)  # type: ignore[arg-type]


def test_the_same_file_is_refused_at_any_size(tmp_path: Path) -> None:
    path = stored(tmp_path / "set.npz", pixels())
    private = opened(path, "private", resize=8)
    for settings in ({}, {"resize": 9}, {"resize": 8, "channels": 3}, {"limit": 1}):
        with pytest.raises(SordinoError, match=r"is the private set .* again"):
            refuse_overlap(private, opened(path, "public", **settings))
    (tmp_path / "link.npz").symlink_to(path)
    with pytest.raises(SordinoError, match=r"is the private set .* again"):
        refuse_overlap(private, opened(str(tmp_path / "link.npz"), "public"))


@pytest.mark.parametrize("settings", [{}, {"resize": 9}, {"channels": 3}, {"resize": 20, "channels": 3}])
@pytest.mark.parametrize("own", [{}, {"resize": 8}, {"resize": 8, "channels": 3}])
def test_a_copy_is_found_before_resizing(tmp_path: Path, settings: dict[str, int], own: dict[str, int]) -> None:
    images = pixels()
    private = opened(stored(tmp_path / "private.npz", images), "private", **own)
    public = opened(stored(tmp_path / "public.npz", images[::-1].copy()), "public", **settings)
    with pytest.raises(SordinoError, match=r"examples of the public set 'public' are also (training|test) examples"):
        refuse_overlap(private, public)


def test_a_single_row_is_enough(tmp_path: Path) -> None:
    mine, others = pixels(seed=1), pixels(seed=2)
    private = opened(stored(tmp_path / "private.npz", mine), "private", resize=8)
    np.savez(
        tmp_path / "public.npz", x_train=others, y_train=np.arange(40) % 4, x_test=others, y_test=np.arange(40) % 4
    )
    refuse_overlap(private, opened(str(tmp_path / "public.npz"), "public"))
    others[7] = mine[3]
    np.savez(
        tmp_path / "public.npz", x_train=others, y_train=np.arange(40) % 4, x_test=others, y_test=np.arange(40) % 4
    )
    with pytest.raises(SordinoError, match="1 examples of the public set 'public' are also"):
        refuse_overlap(private, opened(str(tmp_path / "public.npz"), "public"))


def test_grey_images_are_found_among_coloured_ones(tmp_path: Path) -> None:
    grey = pixels()
    coloured = np.repeat(grey[..., None], 3, axis=3)
    private = opened(stored(tmp_path / "private.npz", grey), "private", resize=8)
    public = opened(stored(tmp_path / "public.npz", coloured), "public", resize=10)
    with pytest.raises(SordinoError, match="are also"):
        refuse_overlap(private, public)


def folder(path: Path, images: list[Pixels]) -> str:
    for number, one in enumerate(images):
        place = path / f"class{number % 4}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(one).save(place / f"{number:03d}.png")
    return str(path)


def test_copied_files_of_many_sizes_are_found_in_the_private_shape(tmp_path: Path) -> None:
    images = [pixels(side=10 + number % 3, count=1, seed=number)[0] for number in range(24)]
    private = opened(folder(tmp_path / "private", images), "private", resize=8)
    public = opened(folder(tmp_path / "public", images[::-1]), "public", resize=16)
    with pytest.raises(SordinoError, match="are also"):
        refuse_overlap(private, public)


def test_other_images_and_other_kinds_are_no_overlap(tmp_path: Path) -> None:
    private = opened(stored(tmp_path / "private.npz", pixels(seed=1)), "private", resize=8)
    for name, images in (("a", pixels(seed=2)), ("b", pixels(seed=3, side=30)), ("c", pixels(seed=4, channels=3))):
        refuse_overlap(private, opened(stored(tmp_path / f"{name}.npz", images), "public"))
    table = tmp_path / "table.csv"
    table.write_text("x,label\n" + "\n".join(f"{row}.5,{row % 4}" for row in range(40)))
    refuse_overlap(private, opened(str(table), "public"))


def test_public_data_may_be_used_twice(tmp_path: Path) -> None:
    path = stored(tmp_path / "set.npz", pixels())
    refuse_overlap(opened(path, "public"), opened(path, "public"))
