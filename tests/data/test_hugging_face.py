"""Folders of Hugging Face's datasets, written here with pyarrow as save_to_disk writes them."""

import io
import json

import numpy as np
import pyarrow
import pytest
from PIL import Image

from sordino.core import SordinoError
from sordino.data.source import SourceSettings, describe, load


def save(folder, table, features, **state):
    folder.mkdir(parents=True)
    with (
        pyarrow.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as file,
        pyarrow.ipc.new_stream(file, table.schema) as stream,
    ):
        stream.write_table(table)
    (folder / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}], **state})
    )
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))


def png(shade):
    file = io.BytesIO()
    Image.fromarray(np.full((6, 5), shade, np.uint8)).save(file, "PNG")
    return file.getvalue()


LABEL = {"names": ["cat", "dog"], "_type": "ClassLabel"}
IMAGES = pyarrow.table(
    {
        "image": [{"bytes": png(shade), "path": None} for shade in (10, 20, 30, 40)],
        "label": [0, 1, 0, 1],
        "site": ["a", "a", "b", "b"],
    }
)


def test_images_with_names_and_sites_are_read(tmp_path):
    save(tmp_path / "set", IMAGES, {"image": {"_type": "Image"}, "label": LABEL})
    settings = SourceSettings(
        source=str(tmp_path / "set"), visibility="private", client_column="site", test_fraction=0.25
    )
    source = load(settings)
    assert source.class_names == ("cat", "dog") and source.shape == (1, 6, 5) and len(source.train) == 3
    assert set(source.columns["site"]) <= {"a", "b"} and describe(settings).n_train == 3


def test_splits_of_a_table_share_their_words(tmp_path):
    kinds = {"city": {"_type": "Value"}, "label": LABEL}
    save(tmp_path / "set" / "train", pyarrow.table({"city": ["x", "y", "z"], "label": [0, 1, 1]}), kinds)
    save(tmp_path / "set" / "test", pyarrow.table({"city": ["z", "x"], "label": [1, 0]}), kinds)
    (tmp_path / "set" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    source = load(SourceSettings(source=str(tmp_path / "set"), visibility="public"))
    assert source.test.inputs.tolist() == [[0, 0, 1], [1, 0, 0]] and source.class_names == ("cat", "dog")


def test_a_column_of_texts_becomes_tokens(tmp_path):
    table = pyarrow.table({"text": ["good film", "bad film"], "label": [1, 0]})
    save(tmp_path / "set", table, {"text": {"_type": "Value"}, "label": LABEL})
    source = load(SourceSettings(source=str(tmp_path / "set"), visibility="public", text_column="text", length=4))
    assert source.kind == "text" and source.shape == (4,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"_indices_files": [{"filename": "x"}]}, "is a view of other rows; call flatten_indices"),
        ({"_data_files": [{"filename": "gone.arrow"}]}, "cannot be read"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path, change, words):
    save(tmp_path / "set", IMAGES, {"image": {"_type": "Image"}, "label": LABEL}, **change)
    with pytest.raises(SordinoError, match=words):
        load(SourceSettings(source=str(tmp_path / "set"), visibility="public"))


def test_images_without_bytes_are_refused_by_their_row(tmp_path):
    table = pyarrow.table(
        {"image": [{"bytes": png(3), "path": None}, {"bytes": None, "path": "x.png"}], "label": [0, 1]}
    )
    save(tmp_path / "set", table, {"image": {"_type": "Image"}, "label": LABEL})
    with pytest.raises(SordinoError, match="no bytes of the image in row 2"):
        load(SourceSettings(source=str(tmp_path / "set"), visibility="public"))


def test_folders_of_images_may_have_a_level_of_sites(tmp_path):
    for site, kinds in {"Bergen": {"cat": 2, "dog": 1}, "Lyon": {"dog": 3}}.items():
        for kind, count in kinds.items():
            (tmp_path / "set" / site / kind).mkdir(parents=True)
            for number in range(count):
                (tmp_path / "set" / site / kind / f"{number}.png").write_bytes(png(10 * number))
    settings = SourceSettings(source=str(tmp_path / "set"), visibility="private", client_column="site")
    facts = describe(settings)
    assert facts.group_names == {"site": ("Bergen", "Lyon")} and facts.classes == 2
    with pytest.raises(SordinoError, match="called 'dog'"):
        load(
            SourceSettings(
                source=str(tmp_path / "set"), visibility="private", client_column="site", classes=("cat", "cow")
            )
        )
