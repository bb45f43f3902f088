"""The audit of a priced choice: a canary goes through all runs that are drawn, and an onlooker sees the chosen one alone.

Every run is a clipped release at the real door, the number of runs is drawn by the real rule, and the choice is the worst for the canary:
the run in which it shows most. What 1,600 choices without it and with it prove lies under the price of `--choose`.
"""

import random

import pytest
import torch
from audited import CLIP, OVERSHOOT

from sordino.audit.gaussian_dp import epsilon_lower_bound_by_repeats
from sordino.core import Private
from sordino.privacy.clipping import Clip, bound_update, read_bounded
from sordino.privacy.door import Door
from sordino.privacy.event_kinds import NonPrivateDpEvent
from sordino.privacy.ledger import Ledger, Line
from sordino.privacy.noise import SeededNoise
from sordino.privacy.pricing import Charge
from sordino.sweeps.checks import check
from sordino.sweeps.choice_price import price_choice
from sordino.sweeps.draws import read_rule
from sordino.sweeps.grid import Sweep
from sordino.sweeps.pool import Here

CHOICES, CONFIDENCE, DELTA = 1600, 0.999, 1e-4


@pytest.fixture(scope="module")
def releases():
    """Many releases of multiplier 2 without and with the canary, which asks for too much; in units of the clip.

    The coordinates of one release have independent noise, so that each stands for a release of its own.
    """
    clip = Clip(bound=CLIP, norm="l2")
    line = Line(
        round=0,
        label="update",
        unit="client",
        owner="server",
        mechanism="gaussian",
        norm="l2",
        clip_bound=CLIP,
        noise_multiplier=2.0,
        releases=1,
        charges=(Charge(view="public", whom="pool", event=NonPrivateDpEvent(), because="priced by the test"),),
    )
    nothing = torch.zeros(2 * 27_000)
    door = Door(Ledger(clients=1, delta=DELTA, neighbours="zero-out"), SeededNoise(9))
    noise = door.open(line).release(bound_update(Private(nothing), clip, like=nothing)).value
    asked = bound_update(Private(torch.full((1,), OVERSHOOT * CLIP)), clip, like=torch.zeros(1))
    absent, present = (noise.double().numpy() / CLIP).reshape(2, -1)
    return [absent, present + float(read_bounded(asked)) / CLIP]


@pytest.fixture(scope="module")
def candidates(tiny, tmp_path_factory):
    """One round of multiplier 2 for everybody: what every run of these costs is what `releases` shows."""
    privacy = {"noise_multiplier": 2.0, "delta": DELTA, "sampler": "everyone", "expected_cohort": None}
    table = tiny(rounds=1, data={"test": "public-split"}, privacy=privacy)
    grid = Sweep(table=table, axes={"method.learning_rate": ["0.1", "0.2"]}, seeds=1)
    cells = (grid.cell(one, grid.first_seed) for one in grid.configurations())
    return check(cells, folder=tmp_path_factory.mktemp("choice"), by=Here())[0]


def shown(rule, values, seed, *, best=max):
    """What is seen of so many choices; where no run was drawn, nothing, which is a sight too."""
    source, left = random.Random(seed), iter(values)
    runs = [[next(left) for _ in range(rule.stopping.draw(source.random()))] for _ in range(CHOICES)]
    return [best(own) if own else -9.0 for own in runs]


def proven(rule, releases, best=max):
    without, having = (shown(rule, values, seed, best=best) for seed, values in enumerate(releases))
    return epsilon_lower_bound_by_repeats(without, having, delta=DELTA, confidence=CONFIDENCE)


@pytest.mark.parametrize(("name", "mean"), [("logarithmic", 3.0), ("geometric", 3.0), ("poisson", 3.0)])
def test_what_canaries_prove_of_a_whole_choice_lies_under_its_price(name, mean, releases, candidates):
    rule = read_rule(name, mean)
    price = price_choice(candidates, candidates[:1], rule.stopping, repeated=False)["public"]["epsilon"]
    found = proven(rule, releases)
    assert 0 < found <= price
    assert price > candidates[0].plan.epsilon["public"].epsilon


def test_a_choice_whose_runs_all_show_is_caught(releases, candidates):
    """A twin that shows all drawn runs at the price of the best one: added up, sixteen of them tell more than one."""
    rule = read_rule("poisson", 16.0)
    alone = candidates[0].plan.epsilon["public"].epsilon

    def every(own):
        return sum(own) - len(own) / 2

    assert proven(rule, releases, best=every) > alone
