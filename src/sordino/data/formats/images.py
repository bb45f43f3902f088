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
    """Folder with one sub-folder of image files per class, or with train/ and test/ (or val/) that are such folders."""

    @staticmethod
    def accepts(path: Path) -> bool:
        return path.is_dir() and bool(_folders(path))

    @staticmethod
    def read(path: Path, settings: SourceSettings) -> Raw:
        train = path / "train" if (path / "train").is_dir() else path
        test = next((path / name for name in ("test", "val") if train != path and (path / name).is_dir()), None)
        names = settings.declared_classes or tuple(folder.name for folder in _folders(train))
        if not names:
            raise SordinoError(f"{train} has no class sub-folders; make one sub-folder of images for each class.")
        return Raw(
            kind="image",
            train=_split(train, names, settings),
            test=_split(test, names, settings) if test else None,
            classes=len(names),
            class_names=names,
        )


def _folders(path: Path) -> list[Path]:
    return sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))


def _split(folder: Path, names: tuple[str, ...], settings: SourceSettings) -> Split:
    files: list[Path] = []
    labels: list[int] = []
    for sub_folder in _folders(folder):
        if sub_folder.name not in names:
            raise SordinoError(unknown(f"class in {folder}", sub_folder.name, names))
        found = sorted(file for file in sub_folder.rglob("*") if file.suffix.lower() in SUFFIXES)
        files += found
        labels += [names.index(sub_folder.name)] * len(found)
    if not files:
        raise SordinoError(f"{folder} holds no image files; put images into its class sub-folders.")

    def inputs() -> Array:
        with reading(folder):
            return decode(files, resize=settings.resize)

    with reading(folder):
        shape = survey(files)
    return Split(count=len(files), shape=shape, labels=lambda: np.array(labels, np.int64), inputs=inputs)
