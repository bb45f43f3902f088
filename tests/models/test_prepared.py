"""The prepared body: what it promises of every example, and what it refuses."""

import pytest
import torch

from sordino.core import SordinoError
from sordino.models import build

SETTINGS = {"source": "cnn", "side": 16, "components": 12}


def prepared(**changes):
    net = build("prepared", shape=(3, 8, 8), classes=4, seed=1, **{**SETTINGS, **changes}).eval()
    net.body.mean.normal_(generator=torch.Generator().manual_seed(2))
    return net


def images(count=5):
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(3))


def test_an_examples_features_depend_on_that_example_alone():
    body = prepared().body
    together, other = body(images()), images()
    other[1:] = 7.0
    assert torch.allclose(together[0], body(other)[0], atol=1e-5)
    assert not torch.allclose(together[1], body(other)[1], atol=1e-2)


def test_all_features_have_one_length():
    assert torch.allclose(prepared().body(images()).norm(dim=1), torch.full((5,), 12**0.5))


@pytest.mark.parametrize("mirror", [True, False])
def test_only_with_mirror_a_image_and_its_mirror_image_look_the_same(mirror):
    body = prepared(mirror=mirror).body
    assert torch.allclose(body(images()), body(images().flip(3)), atol=1e-4) == mirror


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"side": 4}, "larger side"),
        ({"components": 100_000}, "choose fewer"),
        ({"source": "lstm"}, "needs text"),
    ],
)
def test_what_cannot_be_prepared_is_refused(changes, sentence):
    with pytest.raises(SordinoError, match=sentence):
        prepared(**changes)
