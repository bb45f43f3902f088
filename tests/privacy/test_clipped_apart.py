"""Groups of parameters that are clipped apart: what one example moves, what noise is drawn, what is charged."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from sordino.core import Private, Released
from sordino.data.examples import IDENTITY, Examples
from sordino.engine.client.noisy_steps import PoissonSteps
from sordino.engine.pricing import make_tariff
from sordino.engine.resolved import resolve
from sordino.experiment import experiment
from sordino.gradients import ClippedGradients
from sordino.methods.dp_sgd import DpSgd
from sordino.methods.method import ClientContext
from sordino.models import FlatSpace, Net
from sordino.privacy.accounting import spent
from sordino.privacy.clipping import Clip, bound_clipped
from sordino.privacy.door import Door
from sordino.privacy.ledger import Ledger, Line
from sordino.privacy.mechanisms import MECHANISMS, Gaussian
from sordino.privacy.noise import SeededNoise
from sordino.privacy.pricing import price_local_steps

GROUPS = {"body": ("body.weight", "body.bias"), "head": ("head.weight", "head.bias")}
CLIP = Clip(bound=0.25, norm="l2", groups=GROUPS)


@pytest.mark.parametrize(("groups", "expected"), [(0, 0.862), (2, 2.311)])
def test_clips_apart_cost_what_the_joint_event_costs(groups, expected):
    price = price_local_steps(
        mechanism=MECHANISMS["gaussian"](), noise_multiplier=1.1, rate=768 / 50_000, steps=1, clip_groups=groups
    )
    bill = {price.in_view("public").event: 100}
    assert spent(bill, delta=1e-5, neighbours="zero-out", precise=True).epsilon == pytest.approx(expected, abs=2e-3)
    assert ("clipped apart" in price.in_view("public").because) == (groups == 2)


def test_laplace_moves_by_the_sum_of_the_bounds():
    assert Clip(bound=0.5, norm="l1", groups=GROUPS).sensitivity == 1.0
    assert Clip(bound=0.5, norm="l2", groups=GROUPS).sensitivity == pytest.approx(0.5 * math.sqrt(2))
    assert Clip(bound=0.5, norm="l2").sensitivity == 0.5


def net_and_rows(count=1):
    torch.manual_seed(0)
    rows = Examples(
        inputs=100 * torch.randn(count, 6), labels=torch.zeros(count, dtype=torch.int64), normalisation=IDENTITY
    )
    return Net(body=nn.Linear(6, 5), head=nn.Linear(5, 3)), rows


def test_one_example_moves_each_group_by_its_bound_and_the_sum_by_what_is_sealed():
    net, rows = net_and_rows()
    found = ClippedGradients(net, groups=GROUPS).sum(rows.inputs, rows.labels, clip_norm=CLIP.bound)
    total, sealed = found.total, bound_clipped(Private(found), CLIP, units=1)
    split = FlatSpace(net).offsets[2]
    assert [float(part.norm()) for part in (total[:split], total[split:])] == pytest.approx([0.25, 0.25], rel=1e-4)
    assert float(total.norm()) <= sealed.bound == CLIP.sensitivity


def test_noise_on_every_coordinate_is_the_multiplier_times_the_bound_of_its_group():
    noise_multiplier, steps = 1.5, 300
    net, rows = net_and_rows()
    space = FlatSpace(net)
    price = price_local_steps(
        mechanism=MECHANISMS["gaussian"](), noise_multiplier=noise_multiplier, rate=1.0, steps=steps, clip_groups=2
    )
    line = Line(
        round=0,
        label="steps",
        unit="example",
        owner="client 0",
        mechanism="gaussian",
        norm="l2",
        clip_bound=CLIP.sensitivity,
        noise_multiplier=price.noise_multiplier,
        releases=steps,
        participants=(0,),
        charges=price.charges,
    )
    source = SeededNoise(3)
    permit = Door(Ledger(clients=1, delta=1e-5, neighbours="zero-out"), source).open(line)
    seen = []
    release = permit.release
    permit.release = lambda value: seen.append(release(value)) or seen[-1]
    method = DpSgd(local_steps=steps, batch_size=1, learning_rate=1e-9)
    context = ClientContext(net=net, space=space, client=0, round=0, size=1, seed=1, device=torch.device("cpu"))
    noisy_steps = PoissonSteps(
        Private(rows), context, mechanism=Gaussian(), permit=permit, clip=CLIP, rate=1.0, coins=source, chunk=None
    )
    method.run(Released.public(space.read(net)), context.public(), release=noisy_steps)
    spread = torch.stack([one.value for one in seen]).std(dim=0)
    expected = noise_multiplier * CLIP.bound
    assert float(spread.mean()) == pytest.approx(expected, rel=0.03)
    assert expected * 0.8 < float(spread.min()) and float(spread.max()) < expected * 1.2


def test_a_target_epsilon_is_met_with_more_noise_when_clipped_apart():
    table = {
        "rounds": 20,
        "data": {"source": "digits", "clients": 3},
        "model": {"name": "cnn"},
        "tuning": {"name": "reprogram", "frame": 16, "image": 12, "source_classes": 10},
        "start": "scratch",
        "method": {"name": "dp-sgd", "batch_size": 64},
        "privacy": {"epsilon": 2.0},
    }
    apart = {**table, "tuning": {**table["tuning"], "clip": "separate"}}
    joint, separate = (
        make_tariff(
            dataclasses.replace(resolve(experiment(one)), method=DpSgd(batch_size=64)), clients=3, sizes=[500] * 3
        )
        for one in (table, apart)
    )
    assert separate.noise_multiplier == pytest.approx(joint.noise_multiplier * math.sqrt(2), rel=1e-3)
    assert separate.price(0, 0).noise_multiplier == pytest.approx(joint.price(0, 0).noise_multiplier, rel=1e-3)
