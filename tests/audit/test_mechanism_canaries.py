"""Canaries under every mechanism: told apart without noise, hidden as charged with it, and broken twins of each caught."""

import numpy as np
import pytest
import torch

from sordino.audit.auditing import audit_experiment
from sordino.audit.catalogue import MECHANISMS, PLACEMENTS, catalogue
from sordino.audit.planting.decorrelated import Decorrelated
from sordino.audit.planting.ground import make_ground
from sordino.audit.planting.rounds import canary_run, promised_views
from sordino.core import SordinoError
from sordino.experiment import experiment
from sordino.methods import METHODS
from sordino.privacy.adaptive_clip import COUNT
from sordino.privacy.banded import BandedOverRounds
from sordino.privacy.banded_matrix import BandedMatrix
from sordino.privacy.correlated_noise import Row, correlate
from sordino.privacy.door import Permit
from sordino.privacy.mechanisms import MECHANISMS as REGISTERED
from sordino.privacy.mechanisms import UPDATE

CASES = {(case.label, case.placement): case.experiment for case in catalogue()}


def smaller(case):
    """With a quarter of the clients, and so of the time."""
    table = CASES[case].model_dump(mode="json")
    return experiment({**table, "data": {**table["data"], "clients": 24}})


ONE_EACH = [
    ("dp-fedavg, noise-schedule", "distributed"),
    ("dp-fedavg, adaptive-clip", "local"),
    ("dp-fedavg, banded", "central"),
    ("dp-sgd, gep", "local"),
    ("dp-sgd, adaptive-clip, on examples", "local"),
]


def test_the_catalogue_has_every_method_and_mechanism_at_every_placement():
    assert {label for label, _ in CASES} >= {member.name for member in METHODS}
    named = {case.experiment.privacy.mechanism_table["name"] for case in catalogue()}
    assert named == {member.name for member in REGISTERED}
    assert len(CASES) == len(PLACEMENTS) * (len(list(METHODS)) + len(MECHANISMS))


def forget(monkeypatch, part=None):
    """No noise, or none on one part of what is released."""
    right = Permit._noise

    def wrong(self, like, scale, verb, name):
        return torch.zeros_like(like) if part in (None, name) else right(self, like, scale, verb, name)

    monkeypatch.setattr(Permit, "_noise", wrong)


@pytest.mark.parametrize("case", ONE_EACH, ids=", ".join)
def test_canaries_are_told_apart_where_noise_is_forgotten(case, tmp_path, monkeypatch):
    forget(monkeypatch)
    ground = make_ground(smaller(case), scratch=tmp_path)
    run = canary_run(ground, repeat=0, views=promised_views(ground), scratch=tmp_path)
    assert run.sights
    for view, sight in run.sights.items():
        who = run.judged(view)
        scores, coins = sight.scores[who], run.coins[who]
        assert scores[coins].min() > scores[~coins].max()


@pytest.mark.parametrize("case", ONE_EACH, ids=", ".join)
def test_with_their_noise_nothing_alarms(case):
    found = audit_experiment(smaller(case), runs=1)
    assert found.holds
    checked = {check.name for check in found.checks}
    assert checked >= {"state made of releases", "noise as charged", "noise drawn afresh"}


@pytest.mark.parametrize(
    ("case", "part"),
    [
        (("dp-sgd, gep", "local"), UPDATE),
        (("dp-sgd, gep", "local"), "residual"),
        (("dp-fedavg, adaptive-clip", "local"), COUNT),
    ],
    ids=["embedding bare", "residual bare", "count bare"],
)
def test_one_bare_part_of_several_is_caught(case, part, monkeypatch):
    forget(monkeypatch, part)
    assert not audit_experiment(smaller(case), runs=1).holds


def test_noise_drawn_without_the_matrix_norm_is_caught(monkeypatch):
    """Columns of the matrix longer than 1, so that less noise covers more."""
    monkeypatch.setattr(BandedMatrix, "diagonal", lambda self, round_number: 1.0)
    right = BandedOverRounds.draw
    monkeypatch.setattr(
        BandedOverRounds, "draw", lambda self, source, like, wanted: right(self, source, like, wanted) * 0.7
    )
    found = audit_experiment(smaller(("dp-fedavg, banded", "central")), runs=1)
    assert [check.name for check in found.checks if not check.holds] and not found.holds


def test_undoing_the_correlation_gives_the_fresh_noise_and_whole_contributions():
    rounds, size = 7, 5
    matrix = BandedMatrix(coefficients=(1.0, 0.5, 0.375), rounds=rounds)
    fresh = torch.randn(rounds, size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    given = torch.zeros(rounds, size, dtype=torch.float64)
    given[0, 2] = given[3, 2] = given[6, 4] = 1.0
    memory, bare, seen = {}, Decorrelated(matrix), Decorrelated(matrix)
    traces = {}
    for number in range(rounds):
        noise = correlate(fresh[number], Row(round=number, line=number, attempt=0, scale=1.0), matrix, memory)
        np.testing.assert_allclose(bare.add(number, noise)[0], fresh[number], atol=1e-12)
        traces |= dict(seen.add(number, given[number])[1])
    assert sorted(traces) == list(range(rounds))
    for number in (0, 3, 6):
        place = int(given[number].argmax())
        assert float(traces[number][place]) == pytest.approx(1.0)
    assert float(traces[1].abs().max()) < 1.0


def test_a_mechanism_that_does_not_suit_a_placement_is_refused_and_not_passed_over():
    with pytest.raises(SordinoError, match="needs one place that remembers its noise"):
        audit_experiment(smaller(("dp-fedavg, banded", "local")), runs=1)
