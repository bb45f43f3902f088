"""Small data sets written to real files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder of the test's own."""
    folder = tmp_path / "data_folder"
    folder.mkdir()
    monkeypatch.setenv("SORDINO_DATA", str(folder))
    return folder


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def colour_images(rng: np.random.Generator) -> np.ndarray:
    """12 colour images of 32 x 32, channels last."""
    return rng.integers(0, 256, (12, 32, 32, 3), np.uint8)


@pytest.fixture
def labels() -> np.ndarray:
    return np.arange(12) % 3
