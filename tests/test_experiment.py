"""Experiment files: what is wrong gets one sentence, and nothing else gets in."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.core import SordinoError
from sordino.experiment import experiment, override, read

GOOD = {
    "rounds": 3,
    "data": {"source": "digits", "clients": 4},
    "model": {"name": "mlp"},
    "method": {"name": "dp-fedavg"},
    "privacy": {"epsilon": 1.0},
}


def changed(key, value):
    table = copy.deepcopy(GOOD)
    *sections, last = key.split(".")
    inner = table
    for section in sections:
        inner = inner.setdefault(section, {})
    inner[last] = value
    return table


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("privacy.epsilon", -1.0, "epsilon should be greater than 0, but got -1.0"),
        ("privacy.epsilo", 1.0, "did you mean 'epsilon'"),
        ("privacy.delta", 1.0, "delta should be less than 1"),
        ("privacy.view", "servr", "'public', 'server' or 'client'"),
        ("privacy.noise_multiplier", 1.0, "got both"),
        ("rounds", 0, "rounds should be greater than or equal to 1"),
        ("round", 3, "did you mean 'rounds'"),
        ("privcy", {}, "did you mean 'privacy'"),
        ("data.clients", 0, "clients should be greater than or equal to 1"),
        ("data.visibility", "secret", "'public' or 'private'"),
        ("privacy.client_epsilon", [1.0, 0.0], "every client's ε above zero"),
        ("privacy", 3, "privacy"),
    ],
)
def test_each_mistake_gets_its_sentence(key, value, sentence):
    with pytest.raises(SordinoError, match=sentence) as error:
        experiment(changed(key, value))
    assert "\n" not in str(error.value)


def test_a_missing_section_is_named():
    table = {key: value for key, value in GOOD.items() if key != "data"}
    with pytest.raises(SordinoError, match="needs data"):
        experiment(table)


def test_overrides_speak_toml(tmp_path):
    path = tmp_path / "one.toml"
    path.write_text('rounds = 3\n[data]\nsource = "digits"\n[model]\nname = "mlp"\n[method]\nname = "fedavg"\n')
    found = read(path, ("rounds=7", "privacy.epsilon=2.5", "model.hidden=[8, 8]", "data.source=mnist5k"))
    assert (found.rounds, found.privacy.epsilon, found.model["hidden"], found.data.source) == (
        7,
        2.5,
        [8, 8],
        "mnist5k",
    )
    assert found.name == "one"


@pytest.mark.parametrize("bad", ["rounds", "=3", "rounds.x=3"])
def test_a_bad_override_is_refused(bad):
    with pytest.raises(SordinoError, match="--set"):
        override({"rounds": 3}, bad)


def test_an_override_leaves_the_original_alone():
    original = {"privacy": {"epsilon": 1.0}}
    table = dict(original)
    override(table, "privacy.epsilon=2")
    assert original["privacy"]["epsilon"] == 1.0


def test_unreadable_files_get_a_sentence(tmp_path):
    with pytest.raises(SordinoError, match="cannot be read"):
        read(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("rounds = = 3")
    with pytest.raises(SordinoError, match="not valid TOML"):
        read(tmp_path / "bad.toml")


def test_the_fingerprint_ignores_what_cannot_change_numbers():
    base = experiment(GOOD)
    assert base.fingerprint() == experiment(changed("engine.workers", 7)).fingerprint()
    assert base.fingerprint() == experiment(changed("name", "other")).fingerprint()
    assert base.fingerprint() != experiment(changed("seed", 7)).fingerprint()
    assert base.fingerprint() != experiment(changed("engine.schedule", "stacked")).fingerprint()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)
KEYS = st.sampled_from(
    [
        "rounds",
        "seed",
        "name",
        "data",
        "model",
        "start",
        "method",
        "privacy",
        "engine",
        "data.source",
        "data.clients",
        "data.partition",
    ]
    + [
        f"privacy.{key}"
        for key in ("epsilon", "delta", "view", "noise", "sampler", "clip_norm", "client_epsilon", "participation_cap")
    ]
    + ["engine.device", "engine.workers", "privacy.extra", "extra"]
)


@settings(max_examples=300, deadline=None)
@given(KEYS, VALUES)
def test_any_value_anywhere_is_taken_or_refused_in_one_sentence(key, value):
    try:
        table = changed(key, value)
        found = experiment(table)
    except SordinoError as error:
        assert str(error)
        assert "\n" not in str(error).replace(repr(value), "")
    else:
        assert found.rounds >= 1
        assert found.privacy.epsilon is None or found.privacy.epsilon > 0
        assert 0 <= found.privacy.delta < 1


@pytest.mark.parametrize(("rounds", "every"), [(1, 1), (7, 1), (7, 3), (6, 3), (5, 9), (40, 0), (3, 0)])
def test_evaluation_is_after_every_so_manieth_round_and_the_last(rounds, every):
    table = experiment(changed("engine.evaluate_every", every) | {"rounds": rounds})
    found = [number for number in range(rounds) if number in table.evaluation_rounds]
    step = every or max(1, rounds // 20)
    assert found == sorted({*range(step - 1, rounds, step), rounds - 1})
    assert len(found) == len(table.evaluation_rounds)


def test_a_billion_evaluations_are_not_listed():
    assert len(experiment(changed("engine.evaluate_every", 1) | {"rounds": 10**9}).evaluation_rounds) == 10**9
