"""Correlated noise keeps its promise in real rounds, also after crashes, and every broken twin of it is caught."""

import pytest
from correlated import HISTORIES, as_planned, proved_and_claimed, secure_crash, seeded_crash, worst_of

from sordino.privacy import door
from sordino.privacy.banded import Banded, BandedOverRounds
from sordino.privacy.banded_matrix import BandedMatrix
from sordino.privacy.correlated_noise import Row
from sordino.privacy.streams import stream_id


@pytest.mark.parametrize("name", HISTORIES)
def test_the_best_test_of_all_does_no_better_than_is_claimed(name):
    assert worst_of(HISTORIES[name]) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("name", HISTORIES)
def test_what_canaries_prove_lies_under_what_is_claimed(name):
    proved, claimed = proved_and_claimed(HISTORIES[name])
    assert 0.3 * claimed < proved <= claimed


def columns_longer_than_one(patch):
    """Noise as if coefficients needed no norm."""
    patch.setattr(BandedMatrix, "diagonal", lambda self, round_number: 1.0)
    return as_planned


def bands_wider_than_turns(patch):
    def wide(self, run):
        return BandedOverRounds(bands=run.sampler.rounds, rounds=run.sampler.rounds)

    patch.setattr(Banded, "for_run", wide)
    return as_planned


def fresh_noise_used_twice(patch):
    """The number of the ledger's line is left out of the stream's name, so Z is the same in every round."""
    patch.setattr(door, "stream_id", lambda kind, number, *rest: stream_id(kind, *rest))
    return as_planned


def memory_lost_on_resume(patch):
    """A round is repeated with the same Z, but without the memory that it was drawn with."""
    return lambda onlooker: seeded_crash(onlooker, recalled=lambda memory: {})


def repeated_rows_go_on(patch):
    """A secure run repeats a round with fresh Z in the old block, as if only one of the two had been released."""
    patch.setattr(Row, "follows", lambda self, last: self.round == last.round + 1)
    return secure_crash


TWINS = (
    columns_longer_than_one,
    bands_wider_than_turns,
    fresh_noise_used_twice,
    memory_lost_on_resume,
    repeated_rows_go_on,
)


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_every_broken_twin_is_caught(twin, monkeypatch):
    assert worst_of(twin(monkeypatch)) > 1.05


@pytest.mark.parametrize("twin", [fresh_noise_used_twice, memory_lost_on_resume], ids=lambda twin: twin.__name__)
def test_canaries_see_through_noise_that_cancels_out(twin, monkeypatch):
    proved, claimed = proved_and_claimed(twin(monkeypatch))
    assert proved > claimed
