"""How many rows a model is tested on at once follows from its widest layer, not from its inputs."""

import torch
from torch import nn

from sordino.data.examples import IDENTITY, Examples
from sordino.engine.evaluate import outputs
from sordino.engine.rows_at_once import FEWEST, MOST, WIDEST_BYTES, rows_at_once
from sordino.models import Net, build

CPU = torch.device("cpu")


def rows(count, *shape):
    return Examples(
        inputs=torch.randn(count, *shape), labels=torch.zeros(count, dtype=torch.int64), normalisation=IDENTITY
    )


def test_small_models_get_many_rows_and_wide_ones_few():
    assert rows_at_once(build("mlp", shape=(20,), classes=3), rows(2000, 20), CPU) == MOST
    wide = Net(body=nn.Linear(4, WIDEST_BYTES // 4 // 100), head=nn.Identity())
    assert rows_at_once(wide, rows(2000, 4), CPU) == 64
    widest = Net(body=nn.Linear(4, WIDEST_BYTES // 4), head=nn.Identity())
    assert rows_at_once(widest, rows(2000, 4), CPU) == FEWEST


def test_no_more_rows_reach_the_model_and_no_hook_stays():
    seen = []

    class Wide(nn.Module):
        def forward(self, inputs):
            seen.append(len(inputs))
            return inputs.repeat(1, WIDEST_BYTES // 16 // 100)[:, :3]

    net = Net(
        body=nn.Sequential(nn.Linear(4, WIDEST_BYTES // 4 // 100), nn.Linear(WIDEST_BYTES // 4 // 100, 4)), head=Wide()
    )
    assert outputs(net, rows(130, 4), CPU).shape == (130, 3)
    assert seen == [1, 64, 64, 2]
    assert not any(layer._forward_hooks for layer in net.modules())


def test_none_at_all_is_no_problem():
    net = build("mlp", shape=(20,), classes=3)
    assert outputs(net, rows(0, 20), CPU).shape == (0, 3)
