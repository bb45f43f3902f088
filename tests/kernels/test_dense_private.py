"""Clipped sums of dense layers by one kernel: torch's own numbers, the bound for every example, and torch where it cannot."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from sordino.gradients import ClippedGradients
from sordino.gradients import clipped as engine
from sordino.kernels.choice import ROWS, leave_to_torch
from sordino.kernels.dense_private import PlacedLayer, clipped_sum
from sordino.kernels.native import library
from sordino.models.parts import Dropout, draw_dropout_from

pytestmark = pytest.mark.skipif(library() is None, reason="no compiled kernels on this machine")

SIZES = [(784, 64, 10), (20, 7, 30, 3), (5, 4), (33, 17, 40)]
CLIP = 0.7


def chain(sizes, *, bias=True, between=(nn.ReLU,), dtype=torch.float32):
    torch.manual_seed(len(sizes))
    layers = [
        layer
        for a, b in pairwise(sizes)
        for layer in (nn.Linear(a, b, bias=bias, dtype=dtype), *[make() for make in between])
    ]
    net = nn.Sequential(*layers[: -len(between)])
    draw_dropout_from(net, torch.Generator().manual_seed(11))
    return net


def half():
    return Dropout(0.5)


class Turning(nn.Module):
    """Factors of either sign, and of none."""

    draws_factors = True

    def factors(self, inputs):
        return torch.linspace(-2, 2, inputs.shape[1]).round().to(inputs).expand_as(inputs)

    def forward(self, inputs):
        return inputs * self.factors(inputs)


PLAIN, DROPPED, TURNED = (nn.ReLU,), (nn.ReLU, half), (nn.ReLU, Turning)


def batch(rows, sizes):
    generator = torch.Generator().manual_seed(rows)
    inputs = torch.randn(rows, sizes[0], generator=generator)
    return inputs, torch.randint(sizes[-1], (rows,), generator=generator)


@pytest.fixture
def called(monkeypatch):
    """How many sums the kernel made."""
    calls = []
    real = engine.clipped_sum

    def counted(*args, **kwargs):
        calls.append(1)
        return real(*args, **kwargs)

    monkeypatch.setattr(engine, "clipped_sum", counted)
    return calls


@pytest.mark.parametrize("between", [PLAIN, DROPPED, TURNED], ids=["plain", "dropout", "factors of any sign"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 31, 257, 1300])
@pytest.mark.parametrize("sizes", SIZES)
def test_sums_and_norms_are_those_of_double_precision(sizes, rows, bias, between, called):
    net, exact = (chain(sizes, bias=bias, between=between, dtype=dtype) for dtype in (torch.float32, torch.float64))
    exact.load_state_dict(net.state_dict())
    inputs, labels = batch(rows, sizes)
    ours = ClippedGradients(net).sum(inputs, labels, clip_norm=CLIP)
    right = ClippedGradients(exact).sum(inputs.double(), labels, clip_norm=CLIP)
    assert called == [1]
    torch.testing.assert_close(ours.total.double(), right.total, rtol=1e-4, atol=1e-6 * rows)
    torch.testing.assert_close(ours.norms, right.norms, rtol=1e-5, atol=1e-5)
    assert ours.nonfinite == 0


def test_the_masks_are_those_that_torch_would_draw(called):
    """Batch after batch, and in evaluation none."""
    sizes = (33, 17, 20, 40)
    nets = chain(sizes, between=DROPPED), left(chain(sizes, between=DROPPED))
    both = [ClippedGradients(net) for net in nets]
    for rows, training in ((40, True), (7, True), (9, False), (64, True)):
        inputs, labels = batch(rows, sizes)
        for net in nets:
            net.train(training)
        ours, torchs = (gradients.sum(inputs, labels, clip_norm=CLIP).total for gradients in both)
        torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-5)
        assert torch.equal(*(net[2].generator.get_state() for net in nets))
    assert len(called) == 4


@pytest.mark.parametrize("between", [PLAIN, DROPPED], ids=["plain", "dropout"])
def test_threads_change_no_bit(between):
    sizes = SIZES[0]
    net, (inputs, labels) = chain(sizes, between=between), batch(700, sizes)
    gradients = ClippedGradients(net)
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            draw_dropout_from(net, torch.Generator().manual_seed(11))
            found.append(gradients.sum(inputs, labels, clip_norm=CLIP))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one.total, found[0].total) and torch.equal(one.norms, found[0].norms) for one in found)


@pytest.mark.parametrize("between", [PLAIN, DROPPED], ids=["plain", "dropout"])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e6, 1e15])
def test_what_one_example_adds_is_never_longer_than_the_clip(scale, between, called):
    sizes = (40, 16, 5)
    gradients = ClippedGradients(chain(sizes, between=between))
    inputs, labels = batch(30, sizes)
    for row, label in zip(inputs * scale, labels, strict=True):
        total = gradients.sum(row[None], label[None], clip_norm=CLIP).total
        assert total.double().norm() <= CLIP
    assert len(called) == 30


@pytest.mark.parametrize("between", [PLAIN, TURNED], ids=["plain", "factors"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e25])
def test_an_example_without_a_length_adds_nothing(bad, between, called):
    sizes = (33, 17, 40)
    gradients, (inputs, labels) = ClippedGradients(chain(sizes, between=between)), batch(40, sizes)
    inputs[[3, 20]] = bad
    found = gradients.sum(inputs, labels, clip_norm=CLIP)
    others = torch.ones(40, dtype=torch.bool)
    others[[3, 20]] = False
    rest = gradients.sum(inputs[others], labels[others], clip_norm=CLIP)
    assert found.nonfinite == 2 and found.norms[~others].isinf().all()
    torch.testing.assert_close(found.total, rest.total)
    assert len(called) == 2


def test_labels_out_of_range_are_left_to_torch():
    """Which refuses them (tests/gradients/test_dense_chain.py); a thrown error cannot be tested under the address sanitizer."""
    layer = nn.Linear(5, 4)
    inputs, labels = batch(8, (5, 4))
    labels[2] = 4
    placed, total = [PlacedLayer(layer=layer, weight=0, bias=20)], torch.zeros(24)
    assert clipped_sum(placed, inputs, labels, clip=CLIP, largest=1e30, total=total) is None
    assert not total.any()


@pytest.mark.parametrize("rows", [8, 1300])
def test_what_the_kernel_began_is_not_added_to_what_torch_sums(rows):
    """A label of -100, which torch leaves out, stops the kernel half-way."""
    sizes = (33, 17, 40)
    net, (inputs, labels) = chain(sizes), batch(rows, sizes)
    labels[rows - 1] = -100
    found = ClippedGradients(net).sum(inputs, labels, clip_norm=CLIP)
    right = ClippedGradients(left(chain(sizes))).sum(inputs, labels, clip_norm=CLIP)
    assert torch.equal(found.total, right.total)


def test_a_hook_that_comes_later_is_heard_by_dropout_too(called):
    net, (inputs, labels) = chain((6, 5, 4), between=DROPPED), batch(10, (6, 5, 4))
    gradients = ClippedGradients(net)
    gradients.sum(inputs, labels, clip_norm=CLIP)
    net[2].register_forward_hook(lambda *_: None)
    gradients.sum(inputs, labels, clip_norm=CLIP)
    assert called == [1]


def hooked(net):
    net[0].register_forward_hook(lambda *_: None)
    return net


def left(net):
    leave_to_torch(net, {"": [ROWS]})
    return net


@pytest.mark.parametrize(
    ("net", "options"),
    [
        (chain((6, 5, 4), between=(nn.Tanh,)), {}),
        (chain((6, 5, 4), between=(half, nn.ReLU)), {}),
        (chain((6, 5, 4), between=(nn.ReLU, half, half)), {}),
        (chain((6, 5, 4), between=(half,)), {}),
        (hooked(chain((6, 5, 4))), {}),
        (left(chain((6, 5, 4))), {}),
        (chain((6, 5, 4)), {"norm": "l1"}),
        (chain((6, 5, 4)), {"microbatch": 3}),
        (chain((6, 5, 4)), {"trainable": ["2.weight", "2.bias"]}),
        (chain((6, 5, 4)), {"groups": {"one": ["0.weight", "0.bias"], "two": ["2.weight", "2.bias"]}}),
    ],
    ids=[
        "tanh",
        "dropout first",
        "dropout twice",
        "dropout alone",
        "hook",
        "left to torch",
        "l1",
        "microbatches",
        "frozen",
        "groups",
    ],
)
def test_what_the_kernel_does_not_know_goes_the_old_way(net, options, called):
    inputs, labels = batch(10, (6, 5, 4))
    total = ClippedGradients(net, **options).sum(inputs, labels, clip_norm=CLIP).total
    assert total.isfinite().all() and not called
