"""Reprogramming: what is trained, what stays as it was, and what is refused."""

import warnings

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import sordino
from sordino.core import SordinoError
from sordino.engine.resolved import resolve
from sordino.engine.setup import prepare
from sordino.experiment import experiment
from sordino.gradients import ClippedGradients, cross_entropy_per_example
from sordino.gradients.fallback import vmap_gradients
from sordino.models import FlatSpace, Net, build, validate
from sordino.models.reprogrammed import BORDER, Border, Reprogrammed
from sordino.tuning import Task
from sordino.tuning.head import Head
from sordino.tuning.reprogram import Reprogram


class Mean(nn.Module):
    """Colours of the whole image, for a source without a size."""

    def forward(self, images):
        return images.mean(dim=(2, 3))


def thousand_classes():
    return Net(body=Mean(), head=nn.Linear(3, 1000))


def small(*, relu=False, frame=9, image=6, source=None, seed=1):
    source = source or build("cnn", shape=(3, frame, frame), classes=7, seed=2, features=5)
    return Reprogrammed(source, channels=3, frame=frame, image=image, source_classes=7, classes=4, relu=relu, seed=seed)


@pytest.mark.parametrize(("classes", "expected"), [(10, 160_538), (37, 187_565), (8, 158_536)])
def test_trained_parameters_are_those_of_the_paper(classes, expected):
    tuning, task = Reprogram(), Task(shape=(3, 32, 32), classes=classes)
    assert tuning.source_task(task) == Task(shape=(3, 224, 224), classes=1000)
    net = tuning.wrap(thousand_classes(), task, seed=0)
    assert FlatSpace(net, tuning.trainable(net)).size == expected
    assert "150,528 entries, of which 30,528 are live" in tuning.plan_facts(net)["border"]
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, classes)


def test_a_random_border_is_drawn_with_the_seed_and_changes_nothing_else():
    task = Task(shape=(3, 8, 8), classes=4)
    made = {}
    for border, seed in (("zeros", 1), ("random", 1), ("random", 2)):
        tuning = Reprogram(frame=12, image=8, border=border)
        made[border, seed] = dict(tuning.wrap(thousand_classes(), task, seed=seed).named_parameters())
    assert not made["zeros", 1][BORDER].any()
    assert 0.8 < made["random", 1][BORDER].std() < 1.2
    assert not torch.equal(made["random", 1][BORDER], made["random", 2][BORDER])
    assert torch.equal(made["zeros", 1]["head.weight"], made["random", 1]["head.weight"])
    with pytest.raises(SordinoError, match="border should be"):
        resolve(
            experiment(
                {
                    "start": "scratch",
                    "rounds": 1,
                    "data": {"source": "digits"},
                    "model": "logistic",
                    "method": "dp-sgd",
                    "tuning": {"name": "reprogram", "border": "blue"},
                }
            )
        )


def test_partial_tuning_of_a_source_with_2048_features_trains_20490():
    net = build("resnet50", shape=(3, 32, 32), classes=10)
    assert FlatSpace(net, Head().trainable(net)).size == 20_490


class TestBorder:
    def test_the_image_is_in_the_middle_and_untouched_and_the_border_is_the_tanh(self):
        border = Border(channels=3, frame=9, image=6)
        nn.init.normal_(border.values)
        images = torch.randn(2, 3, 6, 6)
        framed = border(images)
        assert torch.equal(framed[:, :, 1:7, 1:7], images)
        framed[:, :, 1:7, 1:7] = 0
        around = torch.tanh(border.values).detach()
        around[:, 1:7, 1:7] = 0
        assert torch.equal(framed.detach(), around.expand(2, -1, -1, -1))
        assert len(border.live) == 3 * (81 - 36)

    @pytest.mark.parametrize("side", [3, 12])
    def test_images_of_another_size_are_resized(self, side):
        framed = Border(channels=3, frame=9, image=6)(torch.ones(1, 3, side, side))
        torch.testing.assert_close(framed.sum(), torch.tensor(3.0 * 36))

    @pytest.mark.parametrize("relu", [False, True])
    @pytest.mark.parametrize("image", [6, 9])
    def test_gradients_are_booked_and_right(self, relu, image):
        net = small(relu=relu, image=image).double()
        nn.init.normal_(net.body.border.values)
        names = Reprogram(frame=9, image=image).trainable(net)
        inputs, targets = torch.randn(5, 3, 6, 6, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            clipped = ClippedGradients(net, trainable=names)
            rows = clipped.per_example(inputs, targets)
        expected = vmap_gradients(net, names, inputs, targets, loss=cross_entropy_per_example)
        expected = torch.cat([expected[name].flatten(1) for name in clipped.trainable], dim=1)
        torch.testing.assert_close(rows, expected)
        factors = (0.1 / expected.norm(dim=1)).clamp(max=1)
        torch.testing.assert_close(clipped.sum(inputs, targets, clip_norm=0.1).total, factors @ expected)


class Allocations(TorchDispatchMode):
    """Counts the bytes of every tensor that any operation gives back."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        own = {value.untyped_storage().data_ptr() for value in args if isinstance(value, torch.Tensor)}
        for value in result if isinstance(result, tuple | list) else [result]:
            if isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() not in own:
                self.bytes += value.numel() * value.element_size()
        return result


def bytes_of_a_step(net, names):
    clipped = ClippedGradients(net, trainable=names)
    inputs, targets = torch.randn(4, 3, 6, 6), torch.tensor([0, 1, 2, 3])
    clipped.sum(inputs, targets, clip_norm=1.0)
    with Allocations() as made:
        clipped.sum(inputs, targets, clip_norm=1.0)
    return made.bytes


class TestTheSource:
    def test_no_gradient_of_it_is_made_for_any_example_or_all(self):
        wide = Net(body=nn.Sequential(nn.Flatten(), nn.Linear(243, 2000)), head=nn.Linear(2000, 7))
        net = small(source=wide)
        one_copy = 4 * sum(parameter.numel() for parameter in wide.parameters())
        trained = bytes_of_a_step(net, Reprogram(frame=9, image=6).trainable(net))
        assert trained < one_copy
        assert bytes_of_a_step(net, [name for name, _ in net.named_parameters()]) > one_copy

    @pytest.mark.parametrize("method", ["dp-sgd", "dp-fedavg", "fedavg"])
    def test_it_is_bit_identical_after_training(self, method, tiny, tmp_path):
        table = reprogrammed(tiny, method=method)
        before = prepare(
            resolve(experiment(table)), folder=tmp_path, progress=lambda done, total: None
        ).whole.state_dict()
        sordino.run(table, out=tmp_path / "run")
        after = load_file(tmp_path / "run" / "model.safetensors")
        source = [key for key in after if key.startswith("body.source.")]
        assert source and all(torch.equal(before[key], after[key]) for key in source)
        assert not torch.equal(before[BORDER], after[BORDER])
        assert not torch.equal(before["head.weight"], after["head.weight"])

    def test_it_stays_in_evaluation_mode_and_may_hold_batch_statistics(self):
        body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten())
        net = small(source=Net(body=body, head=nn.Linear(4 * 49, 7))).train()
        assert net.training and not any(module.training for module in net.body.source.modules())
        names = Reprogram().trainable(net)
        validate(net, names)
        stored = body[1].running_mean.clone()
        inputs, targets = torch.randn(4, 3, 6, 6), torch.zeros(4, dtype=torch.int64)
        ClippedGradients(net, trainable=names).sum(inputs, targets, clip_norm=1.0)
        assert torch.equal(body[1].running_mean, stored)
        torch.testing.assert_close(net(inputs)[:1], net(inputs[:1]))
        with pytest.raises(SordinoError, match=r"BatchNorm2d at 'body\.source"):
            validate(net, [*names, *net.parts()["body.source"]])

    def test_the_same_seed_gives_the_same_map(self):
        first, again, other = (small(seed=seed).head.weight for seed in (1, 1, 2))
        assert torch.equal(first, again) and not torch.equal(first, other)


def reprogrammed(tiny, *, method="dp-sgd", tuning=None, **changes):
    """Handwritten digits as colour images, for a source of ten classes trained on public ones for a moment."""
    return tiny(
        rounds=2,
        data={"clients": 3, "partition": {"name": "iid"}, "options": changes.pop("options", {"channels": 3})},
        model=changes.pop("model", {"name": "cnn", "features": 8}),
        start={"name": "standard", "epochs": 1, "data": {"source": "mnist5k", "visibility": "public", "limit": 64}},
        tuning={"name": "reprogram", "frame": 12, "image": 10, "source_classes": 10, **(tuning or {})},
        method={"name": method, "batch_size": 32},
        privacy={"expected_cohort": 3, "sampler": "everyone"},
        **changes,
    )


MOBILE = {"model": {"name": "mobilenet_v2"}}


def own_source(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(shape).numel(), classes))


def test_a_source_from_the_users_own_code_is_built_for_its_own_task(tiny, tmp_path):
    table = reprogrammed(tiny, model={"name": f"{__name__}:own_source"})
    table["start"] = {"name": "scratch"}
    summary = sordino.run(table, out=tmp_path / "run")
    assert summary["trained_parameters"] == 3 * 12 * 12 + 10 * 10 + 10
    assert summary["parameters"] == summary["trained_parameters"] + 3 * 12 * 12 * 10 + 10
    assert "of which 132 are live" in summary["tuning_facts"]["border"]


BAD = {
    "a image larger than the source's frame": ({"image": 13}, {}, "frame must be at least as large as image"),
    "fewer source than target classes": ({"source_classes": 9}, {}, "has 9 and the data 10"),
    "a frame too small for the source": ({}, MOBILE, "at least 32x32 pixels"),
    "a grey image for a colour source": ({"frame": 32}, {**MOBILE, "options": {"channels": 1}}, "channels = 3"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(case, tiny, tmp_path):
    tuning, changes, sentence = BAD[case]
    table = reprogrammed(tiny, tuning=tuning, **changes)
    with pytest.raises(SordinoError, match=sentence) as caught:
        sordino.run(table, out=tmp_path / "run")
    assert str(caught.value).count(". ") == 0
    assert not (tmp_path / "run").exists()


def test_rows_of_numbers_are_refused():
    with pytest.raises(SordinoError, match="needs images, but the data have shape 30"):
        Reprogram().source_task(Task(shape=(30,), classes=2))


def test_weights_of_another_model_name_the_first_wrong_key(tiny, tmp_path):
    torch.save(build("cnn", shape=(3, 12, 12), classes=7, features=8).state_dict(), tmp_path / "other.pth")
    table = reprogrammed(tiny)
    table["start"] = {"name": "file", "path": str(tmp_path / "other.pth")}
    with pytest.raises(SordinoError, match=r"'head.weight' of shape \(7, 8\), but this model needs \(10, 8\)"):
        sordino.run(table, out=tmp_path / "run")


def test_clips_apart_are_refused_where_whole_updates_are_clipped(tiny, tmp_path):
    table = reprogrammed(tiny, method="dp-fedavg", tuning={"clip": "separate"})
    with pytest.raises(SordinoError, match=r"clips whole updates.*clip = 'joint'"):
        sordino.run(table, out=tmp_path / "run")
