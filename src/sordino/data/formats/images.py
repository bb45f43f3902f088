"""Folders of image files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sordino.core import SordinoError, unknown
from sordino.data.formats import FORMATS
from sordino.data.images import decode, survey
from sordino.data.raw import Array, Raw, Split, reading
from sordino.data.settings import SourceSettings

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff"})


@FORMATS.register("images")
class ImageFolder:
    """Folder with one sub-folder of image files per class, or with train/ and test/ (or val/) that are such folders.

    With `client_column`, which then only names it, there is a level above: one sub-folder per client, each with its classes.
    """

    @staticmethod
    def accepts(path: Path) -> bool:
        return path.is_dir() and bool(_folders(path))

    @staticmethod
    def read(path: Path, settings: SourceSettings) -> Raw:
        train = path / "train" if (path / "train").is_dir() else path
        test = next((path / name for name in ("test", "val") if train != path and (path / name).is_dir()), None)
        sites = _folders(train) if settings.client_column else [train]
        names = settings.declared_classes or tuple(sorted({one.name for site in sites for one in _folders(site)}))
        if not names:
            level = "client sub-folders with class" if settings.client_column else "class"
            raise SordinoError(f"{train} has no {level} sub-folders; make one sub-folder of images for each class.")
        parts = [_found(site, names) for site in sites]
        owners = [site.name for site, (files, _) in zip(sites, parts, strict=True) for _ in files]
        return Raw(
            kind="image",
            train=_split(train, parts, settings),
            test=_split(test, [_found(test, names)], settings) if test else None,
            classes=len(names),
            class_names=names,
            columns={settings.client_column: np.array(owners)} if settings.client_column else {},
        )


def _folders(path: Path) -> list[Path]:
    return sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))


Found = tuple[list[Path], list[int]]
"""Image files, and the class of each."""


def _found(folder: Path, names: tuple[str, ...]) -> Found:
    files: list[Path] = []
    labels: list[int] = []
    for sub_folder in _folders(folder):
        if sub_folder.name not in names:
            raise SordinoError(unknown(f"class in {folder}", sub_folder.name, names))
        found = sorted(file for file in sub_folder.rglob("*") if file.suffix.lower() in SUFFIXES)
        files += found
        labels += [names.index(sub_folder.name)] * len(found)
    return files, labels


def _split(folder: Path, parts: list[Found], settings: SourceSettings) -> Split:
    files = [file for found, _ in parts for file in found]
    labels = [label for _, found in parts for label in found]
    if not files:
        raise SordinoError(f"{folder} holds no image files; put images into its class sub-folders.")

    def inputs() -> Array:
        with reading(folder):
            return decode(files, resize=settings.resize)

    with reading(folder):
        shape = survey(files)
    return Split(count=len(files), shape=shape, labels=lambda: np.array(labels, np.int64), inputs=inputs)
