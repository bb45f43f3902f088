"""Training from scratch."""

import pytest
import torch
from torch import nn

import sordino
from sordino.core import SordinoError
from sordino.models import build
from sordino.models.weights import FrozenBatchNorm
from sordino.tuning import Task
from sordino.tuning.scratch import Scratch

TASK = Task(shape=(3, 32, 32), classes=4)


def test_everything_is_trained_from_a_fresh_initialisation():
    built = build("mobilenet_v2", shape=TASK.shape, classes=TASK.classes, seed=1)
    scales = {name: value.clone() for name, value in built.named_parameters()}
    net = Scratch().wrap(built, TASK, seed=1)
    assert Scratch().trainable(net) == list(scales)
    assert all(torch.equal(value, scales[name]) for name, value in net.named_parameters())
    kinds = {type(module) for module in net.modules()}
    assert nn.GroupNorm in kinds and FrozenBatchNorm not in kinds
    images = torch.randn(3, *TASK.shape)
    torch.testing.assert_close(net(images)[:1], net(images[:1]), atol=1e-4, rtol=1e-4)


def test_another_start_is_refused_in_one_sentence(tiny, tmp_path):
    start = {"name": "standard", "data": {"source": "mnist5k", "visibility": "public"}}
    with pytest.raises(SordinoError, match=r"random weights, but \[start\] is 'standard'"):
        sordino.run(tiny(tuning={"name": "scratch"}, start=start), out=tmp_path / "run")
    with pytest.raises(SordinoError, match="random weights"):
        sordino.plan(tiny(tuning={"name": "scratch"}, start=start))
    assert sordino.run(tiny(tuning={"name": "scratch"}), out=tmp_path / "run")["rounds"] == 4
