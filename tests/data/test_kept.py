"""A file is read once for many runs, and again when it has changed."""

import numpy as np
import pytest

from sordino.data.formats import FORMATS
from sordino.data.kept import keeping
from sordino.data.source import SourceSettings, load


@pytest.fixture
def reads(monkeypatch):
    """How often an archive was opened."""
    counted, form = [], FORMATS["npz"]
    right = form.read
    monkeypatch.setattr(form, "read", staticmethod(lambda *given: counted.append(given) or right(*given)))
    return counted


def written(folder, brightness=1):
    pixels = np.full((12, 4, 4), brightness, np.uint8)
    np.savez(folder / "rows.npz", x_train=pixels, y_train=np.arange(12) % 3)
    return str(folder / "rows.npz")


def test_one_file_is_read_once_and_each_way_of_reading_it_is_another(tmp_path, reads):
    source = written(tmp_path)
    with keeping():
        first = [load(SourceSettings(visibility="private", source=source), seed=seed) for seed in (1, 2)]
        assert len(reads) == 1
        load(SourceSettings(visibility="private", source=source, resize=8))
        assert len(reads) == 2
    load(SourceSettings(visibility="private", source=source))
    assert len(reads) == 3
    assert (first[0].train.inputs == 1).all() and len(first[1].train) == 10


def test_a_file_that_has_changed_is_read_again(tmp_path, reads):
    with keeping():
        load(SourceSettings(visibility="private", source=written(tmp_path)))
        source = written(tmp_path, brightness=200)
        found = load(SourceSettings(visibility="private", source=source))
    assert len(reads) == 2
    assert (found.train.inputs == 200).all()
