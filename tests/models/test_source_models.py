"""Source models: the keys of public weights files, fixed normalisation, and what real weights see in real images."""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image
from torch import Tensor, nn

from sordino.core import SordinoError
from sordino.data.locate import data_folder
from sordino.gradients import ClippedGradients, cross_entropy_per_example
from sordino.gradients.fallback import vmap_gradients
from sordino.models import Net, build, validate
from sordino.models.weights import FrozenBatchNorm, SourceNet, frozen_batchnorm, load_weights
from sordino.pretrain.file import read_weights

# Name: parameters, entries of the state dict, and the SHA-256 of the reference's lines "key shape", in its order.
REFERENCE = {
    "resnet18": (11_689_512, 122, "84fb10d9c6905a1c"),
    "resnet50": (25_557_032, 320, "d7e4f8bb0a536344"),
    "resnet152": (60_192_808, 932, "685c66205bc823aa"),
    "resnext50_32x4d": (25_028_904, 320, "e3bad165c034e60f"),
    "resnext101_32x8d": (88_791_336, 626, "da7dd7525807e2ee"),
    "mobilenet_v2": (3_504_872, 314, "37bbbce8932fd0c4"),
    "efficientnet_lite0": (4_652_008, 296, "f19038aa9e94bf26"),
    "efficientnet_lite2": (6_092_072, 386, "4943f76ab40a1b6a"),
    "resnet50_v1": (25_557_032, 320, "d7e4f8bb0a536344"),
}
SAMPLES = {
    "resnet18": {"conv1.weight": (64, 3, 7, 7), "layer2.0.downsample.0.weight": (128, 64, 1, 1), "fc.bias": (1000,)},
    "resnet50": {"layer1.0.conv3.weight": (256, 64, 1, 1), "layer3.5.bn3.running_var": (1024,), "fc.bias": (1000,)},
    "resnet152": {"layer3.35.conv2.weight": (256, 256, 3, 3), "layer2.7.bn1.bias": (128,), "fc.bias": (1000,)},
    "resnext50_32x4d": {"layer1.0.conv2.weight": (128, 4, 3, 3), "fc.weight": (1000, 2048)},
    "resnext101_32x8d": {"layer4.2.conv2.weight": (2048, 64, 3, 3), "layer3.22.bn1.weight": (1024,)},
    "mobilenet_v2": {"features.1.conv.1.weight": (16, 32, 1, 1), "classifier.1.weight": (1000, 1280)},
    "efficientnet_lite2": {"_blocks.20._project_conv.weight": (352, 1248, 1, 1), "_fc.weight": (1000, 1280)},
    "resnet50_v1": {"layer2.0.conv1.weight": (128, 256, 1, 1), "fc.bias": (1000,)},
    "efficientnet_lite0": {"_blocks.3._depthwise_conv.weight": (144, 1, 5, 5), "_fc.weight": (1000, 1280)},
}
# The reference's first logits, at the weights and the image of `noise`.
LOGITS = {
    "resnet18": (-0.1579056181268972, 3.768112169390493, 1.2778688434897107),
    "resnet50": (29.220495241175268, -23.423609013134357, -18.237657223085694),
    "resnext50_32x4d": (19.313841209124863, -16.407773720607956, -16.956553363533676),
    "mobilenet_v2": (2.8617763431190837, 3.5165603845324602, 2.0004307858806225),
    "efficientnet_lite0": (5.4717853203811435, -0.6037054702634803, 0.24375970018720072),
}
SMALL = ["resnet18", "mobilenet_v2", "efficientnet_lite0"]


def source(name: str, *, classes: int = 1000, seed: int = 1, side: int = 32) -> SourceNet:
    net = build(name, shape=(3, side, side), classes=classes, seed=seed)
    assert isinstance(net, SourceNet)
    return net


def as_file(net: SourceNet) -> dict[str, Tensor]:
    values = net.state_dict()
    return {theirs: values[ours] for ours, theirs in net.file_keys().items()}


def with_statistics(model: nn.Module) -> nn.Module:
    """The model with statistics, scales and shifts that differ from channel to channel."""
    generator = torch.Generator().manual_seed(5)
    for layer in model.modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase):
            for value in (layer.running_var, layer.weight.data):
                value.uniform_(0.5, 1.5, generator=generator)
            for value in (layer.running_mean, layer.bias.data):
                value.uniform_(-0.5, 0.5, generator=generator)
    return model


@pytest.mark.parametrize("name", REFERENCE)
def test_keys_and_shapes_are_those_of_the_public_files(name: str) -> None:
    parameters, entries, digest = REFERENCE[name]
    net = source(name)
    shapes = {key: tuple(value.shape) for key, value in as_file(net).items()}
    assert sum(parameter.numel() for parameter in net.parameters()) == parameters
    assert {key: shapes.get(key) for key in SAMPLES[name]} == SAMPLES[name]
    assert len(shapes) == entries
    lines = "\n".join(f"{key} {shape}" for key, shape in shapes.items())
    assert hashlib.sha256(lines.encode()).hexdigest()[:16] == digest


def noise(shape: tuple[int, ...], number: int) -> Tensor:
    """Numbers in [-1, 1] that no generator and no library changes."""
    index = torch.arange(torch.Size(shape).numel())
    return (((index * index * 31 + index * 7919 + number * 104729) % 65521).double() / 32760 - 1).reshape(shape)


def noisy_weight(number: int, key: str, like: Tensor) -> Tensor:
    if not like.is_floating_point():
        return like
    values = noise(tuple(like.shape), number)
    if like.dim() > 1:
        return values * (4 / like[0].numel()) ** 0.5
    return 1 + values / 2 if key.endswith(("weight", "running_var")) else values


def test_strides_lie_in_the_first_convolution_of_version_one_alone() -> None:
    """The same keys and shapes, so weights of one load into the other; the strides alone tell them apart."""
    one, other = source("resnet50_v1").body, source("resnet50").body
    assert one.get_submodule("layer2.0.conv1").stride == other.get_submodule("layer2.0.conv2").stride == (2, 2)
    assert one.get_submodule("layer2.0.conv2").stride == other.get_submodule("layer2.0.conv1").stride == (1, 1)


@pytest.mark.parametrize("name", LOGITS)
def test_logits_are_those_of_the_reference(name: str) -> None:
    net = source(name).double()
    weights = {key: noisy_weight(number, key, value) for number, (key, value) in enumerate(as_file(net).items())}
    load_weights(net, weights, origin="noise")
    with torch.no_grad():
        logits = net(noise((1, 3, 64, 64), 0))[0, :3]
    torch.testing.assert_close(logits, torch.tensor(LOGITS[name], dtype=torch.float64), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", SMALL)
class TestLoading:
    def test_a_file_gives_the_net_that_was_saved(self, name: str) -> None:
        saved, net = source(name), source(name, seed=2)
        with_statistics(saved)
        load_weights(net, as_file(saved), origin="file")
        loaded = net.state_dict()
        assert all(torch.equal(value, loaded[key]) for key, value in saved.state_dict().items())

    def test_our_own_keys_are_known_too(self, name: str) -> None:
        saved, net = source(name), source(name, seed=2)
        load_weights(net, saved.state_dict(), origin="file")
        images = torch.randn(2, 3, 32, 32)
        assert torch.equal(net(images), saved(images))

    def test_files_from_before_batches_were_counted_load(self, name: str) -> None:
        saved, net = source(name), source(name, seed=2)
        old = {key: value for key, value in as_file(saved).items() if not key.endswith("num_batches_tracked")}
        load_weights(net, old, origin="file")
        assert torch.equal(net.head.weight, saved.head.weight)

    def test_a_new_head_keeps_its_fresh_weights_on_the_files_body(self, name: str) -> None:
        saved, net = source(name), source(name, classes=7, seed=2)
        with_statistics(saved)
        fresh = net.head.weight.clone()
        load_weights(net, as_file(saved), origin="file", keep_head=False)
        images = torch.randn(2, 3, 32, 32)
        assert torch.equal(net.head.weight, fresh)
        assert torch.equal(net.body(images), saved.body(images))
        assert net(images).shape == (2, 7)

    def test_a_head_of_other_classes_is_refused_with_the_way_out(self, name: str) -> None:
        net = source(name, classes=7)
        with pytest.raises(SordinoError, match=r"weight' of shape \(1000, .* needs \(7, .*keep_head = false"):
            load_weights(net, as_file(source(name)), origin="file")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda _: as_file(source("resnet50")),
            r"'layer1.0.conv1.weight' of shape \(64, 64, 1, 1\).* \(64, 64, 3, 3\)",
        ),
        (
            lambda _: as_file(source("mobilenet_v2")),
            r"no 'conv1.weight' of shape \(64, 3, 7, 7\).*'features.0.0.weight'",
        ),
        (
            lambda file: file | {"layer1.2.conv1.weight": torch.zeros(2, 3)},
            r"'layer1.2.conv1.weight' of shape \(2, 3\)",
        ),
        (
            lambda file: {key: file[key] for key in file if "bn2" not in key},
            r"no 'layer1.0.bn2.weight' of shape \(64,\)",
        ),
        (
            lambda file: {"epoch": 3, "state_dict": file},
            r"no 'conv1.weight'.*begins with 'epoch' of shape none \(int\)",
        ),
        (lambda _: {}, "is empty"),
    ],
    ids=["shallower", "another model", "deeper", "incomplete", "checkpoint", "empty"],
)
def test_weights_of_another_model_name_the_first_wrong_key_and_change_nothing(change, sentence: str) -> None:
    net = source("resnet18")
    before = {key: value.clone() for key, value in net.state_dict().items()}
    with pytest.raises(SordinoError, match=sentence) as caught:
        load_weights(net, change(as_file(net)), origin="weights.pth")
    assert str(caught.value).startswith("weights.pth has ") or "is empty" in str(caught.value)
    assert str(caught.value).count(". ") == 0 and "same model" in str(caught.value)
    after = net.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in before.items())


def test_a_plain_net_loads_by_its_own_keys() -> None:
    saved, net = (build("cnn", shape=(3, 8, 8), classes=4, seed=seed) for seed in (1, 2))
    load_weights(net, saved.state_dict(), origin="file")
    assert torch.equal(net.get_parameter("head.weight"), saved.get_parameter("head.weight"))
    with pytest.raises(SordinoError, match=r"no 'body.0.weight' of shape \(32, 3, 3, 3\)"):
        load_weights(net, as_file(source("resnet18")), origin="file")


@pytest.mark.parametrize("name", REFERENCE)
@pytest.mark.parametrize(
    ("shape", "sentence"),
    [((1, 64, 64), "3 channels.*channels = 3"), ((3, 31, 64), "at least 32x32"), ((100,), "needs images")],
)
def test_images_it_cannot_see_are_refused(name: str, shape: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(SordinoError, match=sentence):
        build(name, shape=shape, classes=10)


@pytest.mark.parametrize("name", SMALL)
class TestFixedNormalisation:
    def test_training_mode_mixes_no_examples_and_stores_nothing(self, name: str) -> None:
        net = source(name, classes=5, side=48).train()
        with_statistics(net)
        stored = {key: value.clone() for key, value in net.named_buffers()}
        images = torch.randn(3, 3, 48, 48)
        logits = net(images)
        logits.sum().backward()
        torch.testing.assert_close(logits[:1], net(images[:1]), atol=1e-4, rtol=1e-4)
        assert torch.equal(logits, net.eval()(images))
        assert all(torch.equal(value, stored[key]) for key, value in net.named_buffers())
        assert len({tuple(row) for row in logits.tolist()}) == 3

    def test_it_may_be_trained_where_batch_statistics_may_not(self, name: str) -> None:
        net = source(name, classes=5)
        validate(net, [name for name, _ in net.named_parameters()])
        norm = next(path for path, layer in net.named_modules() if isinstance(layer, FrozenBatchNorm))
        net.set_submodule(norm, nn.BatchNorm2d(net.get_submodule(norm).num_features).eval())
        with pytest.raises(SordinoError, match=f"BatchNorm2d at '{norm}'"):
            validate(net, net.parts()["body"])


def test_per_example_gradients_are_booked_and_right() -> None:
    model = nn.Sequential(nn.Conv2d(2, 4, 3), FrozenBatchNorm(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 9, 3)).double()
    with_statistics(model)
    inputs, targets = torch.randn(5, 2, 5, 5, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    names = [name for name, _ in model.named_parameters()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = ClippedGradients(model).per_example(inputs, targets)
    expected = vmap_gradients(model, names, inputs, targets, loss=cross_entropy_per_example)
    torch.testing.assert_close(rows, torch.cat([expected[name].flatten(1) for name in names], dim=1))


def test_frozen_batchnorm_keeps_what_evaluation_mode_computes() -> None:
    shared = nn.BatchNorm1d(6, eps=0.1)
    model = nn.Sequential(nn.Linear(4, 6), shared, nn.ReLU(), shared, nn.BatchNorm1d(6, affine=True), nn.Linear(6, 2))
    with_statistics(model)
    inputs = torch.randn(7, 4)
    expected, keys = model.eval()(inputs), list(model.state_dict())
    frozen = frozen_batchnorm(model)
    assert frozen is model and list(frozen.state_dict()) == keys
    assert torch.equal(frozen.train()(inputs), expected)
    assert frozen[1] is frozen[3] and frozen[1].weight is shared.weight
    validate(Net(body=frozen[:-1], head=frozen[-1]), ["body.1.weight"])


def test_frozen_batchnorm_needs_statistics() -> None:
    with pytest.raises(SordinoError, match="'0' has no stored statistics"):
        frozen_batchnorm(nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False)))


PALACE, DAISY = 698, 985
PIXELS = {
    "mobilenet_v2": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "efficientnet_lite0": ((127 / 255,) * 3, (128 / 255,) * 3),
    "efficientnet_lite2": ((127 / 255,) * 3, (128 / 255,) * 3),
    "resnet50_v1": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
FILES = {name: f"{name}.safetensors" if name == "resnet50_v1" else f"{name}.pth" for name in PIXELS}
# fmt: off
TINY_CLASSES = (
    30, 50, 61, 71, 75, 79, 105, 109, 114, 122, 123, 146, 151, 207, 208, 281, 286, 308, 313, 319, 323, 325, 329, 349, 365,
    367, 372, 398, 400, 406, 411, 414, 425, 437, 440, 445, 447, 463, 470, 480, 492, 496, 508, 509, 525, 526, 532, 557, 570,
    573, 576, 604, 612, 614, 619, 645, 677, 678, 682, 683, 687, 716, 720, 731, 735, 739, 744, 747, 758, 761, 768, 774, 779,
    781, 806, 808, 815, 817, 821, 845, 849, 862, 879, 888, 910, 923, 924, 928, 929, 932, 935, 938, 945, 947, 951, 957, 970,
    972, 973, 975,
)
# fmt: on


def stored(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not (data_folder() / name).exists(), reason=f"{name} is not in the data folder")


REAL = [pytest.param(name, marks=stored(FILES[name])) for name in PIXELS]


def pretrained(name: str) -> SourceNet:
    net = source(name, side=224)
    path: Path = data_folder() / FILES[name]
    load_weights(net, read_weights(path), origin=str(path))
    return net


def prepared(image: Image.Image, name: str) -> Tensor:
    """The middle 224x224 pixels of the image with its shorter side at 256, normalised as in the weights' training."""
    ratio = 256 / min(image.size)
    image = image.convert("RGB").resize([round(side * ratio) for side in image.size], Image.Resampling.BICUBIC)
    left, top = ((side - 224) // 2 for side in image.size)
    pixels = np.array(image.crop((left, top, left + 224, top + 224)), dtype=np.float32) / 255
    mean, std = (np.array(constants, dtype=np.float32) for constants in PIXELS[name])
    return torch.from_numpy((pixels - mean) / std).permute(2, 0, 1)


@pytest.mark.parametrize("name", REAL)
def test_real_weights_see_a_palace_in_the_summer_palace(name: str) -> None:
    image = prepared(Image.fromarray(load_sample_image("china.jpg")), name)
    assert pretrained(name)(image[None]).argmax().item() == PALACE


@stored("efficientnet_lite0.pth")
def test_real_weights_see_a_daisy_in_the_nearest_flower_of_imagenet() -> None:
    image = prepared(Image.fromarray(load_sample_image("flower.jpg")), "efficientnet_lite0")
    assert pretrained("efficientnet_lite0")(image[None]).argmax().item() == DAISY


@stored("tinyimagenet100.npz")
@pytest.mark.parametrize("name", REAL)
def test_real_weights_are_far_above_chance_on_tiny_imagenet(name: str) -> None:
    net, per_class = pretrained(name), 50
    with np.load(data_folder() / "tinyimagenet100.npz") as archive:
        jpegs, offsets, labels = (archive[key] for key in ("test_bytes", "test_off", "y_test"))
    rows = range(0, len(labels), 2 * per_class)
    right = 0
    with torch.no_grad():
        for row in rows:
            image = Image.open(io.BytesIO(jpegs[offsets[row] : offsets[row + 1]].tobytes()))
            logits = net(prepared(image, name)[None])[0, list(TINY_CLASSES)]
            right += int(logits.argmax().item() == labels[row])
    chance = 1 / len(TINY_CLASSES)
    assert right / len(rows) > 20 * chance
