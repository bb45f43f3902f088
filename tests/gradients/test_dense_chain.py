"""Chains that are booked by hand give what the tape gives, and whatever is not a plain chain is left to the tape."""

import pytest
import torch
from gradient_reference import assert_close, clip_and_sum, rows_by_vmap
from torch import nn

from sordino.gradients import ClippedGradients, cross_entropy_per_example
from sordino.gradients.dense_chain import find_chain
from sordino.gradients.losses import loss_per_example, slope_without_graph
from sordino.kernels.choice import ROWS, leave_to_torch
from sordino.models import Net
from sordino.models.parts import Dropout

SHARED = nn.ReLU()


def chains():
    return {
        "one layer": nn.Linear(6, 4),
        "two layers": nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4)),
        "no bias": nn.Sequential(nn.Linear(6, 5, bias=False), nn.Tanh(), nn.Linear(5, 4, bias=False)),
        "no activation": nn.Sequential(nn.Linear(6, 5), nn.Identity(), nn.Linear(5, 4)),
        "an activation twice": nn.Sequential(nn.Linear(6, 5), SHARED, nn.Linear(5, 5), SHARED, nn.Linear(5, 4)),
        "last an activation": nn.Sequential(nn.Linear(6, 5), nn.Sigmoid(), nn.Linear(5, 4), nn.Tanh()),
        "parts": Net(body=nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.ReLU()), head=nn.Linear(5, 4)),
    }


@pytest.mark.parametrize("name", list(chains()))
@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_a_chain_gives_what_autograd_gives_example_by_example(name, norm):
    torch.manual_seed(1)
    model = chains()[name].double()
    assert find_chain(model) is not None
    inputs, targets = torch.randn(7, 6, dtype=torch.float64), torch.randint(4, (7,))
    found = ClippedGradients(model, norm=norm).sum(inputs, targets, clip_norm=0.3)
    rows, order = rows_by_vmap(model, inputs, targets), 2 if norm == "l2" else 1
    assert_close(found.total, clip_and_sum(rows, 0.3, order))
    assert_close(found.norms, torch.linalg.vector_norm(rows, order, dim=1))


@pytest.mark.parametrize("trainable", [["head.weight", "head.bias"], ["body.1.weight"], ["body.1.bias", "head.weight"]])
def test_only_what_is_trained_is_booked(trainable):
    torch.manual_seed(2)
    model = chains()["parts"].double()
    inputs, targets = torch.randn(5, 6, dtype=torch.float64), torch.randint(4, (5,))
    rows = ClippedGradients(model, trainable=trainable).per_example(inputs, targets)
    assert_close(rows, rows_by_vmap(model, inputs, targets, trainable=trainable))


@pytest.mark.parametrize("training", [True, False])
def test_dropout_in_a_chain_gives_the_bits_of_the_tape(training):
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), Dropout(0.5), nn.Linear(5, 4)).train(training)
    assert find_chain(model) is not None
    leave_to_torch(model, {"": [ROWS]})  # a kernel adds up in another order (tests/kernels/test_dense_private.py)
    inputs, targets = torch.randn(9, 6), torch.randint(4, (9,))
    by_hand, by_tape = ClippedGradients(model), ClippedGradients(model)
    by_tape._chain = None
    totals = []
    for engine in (by_hand, by_tape):
        model[2].generator = torch.Generator().manual_seed(7)
        totals.append(engine.sum(inputs, targets, clip_norm=0.3).total)
    assert torch.equal(*totals)


@pytest.mark.parametrize("loss", [cross_entropy_per_example, loss_per_example], ids=lambda loss: loss.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_slope_of_a_known_loss_has_the_bits_of_autograd(loss, dtype):
    torch.manual_seed(5)
    outputs = (30 * torch.randn(40, 7, dtype=dtype)).requires_grad_()
    targets = torch.randint(7, (40,))
    targets[3] = -100  # which torch leaves out
    (expected,) = torch.autograd.grad(loss(outputs, targets).sum(), outputs)
    assert torch.equal(slope_without_graph(loss, outputs.detach(), targets), expected)


def test_a_label_beyond_the_outputs_is_refused_as_by_torch():
    with pytest.raises(IndexError, match="Target 4 is out of bounds"):
        ClippedGradients(nn.Linear(6, 4)).sum(torch.randn(2, 6), torch.tensor([0, 4]), clip_norm=1.0)


@pytest.mark.parametrize(
    ("loss", "targets"),
    [(lambda outputs, targets: outputs.sum(1), torch.zeros(3, dtype=torch.int64)), (loss_per_example, torch.rand(3))],
    ids=["another loss", "numbers"],
)
def test_the_slope_of_other_losses_is_left_to_autograd(loss, targets):
    assert slope_without_graph(loss, torch.randn(3, 1), targets) is None


class OwnDropout(Dropout):
    def forward(self, inputs):
        return 2 * super().forward(inputs)


class Doubling(nn.Sequential):
    def forward(self, inputs):
        return 2 * super().forward(inputs)


class DoublingNet(Net):
    def forward(self, inputs):
        return 2 * super().forward(inputs)


class Scaled(nn.Linear):
    def forward(self, inputs):
        return 3 * super().forward(inputs)


def changed():
    hooked, patched = chains()["two layers"], chains()["two layers"]
    hooked[0].register_forward_hook(lambda module, given, output: 2 * output)
    patched[2].forward = lambda inputs: inputs
    parametrised = nn.utils.parametrizations.weight_norm(nn.Linear(6, 4))
    return {
        "a container of its own": Doubling(nn.Linear(6, 4)),
        "a model of its own": DoublingNet(body=nn.Linear(6, 5), head=nn.Linear(5, 4)),
        "a layer of its own": nn.Sequential(Scaled(6, 4)),
        "a hook": hooked,
        "another forward": patched,
        "a parametrised weight": nn.Sequential(parametrised),
        "an activation in place": nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 4)),
        "flattened in the middle": nn.Sequential(nn.Linear(6, 5), nn.Flatten(), nn.Linear(5, 4)),
        "a dropout of its own": nn.Sequential(nn.Linear(6, 5), OwnDropout(0.5), nn.Linear(5, 4)),
        "dropout": nn.Sequential(nn.Linear(6, 5), nn.Dropout(), nn.Linear(5, 4)),
    }


@pytest.mark.parametrize("name", list(changed()))
def test_what_is_no_plain_chain_is_left_to_the_tape(name):
    assert find_chain(changed()[name]) is None


def test_a_hook_that_comes_later_is_heard():
    torch.manual_seed(3)
    model = chains()["two layers"].double()
    engine = ClippedGradients(model)
    inputs, targets = torch.randn(5, 6, dtype=torch.float64), torch.randint(4, (5,))
    engine.sum(inputs, targets, clip_norm=1.0)
    model[0].register_forward_hook(lambda module, given, output: 2 * output)
    found = engine.sum(inputs, targets, clip_norm=1e3).total
    total = torch.autograd.grad(
        nn.functional.cross_entropy(model(inputs), targets, reduction="sum"), model.parameters()
    )
    torch.testing.assert_close(found, torch.cat([gradient.flatten() for gradient in total]))


def mean_loss(outputs, targets):
    return nn.functional.cross_entropy(outputs.mean(1), targets, reduction="none")


def test_sequences_of_vectors_are_left_to_the_tape():
    model = nn.Linear(6, 4).double()
    inputs, targets = torch.randn(5, 3, 6, dtype=torch.float64), torch.randint(4, (5,))
    found = ClippedGradients(model, loss=mean_loss).per_example(inputs, targets)
    assert_close(found, rows_by_vmap(model, inputs, targets, loss=mean_loss))
