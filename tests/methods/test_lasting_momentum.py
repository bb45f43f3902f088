"""Momentum that survives rounds: the same steps whether a run is cut into many short turns or few long ones."""

import pytest
import torch
from safetensors.torch import load_file

import sordino
from sordino.core import Released, SordinoError
from sordino.methods.context import PublicContext
from sordino.methods.noisy_sgd import LastingNoisySgd, NoisySgd


class Slopes:
    """Noisy sums of a quadratic, without noise."""

    expected_batch = 1.0

    def noisy_sum(self, model, *, only=None):
        return model - 3.0


def context(number):
    return PublicContext(space=None, client=0, round=number, size=1, seed=0, device=torch.device("cpu"))


def test_turns_that_keep_their_velocity_are_one_long_turn():
    start, settings = Released.public(torch.tensor([0.0, 10.0])), {"learning_rate": 0.1, "momentum": 0.9}
    whole = NoisySgd(local_steps=12, **settings).run(start, context(0), release=Slopes())
    model, kept = start, Released.public(torch.empty(0))
    for number in range(4):
        turn = LastingNoisySgd(local_steps=3, **settings).noisy_turn(model, kept, context(number), release=Slopes())
        model, kept = turn.model, turn.personal
    torch.testing.assert_close(model.value, whole.value)
    rested = start
    for number in range(4):
        rested = NoisySgd(local_steps=3, **settings).run(rested, context(number), release=Slopes())
    assert not torch.allclose(rested.value, whole.value, atol=0.1)


@pytest.mark.parametrize("weight_decay", [0.0, 0.03])
def test_steps_are_the_heavy_ball_to_the_bit_and_leave_what_they_were_given(weight_decay):
    job = NoisySgd(local_steps=7, learning_rate=0.13, momentum=0.7, weight_decay=weight_decay)
    start, velocity = torch.randn(2, 50, generator=torch.Generator().manual_seed(0))
    given = start.clone(), velocity.clone()
    model, speed = job.descend(start, velocity, context(0), Slopes())
    right, pace = given[0], given[1]
    for _ in range(7):
        pace = 0.7 * pace + (right - 3.0 + weight_decay * right)
        right = right - 0.13 * pace
    assert torch.equal(model, right) and torch.equal(speed, pace)
    assert torch.equal(start, given[0]) and torch.equal(velocity, given[1])


def test_one_place_goes_on_with_its_velocity_and_survives_a_restart(tiny, tmp_path):
    method = {"name": "dp-sgd", "where": "one-place", "local_steps": 2, "batch_size": 50, "learning_rate": 0.1}
    models = {}
    for lasting in (False, True):
        table = tiny(rounds=3, method={**method, "momentum": 0.9, "lasting_momentum": lasting})
        sordino.run(table, out=tmp_path / str(lasting))
        models[lasting] = load_file(tmp_path / str(lasting) / "model.safetensors")
    assert any(not torch.equal(models[True][key], models[False][key]) for key in models[True])


@pytest.mark.parametrize("settings", [{"momentum": 0.0, "local_steps": 5}, {"momentum": 0.9, "local_steps": 1}])
def test_nothing_to_keep_is_refused(settings, tiny):
    with pytest.raises(SordinoError, match="nothing is left to keep"):
        sordino.plan(tiny(method={"name": "dp-sgd", "batch_size": 5, "lasting_momentum": True, **settings}))
