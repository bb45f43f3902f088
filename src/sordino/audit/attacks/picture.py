"""A grid of images: the truth in the first row, what each attack found below it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from sordino.files import make_folder, write_whole

CELL, GAP, MARGIN, HEAD, LETTERS = 72, 6, 210, 8, 13
Box = tuple[int, int, int, int]


def box(row: int, images: int) -> Box:
    """Where the first so many images of a row lie: left, top, right, bottom."""
    top = HEAD + row * (CELL + GAP)
    return (MARGIN, top, MARGIN + images * (CELL + GAP) - GAP, top + CELL)


def draw_grid(rows: Sequence[tuple[str, Tensor]], path: Path) -> None:
    """One row of images (N x C x H x W, from 0 to 1) for each label."""
    columns = max(len(images) for _, images in rows)
    page = Image.new("RGB", (MARGIN + columns * (CELL + GAP), HEAD + len(rows) * (CELL + GAP)), "white")
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(size=LETTERS)
    for place, (label, images) in enumerate(rows):
        left, top, _, _ = box(place, 1)
        pen.multiline_text((8, top + 8), label, fill="black", font=font)
        for column, image in enumerate(images):
            page.paste(_tile(image), (left + column * (CELL + GAP), top))
    content = io.BytesIO()
    page.save(content, format="PNG")
    make_folder(path.parent)
    write_whole(path, content.getvalue())


def _tile(image: Tensor) -> Image.Image:
    channels = image.clamp(0, 1).mul(255).round().byte().numpy()
    shown = np.repeat(channels, 3, 0) if len(channels) == 1 else channels[:3]
    return Image.fromarray(shown.transpose(1, 2, 0)).resize((CELL, CELL), Image.Resampling.NEAREST)
