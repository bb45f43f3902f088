"""Stacked clients do the work that each would do alone."""

import pytest
import torch
from torch import nn

from sordino.data.examples import IDENTITY, Examples, Normalisation
from sordino.engine.simulate import stacked
from sordino.engine.simulate.dense import trainable_layers
from sordino.engine.simulate.stacked import dense_layers, run_stacked
from sordino.kernels.dense_clients import train_clients
from sordino.kernels.native import library
from sordino.methods.local_sgd import LocalSgd
from sordino.methods.method import ClientContext
from sordino.models import FlatSpace, Net, build

SIZES = (11, 3, 26)


def clients(images=False):
    draw = torch.Generator().manual_seed(3)
    for size in SIZES:
        labels = torch.randint(4, (size,), generator=draw)
        if images:
            pixels = torch.randint(256, (size, 1, 3, 4), generator=draw, dtype=torch.uint8)
            yield Examples(inputs=pixels, labels=labels, normalisation=Normalisation())
        else:
            yield Examples(inputs=torch.randn(size, 12, generator=draw), labels=labels, normalisation=IDENTITY)


def alone_and_together(job, *, names=None, net=None, images=False, dropout=0.3):
    shape = (1, 3, 4) if images else (12,)
    net = net or build("mlp", shape=shape, classes=4, seed=5, hidden=[7, 6], dropout=dropout)
    space = FlatSpace(net, names)
    draw = torch.Generator().manual_seed(8)
    before = space.read(net)
    starts = [before + 0.1 * torch.randn(space.size, generator=draw) for _ in SIZES]
    everyone = list(clients(images))
    contexts = [
        ClientContext(net=net, space=space, client=k, round=2, size=size, seed=1, device=torch.device("cpu"))
        for k, size in enumerate(SIZES)
    ]
    together = run_stacked(job, starts, everyone, contexts)
    alone = [job.run(start, own, c) for start, own, c in zip(starts, everyone, contexts, strict=True)]
    return alone, together


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weight_decay": 0.1},
        {"momentum": 0.8, "weight_decay": 0.1},
        {"full_batch": True},
        {"epochs": 3, "batch_size": 4},
    ],
)
@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_unequal_clients_get_the_updates_they_would_have_made_alone(settings, images, dropout):
    job = LocalSgd(**{"batch_size": 5, **settings})
    alone, together = alone_and_together(job, images=images, dropout=dropout)
    for one, other in zip(alone, together, strict=True):
        assert one.abs().max() > 1e-3
        torch.testing.assert_close(one, other, atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("momentum", [0.0, 0.8])
@pytest.mark.parametrize("part", ["head", "body", "bias", "weight"])
def test_what_is_not_trained_stays_out_of_the_update(part, momentum):
    net = build("mlp", shape=(12,), classes=4, seed=5, hidden=[7, 6])
    names = [name for name, _ in net.named_parameters() if part in name]
    alone, together = alone_and_together(LocalSgd(batch_size=5, momentum=momentum), names=names, net=net)
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one, other, atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("full_batch", [False, True])
@pytest.mark.parametrize("sizes", [(6, 0), (0, 0)])
def test_clients_without_rows_change_nothing(sizes, full_batch):
    net = build("mlp", shape=(12,), classes=4, seed=5, hidden=[7])
    space, job = FlatSpace(net), LocalSgd(batch_size=4, full_batch=full_batch)
    everyone = [next(clients()).take(torch.arange(size)) for size in sizes]
    contexts = [
        ClientContext(net=net, space=space, client=k, round=2, size=size, seed=1, device=torch.device("cpu"))
        for k, size in enumerate(sizes)
    ]
    start = space.read(net)
    for update, own, context in zip(
        run_stacked(job, [start, start], everyone, contexts), everyone, contexts, strict=True
    ):
        torch.testing.assert_close(update, job.run(start, own, context), atol=2e-6, rtol=1e-4)
        assert bool(update.any()) == bool(len(own))


def test_the_starting_points_are_left_alone():
    net = build("mlp", shape=(12,), classes=4, seed=5, hidden=[7])
    space = FlatSpace(net)
    start = space.read(net)
    context = ClientContext(net=net, space=space, client=0, round=0, size=11, seed=1, device=torch.device("cpu"))
    run_stacked(LocalSgd(batch_size=5), [start], [next(clients())], [context])
    assert torch.equal(start, space.read(net))


def test_layers_that_overwrite_their_input_are_not_stacked():
    chain = Net(body=nn.Sequential(nn.Linear(12, 5), nn.ReLU(inplace=True)), head=nn.Linear(5, 4))
    assert dense_layers(chain) is None


def test_an_activation_in_several_places_is_computed_in_each():
    torch.manual_seed(0)
    shared = nn.ReLU()
    layers = [nn.Flatten(), nn.Linear(12, 9), shared, nn.Linear(9, 8), shared]
    net = Net(body=nn.Sequential(*layers), head=nn.Linear(8, 4))
    space, own = FlatSpace(net), next(clients())
    context = ClientContext(net=net, space=space, client=0, round=0, size=len(own), seed=1, device=torch.device("cpu"))
    job, start = LocalSgd(batch_size=5, learning_rate=1.0), space.read(net)
    (update,) = run_stacked(job, [start], [own], [context])
    torch.testing.assert_close(update, job.run(start, own, context), atol=2e-6, rtol=1e-4)


def test_parameters_in_several_places_are_not_stacked():
    layer, tied = nn.Linear(5, 5), nn.Linear(5, 5)
    tied.weight = layer.weight
    assert dense_layers(Net(body=nn.Sequential(layer, nn.ReLU(), layer), head=nn.Linear(5, 4))) is None
    assert dense_layers(Net(body=nn.Sequential(layer, nn.ReLU(), tied), head=nn.Linear(5, 4))) is None


class Doubling(nn.Sequential):
    """Computes something else than its layers in turn."""

    def forward(self, inputs):
        return 2 * super().forward(inputs)


class DoublingNet(Net):
    def forward(self, inputs):
        return 2 * super().forward(inputs)


def chain():
    return Net(body=nn.Sequential(nn.Linear(12, 5), nn.ReLU()), head=nn.Linear(5, 4))


def test_models_that_compute_more_than_their_layers_are_not_stacked():
    assert dense_layers(chain()) is not None
    body, head = nn.Sequential(nn.Linear(12, 5), nn.ReLU()), nn.Linear(5, 4)
    assert dense_layers(Net(body=Doubling(*body), head=head)) is None
    assert dense_layers(DoublingNet(body=body, head=head)) is None
    assert dense_layers(Net(body=body, head=Scaled(5, 4))) is None
    hooked, patched = chain(), chain()
    hooked.body[0].register_forward_hook(lambda module, given, output: 2 * output)
    patched.head.forward = lambda inputs: inputs
    assert dense_layers(hooked) is None
    assert dense_layers(patched) is None


@pytest.fixture
def kernel_updates(monkeypatch):
    """What the kernel for dense clients answered, call by call."""
    answers = []

    def watched(*arguments, **settings):
        answers.append(train_clients(*arguments, **settings))
        return answers[-1]

    monkeypatch.setattr(stacked, "train_clients", watched)
    return answers


@pytest.mark.skipif(library() is None, reason="no compiled kernels on this machine")
@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_plain_chains_are_work_for_the_kernel(kernel_updates, images, bias):
    net = build("mlp", shape=(1, 3, 4) if images else (12,), classes=4, seed=5, hidden=[7, 6], bias=bias)
    alone, together = alone_and_together(LocalSgd(batch_size=5, epochs=2), net=net, images=images)
    assert len(kernel_updates[0]) == len(SIZES)
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one, other, atol=2e-6, rtol=1e-4)


def test_other_work_is_torchs(kernel_updates):
    net = build("mlp", shape=(12,), classes=4, seed=5, hidden=[7])
    alone_and_together(LocalSgd(batch_size=5), net=net, names=["body.1.weight"])
    alone_and_together(LocalSgd(batch_size=5, momentum=0.5), net=net)
    alone_and_together(LocalSgd(batch_size=5), dropout=0.3)
    assert not kernel_updates


def test_labels_of_no_class_are_refused_with_and_without_the_kernel(monkeypatch):
    net = build("mlp", shape=(12,), classes=4, seed=5, hidden=[7])
    space, own = FlatSpace(net), next(clients())
    own.labels[3] = 4
    context = ClientContext(net=net, space=space, client=0, round=0, size=11, seed=1, device=torch.device("cpu"))
    for _ in range(2):
        with pytest.raises(IndexError, match="Target 4 is out of bounds"):
            run_stacked(LocalSgd(batch_size=5), [space.read(net)], [own], [context])
        monkeypatch.setattr(stacked, "train_clients", lambda *_, **__: None)


class Scaled(nn.Linear):
    """Computes something else than its class says."""


@pytest.mark.parametrize(
    ("layers", "fit"),
    [
        ([nn.Linear(12, 4)], True),
        ([nn.Flatten(), nn.Linear(12, 5), nn.Identity(), nn.ReLU(), nn.Linear(5, 4, bias=False)], True),
        ([nn.Linear(12, 5), nn.Linear(5, 4)], False),
        ([nn.Linear(12, 5), nn.ReLU(), nn.ReLU(), nn.Linear(5, 4)], False),
        ([nn.ReLU(), nn.Linear(12, 4)], False),
        ([nn.Linear(12, 4), nn.ReLU()], False),
        ([nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 4)], False),
        ([nn.Linear(12, 5), nn.ReLU(), Scaled(5, 4)], False),
        ([], False),
    ],
)
def test_which_chains_the_kernel_can_train(layers, fit):
    net = nn.Sequential(*layers)
    found = trainable_layers(list(net.named_children()), FlatSpace(net))
    assert (found is not None) is fit
    if found:
        weights = [layer.weight for layer in layers if isinstance(layer, nn.Linear)]
        assert [(layer.outputs, layer.inputs) for layer in found] == [tuple(weight.shape) for weight in weights]


def test_chains_with_a_frozen_part_are_not_for_the_kernel():
    net = nn.Sequential(nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 4))
    assert trainable_layers(list(net.named_children()), FlatSpace(net, ["2.weight", "2.bias"])) is None
