"""A grid of images: the truth in the first row, what each attack found below it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from torch import Tensor

from sordino.files import make_folder, write_whole

CELL, GAP, MARGIN, HEAD = 72, 6, 210, 20


def draw_grid(rows: Sequence[tuple[str, Tensor]], path: Path) -> None:
    """One row of images (N x C x H x W, from 0 to 1) for each label."""
    columns = max(len(images) for _, images in rows)
    page = Image.new("RGB", (MARGIN + columns * (CELL + GAP), HEAD + len(rows) * (CELL + GAP)), "white")
    pen = ImageDraw.Draw(page)
    for place, (label, images) in enumerate(rows):
        top = HEAD + place * (CELL + GAP)
        for line, text in enumerate(label.split("\n")):
            pen.text((8, top + 16 + 14 * line), text, fill="black")
        for column, image in enumerate(images):
            page.paste(_tile(image), (MARGIN + column * (CELL + GAP), top))
    content = io.BytesIO()
    page.save(content, format="PNG")
    make_folder(path.parent)
    write_whole(path, content.getvalue())


def _tile(image: Tensor) -> Image.Image:
    channels = image.clamp(0, 1).mul(255).round().byte().numpy()
    shown = np.repeat(channels, 3, 0) if len(channels) == 1 else channels[:3]
    return Image.fromarray(shown.transpose(1, 2, 0)).resize((CELL, CELL), Image.Resampling.NEAREST)
