"""What every model promises, tried on every registered model, and the numbers that some promise besides."""

from __future__ import annotations

import functools
import inspect
from math import prod
from typing import Any

import pytest
import torch
from torch import Size, Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from sordino.core import SordinoError
from sordino.models import MODELS, Net, build, validate

CLASSES = 5
INPUTS: dict[str, dict[str, Any]] = {
    "colour": {"shape": (3, 32, 32)},
    "grey": {"shape": (1, 28, 28)},
    "row": {"shape": (17,)},
    "text": {"shape": (12,), "vocabulary": 50},
}
NAMES = [member.name for member in MODELS]


def examples(inputs: dict[str, Any], count: int = 3) -> Tensor:
    size = (count, *inputs["shape"])
    vocabulary = inputs.get("vocabulary", 0)
    return torch.randint(vocabulary, size) if vocabulary else torch.randn(size)


def without_weights(name: str, **inputs: Any) -> Net:
    """All of a model but the numbers in it, which take long to draw for large ones."""
    with torch.device("meta"):
        return build(name, classes=CLASSES, **inputs)


@functools.cache
def accepted(name: str) -> list[dict[str, Any]]:
    """The inputs a model takes; the others it must refuse with a sentence that says what to choose."""
    taken = []
    for inputs in INPUTS.values():
        try:
            without_weights(name, **inputs)
            taken.append(inputs)
        except SordinoError as error:
            assert f"'{name}' needs" in str(error) and "choose" in str(error)
    return taken


def count(net: Net, part: str) -> int:
    return sum(net.get_parameter(name).numel() for name in net.parts()[part])


@pytest.fixture(scope="class")
def net(name: str) -> Net:
    return build(name, classes=CLASSES, seed=1, **accepted(name)[0])


@pytest.mark.parametrize("name", NAMES, scope="class")
class TestEveryModel:
    def test_makes_logits_and_gradients_for_what_it_accepts(self, name: str, net: Net) -> None:
        first, *others = accepted(name)
        nets = [net.train(), *(build(name, classes=CLASSES, seed=1, **inputs) for inputs in others)]
        for each, inputs in zip(nets, [first, *others], strict=True):
            logits = each(examples(inputs))
            assert logits.shape == (3, CLASSES)
            cross_entropy(logits, torch.tensor([0, 1, 4])).backward()
            assert all(parameter.grad is not None for parameter in each.parameters())

    def test_parts_hold_every_parameter_once(self, name: str) -> None:
        net = without_weights(name, **accepted(name)[0])
        parts = net.parts()
        assert sorted(parts["body"] + parts["head"]) == sorted(name for name, _ in net.named_parameters())
        assert parts["head"]

    def test_same_seed_same_weights_and_the_global_generator_is_left_alone(self, name: str, net: Net) -> None:
        def same(seed: int) -> bool:
            other = build(name, classes=CLASSES, seed=seed, **accepted(name)[0])
            return all(map(torch.equal, net.parameters(), other.parameters()))

        before = torch.get_rng_state()
        assert same(seed=1)
        assert not same(seed=2)
        assert torch.equal(torch.get_rng_state(), before)

    def test_examples_do_not_mix(self, name: str, net: Net) -> None:
        validate(net.eval(), [name for name, _ in net.named_parameters()])
        batch = examples(accepted(name)[0])
        with torch.no_grad():
            torch.testing.assert_close(net(batch)[:1], net(batch[:1]), atol=1e-5, rtol=1e-4)

    def test_an_unknown_setting_is_refused(self, name: str) -> None:
        with pytest.raises(SordinoError, match=r"no setting in|takes no settings"):
            build(name, classes=CLASSES, colour="red", **accepted(name)[0])

    def test_has_a_summary(self, name: str) -> None:
        assert inspect.getdoc(MODELS[name])


@pytest.mark.parametrize(
    ("name", "settings", "body", "head"),
    [
        ("cnn", {}, 543_808, 1_290),
        ("lenet5", {}, 2_432 + 51_264 + 1600 * 512 + 512 + 512 * 512 + 512, 5_130),
        ("resnet20", {"width": 32}, 1_072_672, 1_290),
        ("resnet20", {"width": 32, "shortcuts": "projected"}, 1_083_296, 1_290),
        ("resnet20", {}, 269_072, 650),
        ("logistic", {}, 0, 30_730),
        ("mlp", {"hidden": [20, 30], "bias": False}, 3072 * 20 + 600, 300),
        ("mlp", {"hidden": [20], "bias": False, "normalise": True}, 3072 * 20 + 40, 200),
    ],
)
def test_parameter_counts(name: str, settings: dict[str, Any], body: int, head: int) -> None:
    net = build(name, shape=(3, 32, 32), classes=10, **settings)
    assert (count(net, "body"), count(net, "head")) == (body, head)


@pytest.mark.parametrize(("name", "least"), [("cnn", 4), ("lenet5", 16), ("alexnet", 16), ("resnet20", 8)])
def test_images_too_small_for_the_model_are_refused(name: str, least: int) -> None:
    settings = {"features": 8} if name == "alexnet" else {}
    for side in (least, least + 1, least + 7):
        shape = (2, side, side + 3)
        assert build(name, shape=shape, classes=4, **settings)(torch.randn(2, *shape)).shape == (2, 4)
    with pytest.raises(SordinoError, match=f"at least {least}x{least} pixels.*resize"):
        build(name, shape=(2, least - 1, 32), classes=4)


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("mlpp", {}, "did you mean 'mlp'"),
        ("mlp", {"hiden": [3]}, "did you mean 'hidden'"),
        ("mlp", {"hidden": "many"}, "hidden should be"),
        ("mlp", {"hidden": [8, 0]}, r"hidden\[1\] must be at least 1"),
        ("mlp", {"dropout": 1.0}, r"dropout must lie in \[0, 1\)"),
        ("resnet20", {"width": 20}, "multiple of groups"),
        ("resnet20", {"width": 0}, "width must be at least 1"),
    ],
)
def test_bad_settings_get_one_sentence(name: str, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SordinoError, match=sentence):
        build(name, shape=(3, 32, 32), classes=10, **settings)


@pytest.mark.parametrize(("shape", "classes"), [((), 2), ((3, 0, 4), 2), ((4,), 0)])
def test_senseless_shapes_are_refused(shape: tuple[int, ...], classes: int) -> None:
    with pytest.raises(SordinoError, match="at least one"):
        build("logistic", shape=shape, classes=classes)


def test_padding_changes_no_logit_of_a_text_whatever_its_embedding_became() -> None:
    net = build("lstm", shape=(6,), vocabulary=20, classes=3, seed=1)
    nn.init.normal_(net.get_parameter("body.embedding.weight"))
    text = torch.tensor([[4, 9, 2]])
    torch.testing.assert_close(net(text), net(torch.cat([text, torch.zeros(1, 3, dtype=torch.int64)], dim=1)))
    assert net(torch.zeros(1, 6, dtype=torch.int64)).isfinite().all()


def test_a_batch_is_read_to_the_end_of_its_longest_text() -> None:
    net = build("lstm", shape=(40,), vocabulary=20, classes=3, seed=1)
    texts = torch.randint(1, 20, (5, 40), generator=torch.Generator().manual_seed(1)) * (torch.arange(40) < 9)
    read: list[Size] = []
    net.get_submodule("body.lstm").register_forward_hook(lambda _, inputs, __: read.append(inputs[0].shape))
    parameters = dict(net.named_parameters())

    def loss(weights: dict[str, nn.Parameter], tokens: Tensor) -> Any:
        return functional_call(net, dict[str, Tensor](weights), (tokens,)).square().sum()

    found = torch.autograd.grad(net(texts).square().sum(), list(parameters.values()))
    expected = vmap(grad(loss), in_dims=(None, 0))(parameters, texts.unsqueeze(1))
    assert [shape[1] for shape in read] == [16, 40]
    for name, gradient in zip(parameters, found, strict=True):
        torch.testing.assert_close(gradient, expected[name].sum(0))


def test_a_traced_lstm_reads_texts_longer_than_the_traced_one() -> None:
    net = build("lstm", shape=(12,), vocabulary=20, classes=3, seed=1).eval()
    texts = torch.randint(1, 20, (4, 12), generator=torch.Generator().manual_seed(1))
    traced: Any = torch.jit.trace(net, texts * (torch.arange(12) < 3))
    torch.testing.assert_close(traced(texts), net(texts))


def test_dropout_repeats_with_a_generator_and_keeps_the_mean() -> None:
    net = build("mlp", shape=(4,), classes=2, hidden=[64], dropout=0.25)
    layer = next(module for module in net.modules() if type(module).__name__ == "Dropout")
    size = torch.Size((1000, 64))
    mask = layer.mask(size, torch.Generator().manual_seed(1))
    torch.manual_seed(1)
    assert torch.equal(layer(torch.ones(size)), mask)
    assert mask.unique().tolist() == pytest.approx([0, 1 / 0.75])
    assert abs(mask.mean().item() - 1) < 6 * (1 / 3 / prod(size)) ** 0.5
    assert torch.equal(layer.eval()(torch.ones(size)), torch.ones(size))
