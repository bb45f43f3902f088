"""Attacks get what they should where nothing defends, and nothing that ε does not allow where something does."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from sordino.audit.attacks.inversion import Seen, gradient_of, guessed_labels, invert
from sordino.audit.attacks.membership import twice
from sordino.audit.attacks.quality import LARGEST_PSNR, matched, psnr, ssim
from sordino.audit.attacks.roc import Roc
from sordino.audit.attacks.shadows import Shadows
from sordino.audit.trade_off import gaussian_curve
from sordino.cli import app
from sordino.models import FlatSpace, Net


def small(classes=4):
    torch.manual_seed(3)
    return Net(body=nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.Sigmoid()), head=nn.Linear(24, classes))


def seen_of(net, images, labels, noise=0.0):
    space = FlatSpace(net)
    gradient = gradient_of(net, space, space.read(net), images, labels).detach()
    gradient = gradient + noise * torch.randn(gradient.shape, generator=torch.Generator().manual_seed(1))
    return Seen(
        net=net, space=space, model=space.read(net), gradient=gradient, rows=len(images), shape=(1, 6, 6), classes=4
    )


def images_of(count):
    return torch.rand((count, 1, 6, 6), generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("attack", ["dlg", "idlg", "analytic"])
def test_one_image_is_found_without_a_defence_and_not_behind_noise(attack):
    images, labels, generator = images_of(1), torch.tensor([2]), torch.Generator().manual_seed(5)
    bare = invert(seen_of(small(), images, labels), attack, iterations=90, generator=generator)
    assert psnr(images[0], bare[0]) > 40
    noisy = invert(seen_of(small(), images, labels, noise=1.0), attack, iterations=30, generator=generator)
    assert psnr(images[0], noisy[0].clamp(0, 1)) < 15


def test_the_cosine_attack_finds_the_image_by_direction_alone():
    images, labels = images_of(1), torch.tensor([1])
    seen = seen_of(small(), images, labels)
    seen = Seen(seen.net, seen.space, seen.model, 1e-3 * seen.gradient, 1, seen.shape, 4)
    found = invert(seen, "cosine", iterations=250, generator=torch.Generator().manual_seed(2))
    assert psnr(images[0], found[0].clamp(0, 1)) > 20


def test_attacks_that_do_not_apply_say_so():
    images, labels = images_of(2), torch.tensor([0, 3])
    generator = torch.Generator().manual_seed(1)
    assert invert(seen_of(small(), images, labels), "idlg", iterations=10, generator=generator) is None
    conv = Net(body=nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten()), head=nn.Linear(32, 4))
    assert invert(seen_of(conv, images, labels), "analytic", iterations=10, generator=generator) is None
    assert (
        invert(seen_of(small(), images, labels), "analytic", iterations=10, generator=generator).shape == images.shape
    )


def test_labels_are_read_off_the_last_layer():
    for label in range(4):
        assert int(guessed_labels(seen_of(small(), images_of(1), torch.tensor([label]))).argmax()) == label


def test_likeness_of_images():
    images = images_of(3)
    assert psnr(images[0], images[0]) == LARGEST_PSNR
    assert ssim(images[0], images[0]) == pytest.approx(1.0)
    assert psnr(images[0], images[0] + 0.1) == pytest.approx(20.0, abs=0.01)
    assert ssim(images[0], images[1]) < 0.5
    assert torch.equal(matched(images, images[[2, 0, 1]]), images)


def test_members_that_are_told_apart_exactly_as_allowed_do_not_pass_the_bound_and_better_ones_do():
    rng, allowed = np.random.default_rng(1), gaussian_curve(1.0)
    others = rng.standard_normal(4000)
    fair, unfair = (Roc(rng.standard_normal(4000) + shift, others) for shift in (1.0, 2.5))
    assert fair.to_json(allowed)["holds"] and not unfair.to_json(allowed)["holds"]
    assert fair.auc == pytest.approx(0.76, abs=0.02)
    assert Roc(others[:100], others[100:150]).found(0.001) is None


def test_two_steps_of_a_promise_allow_what_twice_the_shift_allows():
    double, plain = twice(gaussian_curve(1.0)), gaussian_curve(2.0)
    for rate in (0.001, 0.01, 0.2):
        assert double.found(rate) == pytest.approx(plain.found(rate), abs=1e-3)


def test_lira_scores_rows_by_models_that_knew_them_and_models_that_did_not():
    rng = np.random.default_rng(2)
    inside = rng.random((32, 200)) < 0.5
    hardness = rng.standard_normal(200) * 5
    shadows = Shadows(inside, hardness + 2.0 * inside + 0.1 * rng.standard_normal(inside.shape))
    member = np.arange(200) < 100
    scores = shadows.scores(hardness + 2.0 * member)
    assert scores[member].min() > scores[~member].max()


def test_the_command_attacks_a_run_and_keeps_its_findings_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(
        'rounds = 2\nmodel = { name = "mlp", hidden = [8] }\nmethod = { name = "dp-fedavg", full_batch = true }\n'
        'data = { source = "digits", clients = 20, test = "public-split" }\n'
        'privacy = { epsilon = 2.0, delta = 1e-3, noise = "distributed", expected_cohort = 10 }\n'
    )
    command = ["attack", "small.toml", "--batch", "1", "--iterations", "20", "--shadows", "4", "--epochs", "2"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "not realistic" in done.output and "TPR at 1 %" in done.output
    found = json.loads((tmp_path / "attacks" / "small" / "attack.json").read_text())
    assert {one["defence"] for one in found["inversion"]} == {"none", "public view", "server view", "client view"}
    assert {one["attack"] for one in found["membership"]} == {"loss", "lira", "user"} and found["holds"]
    assert (tmp_path / "attacks" / "small" / found["picture"]).read_bytes().startswith(b"\x89PNG")
    again = CliRunner().invoke(app, ["attack", "attacks/small/run", "--no-inversion", "--shadows", "0", "--json"])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "attacks" / "small" / "run" / "attack.json").exists()
    refused = CliRunner().invoke(app, ["attack", "small.toml", "--batch", "9"])
    assert refused.exit_code != 0
