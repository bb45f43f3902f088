"""An own loop made private: the noise that is paid for, an ε that counts every step, and what it refuses."""

import dp_accounting
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sordino

ROWS = 200
INPUTS = torch.randn(ROWS, 5, generator=torch.Generator().manual_seed(1))
DATA = TensorDataset(INPUTS, (INPUTS[:, 0] > 0).long())


def loop(**changes):
    model = nn.Linear(5, 2)
    nn.init.zeros_(model.weight), nn.init.zeros_(model.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=changes.pop("lr", 0.5))
    settings = {"epsilon": 8.0, "delta": 1e-3, "epochs": 4, "seed": 7, **changes}
    return model, sordino.make_private(model, optimizer, DataLoader(DATA, batch_size=50), **settings)


def test_an_own_loop_learns_within_its_budget():
    model, private = loop(clip_norm=0.5, epochs=20, lr=2.0)
    for _ in range(20):
        for inputs, targets in private:
            private.step(inputs, targets)
    assert 7.8 < private.epsilon <= 8.0
    assert ((model(INPUTS).argmax(1) == DATA.tensors[1]).float().mean()) > 0.85
    with pytest.raises(sordino.SordinoError, match="80 steps that ε was planned for are taken"):
        for inputs, targets in private:
            private.step(inputs, targets)


def test_the_noise_is_that_which_is_paid_for():
    """Inputs of zero leave weights to noise alone: its deviation, from both sides."""
    model = nn.Linear(4000, 2, bias=False)
    nn.init.zeros_(model.weight)
    data = TensorDataset(torch.zeros(20, 4000), torch.zeros(20, dtype=torch.int64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    private = sordino.make_private(model, optimizer, data, batch_size=20, noise=1.5, clip_norm=2.0)
    for inputs, targets in private:
        private.step(inputs, targets)
    deviation = float(model.weight.detach().std()) * 20
    assert deviation == pytest.approx(1.5 * 2.0, rel=0.03)
    assert private.epsilon == sordino.Accountant().add_step(noise_multiplier=1.5).epsilon(delta=1e-5)


def test_one_example_moves_a_sum_by_the_clip_norm_at_most():
    large = TensorDataset(torch.full((1, 5), 1e4), torch.zeros(1, dtype=torch.int64))
    model = nn.Linear(5, 2)
    nn.init.zeros_(model.weight)
    before = torch.cat([one.detach().flatten().clone() for one in model.parameters()])
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    private = sordino.make_private(model, optimizer, large, batch_size=1, noise=1e-9, clip_norm=0.25)
    for inputs, targets in private:
        private.step(inputs, targets)
    after = torch.cat([one.detach().flatten() for one in model.parameters()])
    assert float((after - before).norm()) == pytest.approx(0.25, rel=1e-3)


def test_batches_are_the_coins_choice_alone():
    _, private = loop()
    with pytest.raises(sordino.SordinoError, match="one was passed over"):
        for _ in private:
            pass
    _, private = loop()
    inputs, targets = next(iter(private))
    with pytest.raises(sordino.SordinoError, match="takes the batch that the loop has just given out"):
        private.step(inputs[1:], targets[1:])
    private.step(inputs, targets)
    with pytest.raises(sordino.SordinoError, match="once, but got another"):
        private.step(inputs, targets)


def test_a_loop_that_cannot_be_private_is_refused():
    model = nn.Linear(5, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(sordino.SordinoError, match=r"needs epsilon .* or noise, but got both or neither"):
        sordino.make_private(model, optimizer, DATA, batch_size=5)
    with pytest.raises(sordino.SordinoError, match="needs batch_size"):
        sordino.make_private(model, optimizer, DATA, epsilon=1.0)
    with pytest.raises(sordino.SordinoError, match="parameters of the model and no others"):
        sordino.make_private(nn.Linear(5, 2), optimizer, DATA, epsilon=1.0, batch_size=5)
    batch_norm = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    private = sordino.make_private(
        batch_norm, torch.optim.SGD(batch_norm.parameters(), lr=0.1), DATA, noise=1.0, batch_size=50
    )
    with pytest.raises(sordino.SordinoError, match=r"[Bb]atch"):
        for inputs, targets in private:
            private.step(inputs, targets)


def test_the_accountant_takes_events_of_dp_accounting():
    theirs = dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(1.2)), 100
    )
    ours = sordino.Accountant().add_step(noise_multiplier=1.2, rate=0.05, times=100)
    assert sordino.Accountant().add(theirs).epsilon(delta=1e-5) == pytest.approx(ours.epsilon(delta=1e-5), rel=1e-6)
    reference = dp_accounting.pld.PLDAccountant().compose(theirs).get_epsilon(1e-5)
    assert ours.epsilon(delta=1e-5) == pytest.approx(reference, rel=0.01)
    with pytest.raises(sordino.SordinoError, match="events such as GaussianDpEvent, but got int"):
        sordino.Accountant().add(3)


def test_noise_for_an_epsilon_and_rows_for_clients():
    noise = sordino.noise_multiplier(epsilon=3.0, delta=1e-5, steps=100, rate=0.1)
    assert sordino.Accountant().add_step(noise_multiplier=noise, rate=0.1, times=100).epsilon(delta=1e-5) <= 3.0
    rows = sordino.partition([0, 1] * 50, clients=4, name="dirichlet", alpha=1.0, min_examples=2)
    assert sorted(row for own in rows for row in own) == list(range(100))


def test_a_batch_in_parts_is_the_same_step():
    found = []
    for at_once in (None, 7):
        model, private = loop(physical_batch=at_once)
        for inputs, targets in private:
            private.step(inputs, targets)
        found.append(model.weight.detach().clone())
    assert torch.allclose(*found, atol=1e-6)


def test_a_loop_goes_on_from_a_checkpoint_to_the_same_bits():
    whole, private = loop()
    for _ in range(4):
        for inputs, targets in private:
            private.step(inputs, targets)
    first, begun = loop()
    for inputs, targets in begun:
        begun.step(inputs, targets)
    second, gone_on = loop()
    second.load_state_dict(first.state_dict())
    gone_on.load_state_dict(begun.state_dict())
    for _ in range(3):
        for inputs, targets in gone_on:
            gone_on.step(inputs, targets)
    assert torch.equal(whole.weight, second.weight) and gone_on.epsilon == private.epsilon
    with pytest.raises(sordino.SordinoError, match="16 steps that ε was planned for are taken"):
        for inputs, targets in gone_on:
            gone_on.step(inputs, targets)
    _, other = loop(epsilon=4.0)
    with pytest.raises(
        sordino.SordinoError, match=r"made with noise = .*, but this loop has noise = .*; call make_private as"
    ):
        other.load_state_dict(begun.state_dict())


WRONG = {
    "an ε of nothing": ({"epsilon": 0.0}, "epsilon to be a number above 0, but got 0.0"),
    "an ε in words": ({"epsilon": "three"}, "epsilon to be a number above 0, but got 'three'"),
    "negative noise": ({"epsilon": None, "noise": -1.0}, "noise to be a number from 0 on, but got -1.0"),
    "a δ of one": ({"delta": 1.0}, "delta to be a number from 0 on and below 1, but got 1.0"),
    "no epoch": ({"epochs": 0}, "epochs to be a whole number from 1 on, but got 0"),
    "half an epoch": ({"epochs": 0.5}, "epochs to be a whole number from 1 on, but got 0.5"),
    "no clip": ({"clip_norm": 0.0}, "clip_norm to be a number above 0, of which a usual one is 1, but got 0.0"),
    "true for a number": ({"physical_batch": True}, "physical_batch to be a whole number from 1 on, but got True"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_numbers_are_refused_by_name(mistake):
    settings, words = WRONG[mistake]
    with pytest.raises(sordino.SordinoError, match=f"make_private needs {words}"):
        loop(**settings)


def test_examples_that_are_no_pairs_are_refused_at_once():
    model = nn.Linear(5, 2)
    named = [{"inputs": one, "targets": label} for one, label in DATA]
    with pytest.raises(
        sordino.SordinoError, match=r"pairs \(inputs, targets\) of tensors, but got a dict; let the Dataset"
    ):
        sordino.make_private(model, torch.optim.SGD(model.parameters(), lr=0.1), named, noise=1.0, batch_size=5)


def test_a_delta_that_promises_little_is_warned_of():
    with pytest.warns(UserWarning, match=r"δ = 0.01 is not below 1/200, one over the number of examples"):
        loop(delta=0.01)


def test_pieces_draw_and_noise_as_they_say():
    batches = list(sordino.poisson_batches(1000, rate=0.1, steps=200, seed=3))
    assert len(batches) == 200 and sum(map(len, batches)) == pytest.approx(20_000, rel=0.03)
    assert [list(one) for one in sordino.poisson_batches(1000, rate=0.1, steps=2, seed=3)] == [
        list(one) for one in batches[:2]
    ]
    total = torch.ones(200, 100)
    for kind, deviation in (("gaussian", 3.0), ("laplace", 3.0 * 2**0.5)):
        noisy = sordino.add_noise(total, noise_multiplier=1.5, clip_norm=2.0, kind=kind)
        assert noisy.shape == total.shape and noisy.dtype == total.dtype
        assert float((noisy - total).std()) == pytest.approx(deviation, rel=0.03)
        assert not torch.equal(noisy, sordino.add_noise(total, noise_multiplier=1.5, clip_norm=2.0, kind=kind))
    with pytest.raises(sordino.SordinoError, match=r"rate above 0 and up to 1, but got rate = 2"):
        sordino.poisson_batches(10, rate=2, steps=1)
    with pytest.raises(sordino.SordinoError, match=r"clip_norm above 0, but got 1.0 and 0"):
        sordino.add_noise(total, noise_multiplier=1.0, clip_norm=0)
