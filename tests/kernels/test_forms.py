"""Every form of the kernels that this processor can run computes what torch computes in double precision."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
from test_dense_clients import RATE, chain, clients, exact_update
from torch import Tensor
from torch.nn.functional import cross_entropy

from sordino.core import SordinoError
from sordino.gradients import ClippedGradients
from sordino.kernels import fastest
from sordino.kernels.bounded_sums import sums_of_squares
from sordino.kernels.dense_clients import train_clients
from sordino.kernels.gaussian import gaussian_pairs
from sordino.kernels.native import FORMS, OFF, SWITCH, about_missing, form, library
from sordino.models import build, draw_dropout_from
from sordino.privacy.noise import _gaussian_pairs

ERROR = 1e-4
"""Of the largest gradient: twenty layers in single precision."""


@pytest.fixture(params=FORMS)
def used(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv(SWITCH, request.param)
    library.cache_clear()
    try:
        library()
    except SordinoError as error:
        monkeypatch.undo()
        library.cache_clear()
        pytest.skip(str(error))
    yield request.param
    monkeypatch.undo()
    library.cache_clear()


@pytest.mark.parametrize("name", ["resnet20", "lenet5"])
def test_gradients_of_a_model(used: str, name: str) -> None:
    net = build(name, shape=(3, 32, 32), classes=10, seed=0)
    inputs = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(4)

    def gradients(model: torch.nn.Module, images: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(cross_entropy(model(images), labels), list(model.parameters())))

    truths = gradients(copy.deepcopy(net).double(), inputs.double())
    for found, truth in zip(gradients(fastest(net), inputs), truths, strict=True):
        assert (found - truth).abs().max() <= ERROR * truth.abs().max()
    assert form() == used


def test_dense_clients(used: str) -> None:
    layers = chain((37, 50, 10))
    people = clients(layers, (40, 7), epochs=2)
    found = train_clients(layers, people, batch_size=16, learning_rate=RATE, weight_decay=0.0)
    assert found is not None
    for update, one in zip(found, people, strict=True):
        truth = exact_update(layers, one, batch=16, weight_decay=0.0)
        assert (update - truth).abs().max() <= ERROR * truth.abs().max()


def test_dense_private(used: str) -> None:
    """Two parts of a batch, with dropout."""
    net = build("mlp", shape=(37,), classes=10, hidden=[50, 20], dropout=0.5, seed=1)
    draw = torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(600, 37, generator=draw), torch.randint(10, (600,), generator=draw)
    sums = []
    for model, rows in ((net, inputs), (copy.deepcopy(net).double(), inputs.double())):
        draw_dropout_from(model, torch.Generator().manual_seed(2))
        sums.append(ClippedGradients(model).sum(rows, labels, clip_norm=0.5))
    found, truth = sums
    assert found.norms.dtype == torch.float64 and form() == used
    assert torch.allclose(found.norms, truth.norms, rtol=1e-5)
    assert (found.total - truth.total).abs().max() <= ERROR * truth.total.abs().max()


def test_noise(used: str) -> None:
    draw = torch.Generator().manual_seed(0)
    radii = torch.randint(-(2**63), 2**63 - 1, (5000,), generator=draw)
    angles = torch.randint(-(2**31), 2**31 - 1, (5000,), generator=draw, dtype=torch.int32)
    cosines, sines = torch.empty(5000), torch.empty(4999)
    gaussian_pairs(radii, angles, cosines, sines, std=2.0)
    assert float(cosines.std()) == pytest.approx(2.0, rel=0.05)
    truth = torch.empty(9999, dtype=torch.float64)
    _gaussian_pairs(radii, angles.long() << 32, truth[:5000], truth[5000:], std=2.0)
    assert torch.allclose(torch.cat([cosines, sines]).double(), truth, rtol=1e-5, atol=1e-5)


def test_lengths(used: str) -> None:
    row = torch.randn(10_001, generator=torch.Generator().manual_seed(0))
    assert sums_of_squares([row])[0] == pytest.approx(float(row.double().square().sum()), rel=1e-12)


@pytest.mark.parametrize(("machine", "expected"), [("x86_64", ["avx512", "avx2"]), ("aarch64", list(FORMS))])
def test_forms_that_are_used_unasked(machine: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setattr("sordino.kernels.native.platform.machine", lambda: machine)
    monkeypatch.setattr("sordino.kernels.native._load", tried.append)
    library.cache_clear()
    assert library() is None
    assert tried == expected
    library.cache_clear()


def test_a_form_that_is_not_there_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sordino.kernels.native._load", lambda form: None)
    for wished, words in (
        ("avx512", "cannot run or that were not built"),
        ("sse9", "must be one of trial, on, off, avx512"),
    ):
        monkeypatch.setenv(SWITCH, wished)
        library.cache_clear()
        with pytest.raises(SordinoError, match=words):
            library()
    monkeypatch.delenv(SWITCH)
    assert library() is None and form() is None
    assert "torch is used alone" in about_missing()[0]
    monkeypatch.setenv(SWITCH, OFF)
    assert not about_missing()
    library.cache_clear()
