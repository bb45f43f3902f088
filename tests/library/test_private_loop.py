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
