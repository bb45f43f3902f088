"""Text cut by a tokenizer's file: read beside the experiment, kept with the model, and refused where it is no tokenizer."""

import json

import numpy as np
import pandas
import pytest

import sordino
from sordino.core import SordinoError
from sordino.data.beside import relative_to
from sordino.data.tokenizer import Tokenizer, read_tokenizer
from sordino.engine.plan import make_plan
from sordino.experiment import experiment

WORDS = ["good", "bad", "fine", "awful", "the", "was", *(f"film{number}" for number in range(300))]


def notes(seed: int, rows: int) -> pandas.DataFrame:
    rng = np.random.default_rng(seed)
    good = rng.random(rows) < 0.5
    said = np.where(good, rng.choice(["good", "fine"], rows), rng.choice(["bad", "awful"], rows))
    films = rng.integers(0, 310, (rows, 3))
    text = [
        f"The film{one} film{two} film{three} was {word}" for (one, two, three), word in zip(films, said, strict=True)
    ]
    return pandas.DataFrame({"text": text, "label": np.where(good, "up", "down")})


@pytest.fixture
def folder(tmp_path):
    notes(1, 120).to_csv(tmp_path / "train.csv", index=False)
    notes(2, 40).to_csv(tmp_path / "test.csv", index=False)
    (tmp_path / "words.txt").write_text("\n".join(WORDS) + "\n")
    return tmp_path


def reading(tokenizer, **changes):
    options = {"text_column": "text", "classes": ["down", "up"], "length": 7, "tokenizer": tokenizer, **changes}
    return {
        "name": "notes",
        "rounds": 2,
        "data": {"source": "train.csv", "clients": 3, "test": {"source": "test.csv"}, "options": options},
        "model": {"name": "lstm", "embedding": 4, "hidden": 4},
        "method": {"name": "dp-fedavg", "epochs": 1, "batch_size": 16, "learning_rate": 0.5},
        "privacy": {"noise_multiplier": 0.1, "delta": 1e-3, "sampler": "everyone"},
    }


def hugging_face(path):
    library = pytest.importorskip("tokenizers")
    made = library.Tokenizer(
        library.models.WordLevel({word: at for at, word in enumerate([*WORDS, "?"])}, unk_token="?")
    )
    made.normalizer = library.normalizers.Lowercase()
    made.pre_tokenizer = library.pre_tokenizers.Whitespace()
    made.enable_padding(length=64)
    made.save(str(path))


@pytest.mark.parametrize("name", ["words.txt", "tokenizer.json"])
def test_raw_text_predicts_as_it_was_evaluated(folder, name, monkeypatch):
    if name == "tokenizer.json":
        hugging_face(folder / name)
    monkeypatch.chdir(folder)
    summary = sordino.run(reading(name), out="run")
    kept = json.loads((folder / "run" / "prediction.json").read_text())["preparation"]
    assert kept["vocabulary"] == len(WORDS) + 2 and kept["tokenizer"]["file"] == name
    (folder / name).unlink()
    predictor, test = sordino.load("run"), notes(2, 40)
    for data in (test, test["text"].tolist(), folder / "test.csv"):
        called = predictor.predict(data)
        assert np.mean(called == test["label"].to_numpy()) == pytest.approx(summary["accuracy"], abs=1e-12)


def test_a_list_numbers_its_words_and_one_token_for_all_others():
    tokens = Tokenizer(file="words.txt", content="Good\n\nbad\ngood\n").numbers(["good BAD, ugly", ""], length=5)
    assert tokens.tolist() == [[1, 2, 3, 3, 0], [0, 0, 0, 0, 0]]


WRONG = {
    "no file": ("none.txt", None, r"tokenizer names '.*none.txt', but it cannot be read"),
    "nothing in it": ("empty.txt", "\n", "should list one word a line, but it is empty"),
    "pieces of words": ("vocab.txt", "good\n##ly\n", "whole words, but got the piece '##ly'; use the tokenizer.json"),
    "other json": ("config.json", "{}", "should be a tokenizer.json of Hugging Face, but it cannot be read"),
    "bytes": ("words.txt", b"\xff\xfe\x00", "cannot be read"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_tokenizer_is_refused_by_the_plan(folder, case):
    name, content, sentence = WRONG[case]
    if name.endswith(".json"):
        pytest.importorskip("tokenizers")
    if content is not None:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SordinoError, match=sentence):
        make_plan(experiment(reading(name)), folder=folder)


def test_a_tokenizer_needs_text():
    with pytest.raises(SordinoError, match="no text to cut; name the column of text with text_column"):
        make_plan(experiment(reading("words.txt", text_column=None)))


def test_without_the_library_the_sentence_says_what_to_install(folder, monkeypatch):
    (folder / "tokenizer.json").write_text("{}")
    monkeypatch.setattr("sordino.data.tokenizer.find_spec", lambda name: None)
    with relative_to(folder), pytest.raises(SordinoError, match=r"pip install 'sordino\[text\]'"):
        read_tokenizer(folder / "tokenizer.json")
