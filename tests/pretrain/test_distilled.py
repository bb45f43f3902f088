"""A pupil of public images: what it learns, that it is taught once, and what is refused."""

import numpy as np
import pytest
import torch
from pretraining import context
from safetensors.torch import save_file

from sordino.core import SordinoError
from sordino.data.examples import Examples, Normalisation
from sordino.models import build
from sordino.pretrain.crops import coarse, random_crops
from sordino.pretrain.distillation import Lessons, Sides, Teaching
from sordino.pretrain.distilled import Distilled
from sordino.pretrain.projection import fit_projection
from sordino.pretrain.store import Store

MODEL = {"name": "prepared", "source": "cnn", "side": 16, "components": 6}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a public set of coloured stripes, the source model's weights, and a store of its own."""
    monkeypatch.setenv("SORDINO_PRETRAINED", str(tmp_path / "store"))
    rng = np.random.default_rng(1)
    images = np.repeat(rng.integers(0, 256, (60, 16, 1, 3), dtype=np.uint8), 16, axis=2)
    np.savez(tmp_path / "stripes.npz", x_train=images, y_train=np.arange(60) % 3)
    save_file(build("cnn", shape=(3, 16, 16), classes=5, seed=7).state_dict(), tmp_path / "source.safetensors")
    return tmp_path


def start(place, **changes):
    data = {"source": str(place / "stripes.npz"), "visibility": "public"}
    settings = {
        "data": data,
        "path": "source.safetensors",
        "source_classes": 5,
        "teacher_side": 16,
        "epochs": 2,
        "images": 40,
        "batch_size": 10,
        "projection_images": 30,
    }
    return Distilled(**{**settings, **changes})


def prepared(place, first, model=MODEL, **changes):
    net = build(shape=(3, 8, 8), classes=4, seed=1, **model)
    steps = []
    given = {"shape": (3, 8, 8), "classes": 4, "folder": place, "model": model, **changes}
    first.prepare(net, context(progress=lambda done, total: steps.append((done, total)), **given))
    return net, steps


def flat(module):
    return torch.cat([one.flatten() for one in module.parameters()])


def test_the_body_is_taught_and_projected_once_for_all_seeds(place):
    net, steps = prepared(place, start(place))
    assert steps[:8] == [(step, 8) for step in range(1, 9)]
    untaught = build("cnn", shape=(3, 16, 16), classes=5, seed=7).body
    assert not any(torch.equal(a, b) for a, b in zip(net.body.source.parameters(), untaught.parameters(), strict=True))
    again, steps_again = prepared(place, start(place), seed=99)
    assert steps_again == []
    assert all(
        torch.equal(a, b) for a, b in zip(net.body.state_dict().values(), again.body.state_dict().values(), strict=True)
    )


def test_another_projection_needs_no_new_lessons(place):
    net, _ = prepared(place, start(place))
    other, steps = prepared(place, start(place, shrinkage=0.9))
    assert steps == [(30, 30)]
    assert torch.equal(net.body.source[0].weight, other.body.source[0].weight)
    assert not torch.equal(net.body.directions, other.body.directions)


def lessons(examples, epochs, **changes):
    teacher = build("cnn", shape=(3, 16, 16), classes=5, seed=7)
    pupil = build("cnn", shape=(3, 16, 16), classes=5, seed=7).body
    teaching = Teaching(data={}, epochs=epochs, images=32, batch_size=16, learning_rate=1e-3, **changes)
    return pupil, Lessons(
        teaching, teacher, pupil, examples, Sides(private=4, pupil=16, teacher=16), torch.device("cpu")
    )


def noise_images(labels=None):
    inputs = torch.randint(256, (64, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(5))
    labels = torch.zeros(64, dtype=torch.int64) if labels is None else labels
    return Examples(inputs=inputs, labels=labels, normalisation=Normalisation())


def test_the_pupil_comes_to_answer_as_its_teacher(place):
    _, school = lessons(noise_images(), epochs=20)
    rows, draw = torch.arange(64), torch.Generator()
    before = school._loss(rows, draw.manual_seed(3)).item()
    school.run(Store("lessons"), lambda done, total: None)
    assert school._loss(rows, draw.manual_seed(3)).item() < before / 2


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_public_labels_teach_as_much_as_they_are_given_weight(place, weight):
    pupils = []
    for number, labels in enumerate((torch.arange(64) % 4, torch.arange(64) // 16)):
        pupil, school = lessons(noise_images(labels), epochs=2, label_weight=weight)
        school.run(Store(f"{weight} {number}"), lambda done, total: None)
        pupils.append(flat(pupil))
    assert torch.equal(*pupils) == (weight == 0)


def test_lessons_may_have_another_side_than_the_model(place):
    model = {**MODEL, "source": "resnet20"}
    save_file(build("resnet20", shape=(3, 16, 16), classes=5, seed=7).state_dict(), place / "resnet20.safetensors")
    own, as_own, other = (
        flat(prepared(place, start(place, path="resnet20.safetensors", lesson_side=side), model=model)[0].body.source)
        for side in (None, MODEL["side"], 12)
    )
    assert torch.equal(own, as_own)
    assert not torch.equal(own, other)


def test_interrupted_lessons_go_on_to_the_same_pupil(place, monkeypatch):
    monkeypatch.setattr("sordino.pretrain.distillation.CHECKPOINT_SECONDS", 0.0)
    whole, school = lessons(noise_images(), epochs=3)
    school.run(Store("whole"), lambda done, total: None)

    def cut(done, total):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lessons(noise_images(), epochs=3)[1].run(Store("cut"), cut)
    resumed, school = lessons(noise_images(), epochs=3)
    school.run(Store("cut"), lambda done, total: None)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))


def test_public_features_spread_alike_after_their_projection():
    features = torch.randn(4000, 6) @ torch.diag(torch.tensor([9.0, 5, 3, 1, 0.5, 0.1])) + 3
    mean, directions = fit_projection(features, 4, shrinkage=0.0)
    assert torch.allclose(((features - mean) @ directions).T.cov(), torch.eye(4), atol=1e-2)
    _, shrunk = fit_projection(features, 4, shrinkage=1.0)
    assert (shrunk.norm(dim=0) < directions.norm(dim=0)).all()


def test_too_few_public_images_for_a_projection_are_refused():
    with pytest.raises(SordinoError, match="more public images"):
        fit_projection(torch.randn(6, 8), 6, shrinkage=0.1)


def test_crops_are_pieces_of_their_images_or_of_the_mirror_images():
    images = torch.arange(3 * 64).view(1, 3, 8, 8).to(torch.uint8)
    for seed in range(20):
        crop = random_crops(images, smallest=0.5, generator=torch.Generator().manual_seed(seed))[0, 0].int()
        assert 4 <= crop.shape[0] == crop.shape[1] <= 8
        assert (crop[1:] - crop[:-1] == 8).all()
        assert ((crop[:, 1:] - crop[:, :-1]).abs() == 1).all()


def test_coarse_images_are_means_of_whole_grey_levels():
    assert coarse(torch.full((2, 3, 8, 8), 200, dtype=torch.uint8), 4).unique().tolist() == [200]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"data": {"source": "digits", "visibility": "public"}}, "3 channels"),
        ({"data": {"source": "digits", "visibility": "private"}}, "marked public"),
        ({"path": "none.pth"}, "weights file was expected"),
        ({"source_classes": 4}, "shape"),
        ({"lesson_side": 12}, "other weights for images of side 12"),
        ({"teacher_side": 20}, "other weights for images of side 20"),
    ],
)
def test_what_cannot_teach_is_refused(place, changes, sentence):
    with pytest.raises(SordinoError, match=sentence):
        prepared(place, start(place, **changes))


def test_another_model_is_refused(place):
    with pytest.raises(SordinoError, match="'prepared'"):
        start(place).prepare(build("cnn", shape=(3, 8, 8), classes=4), context(shape=(3, 8, 8), folder=place))
