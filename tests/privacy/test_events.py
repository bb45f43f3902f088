"""Events survive the ledger file, collapse correctly, and read well."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordino.core import SordinoError
from sordino.privacy import event_kinds as kinds
from sordino.privacy.events import canonical, describe, from_json, joint, to_json

multipliers = st.floats(1e-3, 1e3)
bare = st.one_of(
    multipliers.map(kinds.GaussianDpEvent),
    multipliers.map(kinds.LaplaceDpEvent),
    st.just(kinds.NonPrivateDpEvent()),
    st.just(kinds.NoOpDpEvent()),
)


def nested(inner: st.SearchStrategy[kinds.DpEvent]) -> st.SearchStrategy[kinds.DpEvent]:
    return st.one_of(
        st.builds(kinds.PoissonSampledDpEvent, st.floats(0, 1), inner),
        st.builds(kinds.SampledWithoutReplacementDpEvent, st.integers(5, 100), st.integers(0, 5), inner),
        st.builds(kinds.SelfComposedDpEvent, inner, st.integers(1, 50)),
        st.lists(inner, max_size=3).map(lambda each: kinds.ComposedDpEvent(tuple(each))),
    )


events = st.recursive(bare, nested, max_leaves=6)


@given(events)
def test_an_event_comes_back_from_json_as_it_was(event: kinds.DpEvent) -> None:
    text = json.dumps(to_json(event))
    again = from_json(json.loads(text))
    assert again == event
    assert hash(again) == hash(event)


@given(events)
def test_every_event_has_a_description_and_a_canonical_form(event: kinds.DpEvent) -> None:
    assert describe(event)
    for leaf, count in canonical([(event, 2)]):
        assert count >= 1
        assert not isinstance(leaf, kinds.ComposedDpEvent | kinds.SelfComposedDpEvent | kinds.NoOpDpEvent)
    assert canonical(canonical([(event, 2)])) == canonical([(event, 2)])


@pytest.mark.parametrize(
    "data", [{}, {"kind": "gaussian"}, {"kind": "poisson", "rate": "x", "event": {}}, {"kind": "magic"}]
)
def test_a_damaged_event_is_one_sentence(data: dict[str, object]) -> None:
    with pytest.raises(SordinoError):
        from_json(data)


def test_an_event_the_ledger_does_not_know_is_refused() -> None:
    with pytest.raises(SordinoError):
        to_json(kinds.DpEvent())
    with pytest.raises(SordinoError):
        canonical([(kinds.DpEvent(), 1)])


def test_joint_multiplier_by_hand() -> None:
    assert joint(3.0, 4.0) == pytest.approx(12 / 5)
    assert joint(1.1) == 1.1
    assert joint(2.0, math.inf) == 2.0
    assert joint(2.0, 0.0) == 0.0
    with pytest.raises(SordinoError):
        joint(1.0, -1.0)
    with pytest.raises(SordinoError):
        joint(math.nan)


@given(st.lists(multipliers, min_size=1, max_size=5), multipliers)
def test_one_more_release_never_helps(some: list[float], another: float) -> None:
    assert joint(*some, another) <= joint(*some)


def test_descriptions() -> None:
    assert (
        describe(kinds.PoissonSampledDpEvent(0.0154, kinds.GaussianDpEvent(1.1)))
        == "Gaussian z=1.1, Poisson-sampled at q=0.0154"
    )
    fixed = kinds.SampledWithoutReplacementDpEvent(100, 20, kinds.LaplaceDpEvent(2.0))
    assert describe(fixed) == "Laplace z=2, 20 of 100 drawn without replacement"
    assert describe(kinds.NonPrivateDpEvent()) == "released without noise"


def test_canonical_form_joins_releases_of_one_draw_and_drops_idle_sampling() -> None:
    pair = kinds.ComposedDpEvent([kinds.GaussianDpEvent(3.0), kinds.GaussianDpEvent(4.0)])
    [(leaf, count)] = canonical([(kinds.PoissonSampledDpEvent(0.1, pair), 7)])
    assert count == 7
    assert leaf.event.noise_multiplier == pytest.approx(2.4)
    assert canonical([(kinds.PoissonSampledDpEvent(1.0, kinds.LaplaceDpEvent(2.0)), 3)]) == {
        (kinds.LaplaceDpEvent(2.0), 3)
    }
    assert canonical([(kinds.SampledWithoutReplacementDpEvent(9, 9, kinds.LaplaceDpEvent(2.0)), 3)]) == {
        (kinds.LaplaceDpEvent(2.0), 3)
    }
    assert canonical([(kinds.PoissonSampledDpEvent(0.0, kinds.NonPrivateDpEvent()), 3)]) == frozenset()
    assert canonical([(kinds.GaussianDpEvent(2.0), 4)]) == {(kinds.GaussianDpEvent(1.0), 1)}


@pytest.mark.parametrize(
    "event",
    [
        kinds.GaussianDpEvent(-1.0),
        kinds.LaplaceDpEvent(math.nan),
        kinds.PoissonSampledDpEvent(1.5, kinds.GaussianDpEvent(1.0)),
    ],
)
def test_impossible_events_are_refused(event: kinds.DpEvent) -> None:
    with pytest.raises(SordinoError):
        canonical([(event, 1)])
