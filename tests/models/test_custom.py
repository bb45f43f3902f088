"""Models from the user's own module, and what the validator refuses."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import sordino
from sordino.core import SordinoError
from sordino.models import Net, build, validate
from sordino.models.weights import load_weights, user_state_dict
from sordino.tuning.head import Head

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
        (lambda shape, classes: nn.Flatten(), {"classes": 12}, "with parameters to train, but got none"),
        (chain, {"widht": 3}, "did you mean 'width'"),
        (lambda shape, classes, depth: chain(shape, classes), {}, "needs the setting 'depth'"),
        (lambda shape, classes: chain(shape, classes + 1), {}, r"logits of shape \(batch, 4\).*\(2, 5\)"),
        (lambda shape, classes: chain((5,), classes), {}, "does not accept examples of shape 3x2x2"),
    ],
)
def test_what_does_not_fit_gets_one_sentence(
    use: Use, function: Callable[..., object], settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SordinoError, match=sentence):
        use(function)(**settings)


class Scaled(nn.Module):
    """A temperature behind the head, which at its first value changes nothing."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.layers = chain(shape, classes)
        self.temperature = nn.Parameter(torch.ones(()))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.temperature * self.layers(inputs)  # type: ignore[no-any-return]


class Backwards(nn.Module):
    """Layers that are called in another order than they are named in."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(6, classes)
        self.first = nn.Linear(torch.Size(shape).numel(), 6)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(inputs.flatten(1))))  # type: ignore[no-any-return]


class TiedHead(nn.Module):
    """The output layer is the input layer once more."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(classes, 5)
        self.output = nn.Linear(5, classes, bias=False)
        self.output.weight = self.tokens.weight

    def forward(self, inputs: Tensor) -> Tensor:
        return self.output(self.tokens(inputs).mean(1))  # type: ignore[no-any-return]


class OnlyInTraining(Scaled):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) if self.training else self.layers(inputs)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("function", "settings"),
    [
        (Scaled, {}),
        (OnlyInTraining, {}),
        (chain, {"last": nn.Tanh()}),
        (chain, {"last": nn.LayerNorm(4)}),
        (lambda shape, classes: Halves(classes, factor=2.0), {}),
        (lambda shape, classes: Halves(classes, stray=True), {}),
        (TiedHead, {"shape": (5,), "vocabulary": 4}),
        (lambda shape, classes: nn.Sequential(nn.Conv2d(3, classes, 2), nn.Flatten()), {}),
    ],
    ids=["temperature", "in training", "tanh", "layer norm", "factor", "stray", "tied", "convolution"],
)
def test_a_model_whose_head_cannot_be_told_apart_is_kept_as_written(
    use: Use, function: Callable[..., nn.Module], settings: dict[str, Any]
) -> None:
    own: list[nn.Module] = []

    def make(**arguments: Any) -> nn.Module:
        own.append(function(**{key: value for key, value in arguments.items() if key != "vocabulary"}))
        return own[-1]

    make.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    text = "vocabulary" in settings
    net = use(make)(**settings)
    assert net.parts()["head"] == []
    assert len(net.parts()["body"]) == len(list(own[0].parameters()))
    inputs = torch.randint(4, (3, 5)) if text else torch.rand(3, 3, 2, 2)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.3 * torch.rand_like(parameter))
    assert torch.equal(net(inputs), own[0](inputs))
    with pytest.raises(SordinoError, match="told apart; choose tuning = 'full'"):
        Head().trainable(net)
    with pytest.raises(SordinoError, match="keep_head = false needs a model with a head"):
        load_weights(net, user_state_dict(net), origin="file", keep_head=False)


def test_the_head_is_the_linear_layer_that_is_called_last(use: Use) -> None:
    net = use(Backwards)()
    assert net.head.out_features == 4
    assert net.parts()["head"] == ["head.weight", "head.bias"]


@pytest.mark.parametrize(
    ("function", "settings"),
    [
        (chain, {}),
        (Backwards, {}),
        (Scaled, {}),
        (lambda shape, classes: Halves(classes), {}),
        (lambda shape, classes: nn.Linear(shape[0], classes), {"shape": (9,)}),
        (lambda shape, classes: Net(body=nn.Flatten(), head=nn.Linear(12, classes)), {}),
    ],
)
def test_a_model_is_saved_and_loaded_under_its_authors_keys(
    use: Use, function: Callable[..., nn.Module], settings: dict[str, Any]
) -> None:
    made = use(function)
    net = made(seed=1, **settings)
    torch.manual_seed(5)
    own = function(**{"shape": (3, 2, 2), "classes": 4, **settings})
    saved = user_state_dict(net)
    assert saved.keys() == own.state_dict().keys()
    inputs = torch.rand(3, *settings.get("shape", (3, 2, 2)))
    load_weights(net, own.state_dict(), origin="checkpoint.pth")
    assert torch.equal(net(inputs), own(inputs))
    other = made(seed=2, **settings)
    own.load_state_dict(user_state_dict(other))
    assert torch.equal(other(inputs), own(inputs))
    load_weights(net, other.state_dict(), origin="a net's own keys")
    assert torch.equal(net(inputs), other(inputs))


def test_the_authors_keys_are_named_when_one_is_wrong(use: Use) -> None:
    net = use(chain)()
    with pytest.raises(
        SordinoError, match=r"x\.pth has '3\.weight' of shape \(9, 6\), but this model needs \(4, 6\).*new head"
    ):
        load_weights(net, chain((3, 2, 2), 9).state_dict(), origin="x.pth")
    fresh = net.head.weight.clone()
    load_weights(net, chain((3, 2, 2), 9).state_dict(), origin="x.pth", keep_head=False)
    assert torch.equal(net.head.weight, fresh)


def test_a_whole_model_with_tied_layers_runs_and_its_weights_load_into_the_authors_own(
    use: Use, tiny: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    class Twice(nn.Sequential):
        def __init__(self, shape: tuple[int, ...], classes: int) -> None:
            layer = nn.Linear(64, 64)
            super().__init__(nn.Flatten(), layer, nn.Tanh(), layer, nn.Linear(64, classes), nn.LayerNorm(classes))

    use(Twice)
    table = tiny(rounds=1, model={"name": "user_models:make"})
    sordino.run(table, out=tmp_path / "run")
    saved = load_file(tmp_path / "run" / "model.safetensors")
    own = Twice((1, 8, 8), 10)
    own.load_state_dict(saved)
    torch.save(own.state_dict(), tmp_path / "own.pth")
    again = {**table, "data": {**table["data"], "visibility": "public"}}
    sordino.run({**again, "start": {"name": "file", "path": str(tmp_path / "own.pth")}}, out=tmp_path / "again")


def test_looking_for_the_head_changes_nothing(use: Use) -> None:
    torch.manual_seed(3)
    expected = chain((3, 2, 2), 4).state_dict()
    found = user_state_dict(use(chain)(seed=3))
    assert all(torch.equal(value, found[key]) for key, value in expected.items())


@pytest.mark.parametrize("path", ["no.such.module:make", "math:no_such", "math:pi", ":make", "math:"])
def test_paths_that_lead_nowhere_are_refused(path: str) -> None:
    with pytest.raises(
        SordinoError, match=r"PYTHONPATH|must be a function|has nothing of that name|named as module:Class"
    ):
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
