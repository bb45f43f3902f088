"""From tables to objects: only fields can be set, at any depth, and on every axis."""

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import pytest
from pydantic import Field

from sordino.core import SordinoError
from sordino.data.partition import PARTITIONERS
from sordino.data.settings import SourceSettings
from sordino.methods import METHODS
from sordino.models import MODELS
from sordino.pretrain import STARTS
from sordino.privacy.mechanisms import MECHANISMS
from sordino.settings import member, validated
from sordino.tuning import TUNINGS

AXES = {
    "method": METHODS,
    "privacy.mechanism": MECHANISMS,
    "tuning": TUNINGS,
    "start": STARTS,
    "model": MODELS,
    "data.partition": PARTITIONERS,
}


def facts(kind):
    """All that a class says of all its objects: class variables, properties and functions."""
    settable = {one.name for one in dataclasses.fields(kind)}
    return sorted(name for name in dir(kind) if not name.startswith("_") and name not in settable)


@pytest.mark.parametrize("axis", AXES)
def test_a_fact_of_a_class_is_no_setting(axis):
    found = 0
    for one in AXES[axis]:
        for fact in facts(one.build):
            with pytest.raises(SordinoError) as refusal:
                member(AXES[axis], {"name": one.name, fact: "sum"}, where=axis)
            assert f"[{axis}]" in str(refusal.value)
            assert fact in str(refusal.value)
            found += 1
    assert found


@pytest.mark.parametrize("fact", ["uses", "unit", "protected", "pooled", "keeps_state", "head_stays_home", "uncovered"])
def test_what_a_price_rests_on_cannot_be_set_from_a_file(fact):
    with pytest.raises(SordinoError, match=rf"{fact} in \[method\] is a fact about Centaur and not a setting"):
        member(METHODS, {"name": "centaur", fact: "sum"}, where="method")


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("local_step", r"no setting in \[method.noisy_steps\] called 'local_step'; did you mean 'local_steps'"),
        ("rate", r"rate in \[method.noisy_steps\] is a fact about NoisySgd"),
    ],
)
@pytest.mark.parametrize("name", ["fedceo", "udp-fedavg-svt"])
def test_a_nested_table_takes_its_own_settings_alone(name, key, sentence):
    with pytest.raises(SordinoError, match=sentence):
        member(METHODS, {"name": name, "noisy_steps": {key: 1}}, where="method")
    assert (
        member(METHODS, {"name": name, "noisy_steps": {"local_steps": 2}}, where="method").noisy_steps.local_steps == 2
    )


@pytest.mark.parametrize("rows", [[], [1], [1, 2, 3]])
def test_a_list_of_another_length_is_told_how_long_it_should_be(rows):
    with pytest.raises(SordinoError) as refusal:
        validated(SourceSettings, {"source": "digits", "visibility": "private", "rows": rows}, where="data.options")
    assert str(refusal.value) == f"In [data.options], rows should be a list of 2 values, but got {rows}."


@dataclass(frozen=True, kw_only=True)
class Pairs:
    pairs: tuple[tuple[int, float], ...] = ()


def test_the_length_of_a_list_inside_a_list_is_told_with_its_place():
    with pytest.raises(SordinoError) as refusal:
        validated(Pairs, {"pairs": [[1, 2.0], [3]]}, where="part")
    assert str(refusal.value) == "In [part], pairs[1] should be a list of 2 values, but got [3]."


@dataclass(frozen=True, kw_only=True)
class Layer:
    kind: ClassVar[str] = "layer"
    width: int = 1


@dataclass(frozen=True, kw_only=True)
class Other:
    depth: int = 1


@dataclass(frozen=True, kw_only=True)
class Stack:
    either: Layer | Other | None = None
    many: tuple[Layer, ...] = ()
    named: dict[str, Layer] = field(default_factory=dict)
    checked: Annotated[Layer | None, Field(description="checked")] = None
    free: dict[str, object] = field(default_factory=dict)
    made: int = field(init=False, default=0)


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ({"either": {"width": 1, "depth": 1}}, "stack.either"),
        ({"either": {"kind": "x"}}, "stack.either"),
        ({"many": [{"width": 1}, {"wide": 1}]}, "stack.many"),
        ({"named": {"a": {"width": 1, "kind": "x"}}}, "stack.named"),
        ({"checked": {"depth": 1}}, "stack.checked"),
        ({"made": 1}, "stack"),
    ],
)
def test_tables_are_checked_wherever_they_are(table, place):
    with pytest.raises(SordinoError, match=rf"\[{place}\]"):
        validated(Stack, table, where="stack")


def test_good_tables_pass_at_any_depth():
    table = {
        "either": {"depth": 3},
        "many": [{"width": 2}],
        "named": {"a": {"width": 4}},
        "checked": {"width": 5},
        "free": {"anything": {"goes": 1}},
    }
    assert validated(Stack, table, where="stack") == Stack(
        either=Other(depth=3),
        many=(Layer(width=2),),
        named={"a": Layer(width=4)},
        checked=Layer(width=5),
        free={"anything": {"goes": 1}},
    )
