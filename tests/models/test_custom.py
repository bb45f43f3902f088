"""Models from the user's own module, and what the validator refuses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sordino.core import SordinoError
from sordino.models import Net, build, validate

Use = Callable[[Callable[..., object]], Callable[..., Net]]


class Halves(nn.Module):
    """A model whose parts have the expected names, and a factor that can spoil it."""

    def __init__(self, classes: int, factor: float = 1.0, stray: bool = False) -> None:
        super().__init__()
        self.head = nn.Linear(6, classes)
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.Tanh())
        self._factor = factor
        if stray:
            self.scale = nn.Parameter(torch.ones(()))

    def forward(self, inputs: Tensor) -> Tensor:
        return self._factor * self.head(self.body(inputs))


def chain(shape: tuple[int, ...], classes: int, width: int = 6, last: nn.Module | None = None) -> nn.Module:
    layers = [nn.Flatten(), nn.Linear(torch.Size(shape).numel(), width), nn.ReLU(), nn.Linear(width, classes)]
    return nn.Sequential(*layers, *([last] if last else []))


@pytest.fixture
def use() -> Iterator[Use]:
    """Installs a function as `user_models:make` and returns a way to build it on examples of shape 3x2x2."""

    def install(function: Callable[..., object]) -> Callable[..., Net]:
        module = ModuleType("user_models")
        module.make = function  # type: ignore[attr-defined]
        sys.modules["user_models"] = module

        def made(**settings: Any) -> Net:
            return build("user_models:make", **{"shape": (3, 2, 2), "classes": 4, **settings})

        return made

    yield install
    sys.modules.pop("user_models", None)


def test_the_last_linear_layer_is_the_head(use: Use) -> None:
    net = use(chain)(seed=1, width=7)
    assert net.parts() == {"body": ["body.1.weight", "body.1.bias"], "head": ["head.weight", "head.bias"]}
    assert net.head.in_features == 7
    torch.manual_seed(1)
    inputs = torch.randn(5, 3, 2, 2)
    torch.manual_seed(1)
    assert torch.equal(net(torch.randn(5, 3, 2, 2)), net.head(net.body(inputs)))


def test_named_parts_are_kept(use: Use) -> None:
    net = use(lambda shape, classes: Halves(classes))()
    assert isinstance(net, Net)
    assert sorted(net.parts()["head"]) == ["head.bias", "head.weight"]
    assert len(net.parts()["body"]) == 2


def test_a_net_is_taken_as_it_is(use: Use) -> None:
    own = Net(body=nn.Flatten(), head=nn.Linear(12, 4))
    assert use(lambda shape, classes: own)() is own


def test_a_single_linear_layer_is_all_head(use: Use) -> None:
    net = use(lambda shape, classes: nn.Linear(shape[0], classes))(shape=(9,))
    assert net.parts() == {"body": [], "head": ["head.weight", "head.bias"]}


def test_text_models_are_told_the_vocabulary(use: Use) -> None:
    def make(shape: tuple[int, ...], classes: int, vocabulary: int) -> nn.Module:
        return nn.Sequential(nn.Embedding(vocabulary, 3), nn.Flatten(), nn.Linear(3 * shape[0], classes))

    net = use(make)(shape=(5,), vocabulary=11)
    assert net(torch.randint(11, (2, 5))).shape == (2, 4)


def test_the_seed_covers_custom_models_and_training_mode_is_kept(use: Use) -> None:
    made = use(chain)
    assert torch.equal(made(seed=2).head.weight, made(seed=2).head.weight)
    assert made().training


@pytest.mark.parametrize(
    ("function", "settings", "sentence"),
    [
        (lambda shape, classes: 3, {}, "must return a torch.nn.Module, but it returned int"),
        (lambda shape, classes: nn.Flatten(), {"classes": 12}, "no Linear layer"),
        (chain, {"widht": 3}, "did you mean 'width'"),
        (lambda shape, classes, depth: chain(shape, classes), {}, "needs the setting 'depth'"),
        (lambda shape, classes: chain(shape, classes + 1), {}, r"logits of shape \(batch, 4\).*\(2, 5\)"),
        (lambda shape, classes: chain((5,), classes), {}, "does not accept examples of shape 3x2x2"),
        (chain, {"last": nn.Tanh()}, "does not compute"),
        (lambda shape, classes: Halves(classes, factor=2.0), {}, "does not compute"),
        (lambda shape, classes: Halves(classes, stray=True), {}, "1 parameters outside"),
    ],
)
def test_what_does_not_fit_gets_one_sentence(
    use: Use, function: Callable[..., object], settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SordinoError, match=sentence):
        use(function)(**settings)


@pytest.mark.parametrize("path", ["no.such.module:make", "math:no_such", "math:pi", ":make", "math:"])
def test_paths_that_lead_nowhere_are_refused(path: str) -> None:
    with pytest.raises(SordinoError, match=r"PYTHONPATH|must be a function"):
        build(path, shape=(4,), classes=2)


def normalised(layer: nn.Module) -> Net:
    return Net(body=nn.Sequential(nn.Conv2d(3, 4, 1), layer, nn.Flatten()), head=nn.Linear(16, 4))


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (nn.BatchNorm2d(4), "mix examples"),
        (nn.BatchNorm2d(4, affine=False), "mix examples"),
        (nn.SyncBatchNorm(4), "mix examples"),
        (nn.InstanceNorm2d(4, track_running_stats=True), "store private data"),
    ],
)
def test_statistics_in_a_trained_part_are_refused(layer: nn.Module, why: str) -> None:
    net = normalised(layer)
    with pytest.raises(SordinoError, match=rf"at 'body\.1'.*{why}.*use torch\.nn\.GroupNorm"):
        validate(net, ["body.0.weight", "head.weight"])
    validate(net, ["head.weight", "head.bias"])


@pytest.mark.parametrize("layer", [nn.GroupNorm(2, 4), nn.InstanceNorm2d(4), nn.Identity()])
def test_normalisation_within_an_example_is_allowed(layer: nn.Module) -> None:
    net = normalised(layer)
    validate(net, [name for name, _ in net.named_parameters()])


def test_nothing_or_something_unknown_to_train_is_refused() -> None:
    net = normalised(nn.Identity())
    with pytest.raises(SordinoError, match="nothing to train"):
        validate(net, [])
    with pytest.raises(SordinoError, match=r"did you mean 'head\.weight'"):
        validate(net, ["head.weigth"])
