"""BL-PF as published: statistics move as torch's own training mode moves them, and the ledger says what that costs."""

import math

import pytest
import torch
from torch import nn

import sordino
from sordino.core import SordinoError
from sordino.models.moved_statistics import features_of_singles
from sordino.models.weights import frozen_batchnorm
from sordino.privacy.ledger import read_lines


def body(norm=nn.BatchNorm2d):
    torch.manual_seed(1)
    made = nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        norm(6),
        nn.ReLU(),
        nn.Conv2d(6, 4, 3, stride=2),
        norm(4),
        nn.ReLU(),
        nn.Flatten(),
    )
    for layer in made:
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2.0)
            nn.init.normal_(layer.weight)
            nn.init.normal_(layer.bias)
    return made


@torch.no_grad()
def test_singles_move_statistics_as_training_mode_does():
    theirs, ours = body().double(), frozen_batchnorm(body().double())
    images = torch.randn(9, 1, 8, 8, dtype=torch.float64)
    theirs.train()
    expected = torch.cat([theirs(image[None]) for image in images])
    found = features_of_singles(ours, images.split(4))
    torch.testing.assert_close(found, expected)
    fresh = torch.randn(5, 1, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(ours(fresh), theirs.eval()(fresh))


@torch.no_grad()
def test_what_came_before_is_forgotten_after_a_batch():
    """0.9 to the power of 256 is 2e-12: the source's own statistics are gone, and one image has a tenth of the say."""
    one, other = frozen_batchnorm(body().double()), frozen_batchnorm(body().double())
    other[1].running_mean.add_(50.0)
    images = torch.randn(256, 1, 8, 8, dtype=torch.float64)
    for net in (one, other):
        features_of_singles(net, [images])
    torch.testing.assert_close(one(images[:3]), other(images[:3]), atol=1e-6, rtol=1e-6)


def test_no_epsilon_holds_and_the_ledger_says_why(tiny, tmp_path):
    table = tiny(rounds=2, method={"name": "bl-pf-as-published", "batch_size": 20}, privacy={"noise_multiplier": None})
    sordino.run(table, out=tmp_path / "run")
    charges = [charge for line in read_lines(tmp_path / "run" / "ledger.jsonl") for charge in line.charges]
    assert charges and all(
        "batch statistics, where it has some, move on private rows" in charge.because for charge in charges
    )
    assert all(math.isinf(entry.epsilon) for entry in sordino.plan(table).epsilon.values())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"method": {"name": "bl-pf-as-published", "clip_norm": 0.0}},
            r"clip_norm should be greater than or equal to 1e-12",
        ),
        (
            {"method": {"name": "bl-pf-as-published", "clip_norm": 1e39}},
            r"clip_norm should be less than or equal to 1e\+12",
        ),
        (
            {"method": {"name": "bl-pf-as-published"}, "tuning": {"name": "head"}},
            "shares 2 of its 4 tensors; set tuning = 'full'",
        ),
        (
            {"method": {"name": "bl-pf-as-published"}, "tuning": {"name": "unified", "head_rounds": 1}},
            "sends the whole model, .* but this tuning shares 2",
        ),
        ({"method": {"name": "bl-pf-as-published", "noise_multiplier": -1.0}}, "noise_multiplier should be greater"),
    ],
    ids=["no-clip", "huge-clip", "head", "unified", "negative-noise"],
)
def test_bad_settings_get_a_sentence(changes, sentence, tiny):
    with pytest.raises(SordinoError, match=sentence):
        sordino.plan(tiny(**changes))
