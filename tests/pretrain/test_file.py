"""Starts from files: what is no state dict, holds no finite numbers or fits no model is refused, by a plan as by a run."""

from collections import OrderedDict

import pytest
import torch
from safetensors.torch import save_file

import sordino
from sordino.core import SordinoError
from sordino.models import build
from sordino.pretrain.file import read_weights


def weights(**changes):
    return {**build("mlp", shape=(1, 8, 8), classes=10, seed=1, hidden=[8]).state_dict(), **changes}


def poisoned(key, value):
    found = weights()
    found[key] = found[key].clone()
    found[key].view(-1)[3] = value
    return found


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([1, 2], "must hold a state dict, but got a list"),
        (torch.ones(3), "must hold a state dict, but got a Tensor"),
        (7, "must hold a state dict, but got a int"),
        ({"state_dict": weights()}, r"with one under 'state_dict'; save that part by itself"),
        ({"epoch": 3, "model": OrderedDict(weights())}, "with one under 'model'"),
        ({**weights(), "epoch": 3}, "plain tensors, but got a int under 'epoch'"),
        ({**weights(), "names": ["a"]}, "plain tensors, but got a list under 'names'"),
        ({3: torch.ones(2)}, "under names, but got the key 3"),
        ({**weights(), "extra": torch.eye(3).to_sparse()}, "got a sparse or quantised tensor under 'extra'"),
        ({}, "is empty"),
        (poisoned("body.1.weight", float("nan")), "a NaN or an infinity in 'body.1.weight'"),
        (poisoned("head.bias", float("-inf")), "a NaN or an infinity in 'head.bias'"),
    ],
)
def test_what_is_no_plain_finite_state_dict_gets_a_sentence_in_plan_and_run(content, sentence, tiny, tmp_path):
    path = tmp_path / "weights.pt"
    torch.save(content, path)
    table = tiny(start={"name": "file", "path": str(path)})
    for ask in (sordino.plan, lambda one: sordino.run(one, out=tmp_path / "run")):
        with pytest.raises(SordinoError, match=sentence) as caught:
            ask(table)
        assert str(path) in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_new_head_may_leave_a_poisoned_one_behind(tiny, tmp_path):
    torch.save(poisoned("head.weight", float("nan")), tmp_path / "weights.pt")
    table = tiny(rounds=1, start={"name": "file", "path": str(tmp_path / "weights.pt"), "keep_head": False})
    assert sordino.run(table, out=tmp_path / "run")["rounds"] == 1


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x02]q\x00", b"PK\x03\x04 torn"])
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_torn_files_get_a_sentence(content, suffix, tmp_path):
    path = tmp_path / f"weights{suffix}"
    path.write_bytes(content)
    with pytest.raises(SordinoError, match=r"cannot be read as weights|must hold a state dict") as caught:
        read_weights(path)
    assert "\n" not in str(caught.value)


def test_a_pickled_model_is_not_unpickled(tmp_path):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "model.pt")
    with pytest.raises(SordinoError, match="cannot be read as weights"):
        read_weights(tmp_path / "model.pt")


def test_a_plan_misses_a_file_that_is_not_there(tiny, tmp_path):
    with pytest.raises(SordinoError, match="weights file was expected"):
        sordino.plan(tiny(start={"name": "file", "path": str(tmp_path / "none.pt")}))


def test_a_plan_finds_weights_beside_its_file(tiny, tmp_path):
    save_file(weights(), tmp_path / "near.safetensors")
    file = tmp_path / "near.toml"
    file.write_text(
        'rounds = 1\nprivacy.noise_multiplier = 1.0\ndata = {source = "digits", clients = 12}\nmodel = {name = "mlp", hidden = [8]}\n'
        'start = {name = "file", path = "near.safetensors"}\nmethod = {name = "dp-fedavg"}\n'
    )
    assert sordino.plan(file).parameters == 610


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        (
            {"name": "standard", "data": {"source": "digits", "visibility": "public"}},
            "is the private set 'digits' again",
        ),
        ({"name": "sam", "data": {"source": "mnist5k"}}, "visibility"),
        ({"name": "sam", "data": {"source": "mnist5k", "visibility": "private"}}, "marked public"),
        (
            {"name": "dpadapter", "data": {"source": "mnist5k", "visibility": "public"}, "perturbation_batch": 9999},
            "lower it",
        ),
        ({"name": "distilled", "data": {"source": "mnist5k", "visibility": "public"}}, "model that it can prepare"),
        ({"name": "standard", "data": {"source": "nowhere.npz", "visibility": "public"}}, "no file or folder"),
    ],
)
def test_a_plan_refuses_public_starts_that_no_run_could_make(start, sentence, tiny):
    with pytest.raises(SordinoError, match=sentence):
        sordino.plan(tiny(start=start))


def test_a_plan_refuses_public_anchors_that_are_the_private_set(tiny):
    mechanism = {"name": "gep", "public": {"source": "digits", "visibility": "public"}}
    table = tiny(method={"name": "dp-sgd", "batch_size": 32}, privacy={"mechanism": mechanism})
    with pytest.raises(SordinoError, match="is the private set 'digits' again"):
        sordino.plan(table)
