"""LoRA: adapters that begin at nothing, are clipped example by example like any layer, and end up in a plain model."""

import sys
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import sordino
from sordino.core import SordinoError
from sordino.gradients import ClippedGradients
from sordino.kernels import fastest
from sordino.models import Net, build
from sordino.models.weights import load_weights, user_state_dict
from sordino.tuning import Task
from sordino.tuning.lora import Lora

sys.path.append(str(Path(__file__).parents[1] / "gradients"))
from gradient_reference import assert_close, clip_and_sum, rows_by_vmap

SHAPES = {
    "mlp": (1, 8, 8),
    "cnn": (3, 16, 16),
    "resnet20": (3, 16, 16),
    "mobilenet_v2": (3, 32, 32),
    "efficientnet_lite0": (3, 32, 32),
}


def wrapped(model="cnn", **settings):
    """A model with adapters, the model it was made of, and some examples."""
    task = Task(shape=SHAPES[model], classes=4)
    built = build(model, shape=task.shape, classes=4, seed=1)
    net = Lora(**settings).wrap(built, task, seed=2)
    return net, built, torch.rand(5, *task.shape, generator=torch.Generator().manual_seed(3))


def stirred(net):
    """The same net with every adapter at work."""
    for name, parameter in net.named_parameters():
        if name.endswith(("up.weight", "down.weight")):
            with torch.no_grad():
                parameter.normal_(std=0.3, generator=torch.Generator().manual_seed(len(name)))
    return net


@pytest.mark.parametrize("model", SHAPES)
def test_training_begins_at_the_models_own_answers(model):
    net, built, inputs = wrapped(model)
    assert torch.equal(net.eval()(inputs), built.eval()(inputs))
    assert not torch.equal(stirred(net)(inputs), built(inputs))


@pytest.mark.parametrize("model", SHAPES)
def test_the_merged_model_is_plain_and_computes_the_same(model):
    net, built, inputs = wrapped(model, rank=3)
    inputs = inputs.double()
    stirred(net.eval()).double()
    plain = Lora().finish(net)
    assert user_state_dict(plain).keys() == user_state_dict(built).keys()
    expected = net(inputs)
    load_weights(built, user_state_dict(plain), origin="the merged model")
    assert torch.allclose(built.eval()(inputs), expected, rtol=1e-9)


def test_a_start_that_reaches_the_built_model_reaches_the_adapted_one():
    net, built, inputs = wrapped()
    other = build("cnn", shape=SHAPES["cnn"], classes=4, seed=9)
    load_weights(built, user_state_dict(other), origin="another model")
    assert torch.equal(net.eval()(inputs), other.eval()(inputs))


@pytest.mark.parametrize("settings", [{}, {"rank": 1, "train_down": False}, {"train_head": False}], ids=str)
@pytest.mark.parametrize("model", ["mlp", "cnn", "resnet20"])
def test_every_example_is_clipped_as_by_vmap_without_the_fallback(model, settings):
    net, _, inputs = wrapped(model, **settings)
    net, labels = stirred(net).double(), torch.arange(5) % 4
    trained = Lora(**settings).trainable(net)
    rows = rows_by_vmap(net, inputs.double(), labels, trainable=trained)
    clip = float(rows.norm(dim=1).median())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ClippedGradients(net, trainable=trained).sum(inputs.double(), labels, clip_norm=clip)
    assert_close(found.total, clip_and_sum(rows, clip), 1e-9)


def test_fast_layers_clip_alike():
    net, _, inputs = wrapped("cnn")
    labels, trained = torch.arange(5) % 4, Lora().trainable(stirred(net))
    rows = rows_by_vmap(net, inputs, labels, trainable=trained)
    found = ClippedGradients(fastest(net), trainable=trained).sum(inputs, labels, clip_norm=0.5)
    assert_close(found.total, clip_and_sum(rows, 0.5), 1e-4)


def test_names_choose_the_layers():
    net, _, _ = wrapped("cnn", layers=("body.0",), train_head=False)
    assert Lora(train_head=False).trainable(net) == ["body.0.down.weight", "body.0.up.weight"]
    net, _, _ = wrapped("mlp", layers=("head",), train_head=False, rank=2)
    assert Lora(train_head=False).trainable(net) == ["head.down.weight", "head.up.weight"]
    assert net.head.down.weight.shape[0] == 2


def test_a_rank_is_no_higher_than_its_layers_own():
    net, _, _ = wrapped("mlp", rank=1000)
    assert net.body[1].down.weight.shape[0] == min(net.body[1].base.weight.shape)


def test_names_of_no_layer_are_refused_with_those_that_there_are():
    with pytest.raises(SordinoError, match=r"none of \['body.0'.* is called body.9; choose other"):
        wrapped("cnn", layers=("body.9",))


def test_layers_that_share_a_weight_are_left_alone():
    shared = nn.Linear(4, 4)
    net = Net(body=nn.Sequential(shared, nn.ReLU(), shared, nn.Linear(4, 4)), head=nn.Linear(4, 2))
    adapted = Lora().wrap(net, Task(shape=(4,), classes=2), seed=1)
    assert Lora(train_head=False).trainable(adapted) == ["body.3.down.weight", "body.3.up.weight"]


@pytest.mark.parametrize(
    "method", [{"name": "dp-sgd", "batch_size": 16}, {"name": "dp-fedavg"}], ids=lambda one: one["name"]
)
def test_a_run_saves_a_plain_model_whose_frozen_layers_moved_by_the_rank_alone(method, tiny, tmp_path):
    first = user_state_dict(build("mlp", shape=(1, 8, 8), classes=10, hidden=[8], seed=7))
    save_file(first, tmp_path / "first.safetensors")
    start = {"name": "file", "path": str(tmp_path / "first.safetensors")}
    table = tiny(start=start, tuning={"name": "lora", "rank": 2}, method=method)
    summary = sordino.run(table, out=tmp_path / "run")
    after = load_file(tmp_path / "run" / "model.safetensors")
    assert first.keys() == after.keys()
    assert torch.equal(first["body.1.bias"], after["body.1.bias"])
    moved = torch.linalg.svdvals((after["body.1.weight"] - first["body.1.weight"]).double())
    assert int((moved > 1e-5 * moved[0]).sum()) == 2
    assert summary["trained_parameters"] == 2 * (64 + 8) + 8 * 10 + 10
