"""A public and a private part of one set: the same rows in every run, never in both, and priced without them."""

import numpy as np
import pytest

import sordino
from sordino.core import SordinoError
from sordino.data.row_pool import parts_of_one_set, row_pool
from sordino.data.settings import SourceSettings
from sordino.data.source import training_rows
from sordino.engine.dealing import client_sizes
from sordino.engine.resolved import resolve
from sordino.experiment import experiment


def settings(visibility, **changes):
    return SourceSettings(source="digits", visibility=visibility, **changes)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_public_and_private_rows_make_up_the_set(share):
    public, private = (row_pool(1000, settings(side, public_share=share)) for side in ("public", "private"))
    assert len(public) == 1000 * share
    assert sorted([*public, *private]) == list(range(1000))


def test_which_rows_are_public_does_not_depend_on_the_seed_of_a_run():
    public = set(row_pool(1797, settings("public", public_share=0.1)).tolist())
    for seed in range(3):
        private = training_rows(settings("private", public_share=0.1), seed=seed)
        assert public.isdisjoint(private.tolist())
    smaller = row_pool(1797, settings("public", public_share=0.05))
    assert public.issuperset(smaller.tolist()), "a smaller public share lies within a larger one"


def test_ranges_of_rows_are_taken_as_they_stand():
    assert np.array_equal(row_pool(10, settings("public", rows=(2, 5))), [2, 3, 4])
    with pytest.raises(SordinoError, match="a source of 10 training rows"):
        row_pool(10, settings("public", rows=(2, 11)))


@pytest.mark.parametrize(
    ("private", "public", "allowed"),
    [
        ({"public_share": 0.1}, {"public_share": 0.1}, True),
        ({"public_share": 0.1}, {"public_share": 0.05}, True),
        ({"public_share": 0.1}, {"public_share": 0.2}, False),
        ({"public_share": 0.1}, {}, False),
        ({}, {"public_share": 0.1}, False),
        ({"rows": (100, 200)}, {"rows": (0, 100)}, True),
        ({"rows": (100, 200)}, {"rows": (0, 101)}, False),
        ({"rows": (0, 50)}, {"rows": (50, 60)}, True),
        ({"rows": (0, 50)}, {"public_share": 0.1}, False),
    ],
)
def test_one_set_may_be_both_only_where_no_row_is(private, public, allowed):
    assert parts_of_one_set(settings("private", **private), settings("public", **public)) is allowed


def start(**data):
    return {"name": "standard", "epochs": 1, "data": {"source": "digits", "visibility": "public", **data}}


def test_a_run_starts_from_the_public_part_and_pays_for_the_private_one(tiny, tmp_path):
    options = {"public_share": 0.1}
    table = tiny(rounds=1, data={"options": options}, start=start(**options))
    sordino.run(table, out=tmp_path / "run")
    whole, part = (client_sizes(resolve(experiment(one))) for one in (tiny(), table))
    assert sum(part) == pytest.approx(0.9 * sum(whole), rel=0.01)
    steps = {"name": "dp-sgd", "batch_size": 10, "learning_rate": 0.1}
    prices = [
        sordino.plan(tiny(method=steps, data={"options": one})).epsilon["server"].epsilon for one in ({}, options)
    ]
    assert prices[1] > prices[0], "batches are a larger share of fewer rows"


@pytest.mark.parametrize(
    ("data", "public", "sentence"),
    [
        ({"public_share": 0.1}, {"public_share": 0.2}, "is the private set 'digits' again"),
        ({"public_share": 0.1}, {}, "is the private set 'digits' again"),
        ({"rows": [0, 900]}, {"rows": [800, 1000]}, "is the private set 'digits' again"),
        ({"public_share": 1.5}, {"public_share": 0.1}, "public_share must lie between 0 and 1"),
        ({"public_share": 0.0001}, {"public_share": 0.0001}, "leave rows on both sides"),
        ({"rows": [5, 5]}, {}, "rows must be a first row"),
        ({"rows": [-1, 5]}, {}, "rows must be a first row"),
        ({"rows": [0, 9999]}, {"rows": [9999, 10000]}, "a source of 1797 training rows"),
        ({"rows": [0, 5], "public_share": 0.1}, {}, "one is enough"),
        ({"rows": "all"}, {}, "rows should be"),
    ],
    ids=["larger", "whole", "overlap", "beyond", "none", "empty", "negative", "too-far", "both", "word"],
)
def test_what_could_overlap_is_refused(data, public, sentence, tiny):
    with pytest.raises(SordinoError, match=sentence):
        sordino.plan(tiny(data={"options": data}, start=start(**public)))


def test_a_plan_tells_what_is_private_what_is_public_and_who_uses_it(tiny):
    def told(options, **changes):
        plan = sordino.plan(tiny(data={"options": options}, **changes))
        return plan.method_facts.get("part of the set"), [one for one in plan.warnings if "train nobody" in one]

    assert told({}) == (None, [])
    fact, (warning,) = told({"public_share": 0.2})
    assert fact.startswith("1,438 of 1,797 training rows are private, 359 public (public_share = 0.2); nothing in")
    assert warning.startswith("359 training rows of 'digits' are public (public_share = 0.2) and train nobody, because")
    fact, warnings = told({"public_share": 0.3}, start=start(public_share=0.2))
    assert fact == (
        "1,258 of 1,797 training rows are private, 539 public (public_share = 0.3); the start learns from 287 of them"
    )
    assert not warnings
    fact, (warning,) = told({"rows": [0, 1000]})
    assert fact.startswith("1,000 of 1,797 training rows are private, 797 outside rows = [0, 1000]; nothing in")
    assert "797 training rows of 'digits' are outside rows = [0, 1000] and train nobody" in warning
    fact, warnings = told({"rows": [0, 1000]}, start=start(rows=[1000, 1100]))
    assert "the start learns from 80 of them" in fact and not warnings
    elsewhere = {"name": "standard", "epochs": 1, "data": {"source": "mnist5k", "visibility": "public"}}
    assert told({"public_share": 0.2}, start=elsewhere)[1], "a start on another set uses none of them"
    gep = {"name": "gep", "anchors": 20, "basis": 4, "public": start(public_share=0.2)["data"]}
    steps = {"name": "dp-sgd", "batch_size": 10}
    fact, warnings = told({"public_share": 0.2}, method=steps, privacy={"mechanism": gep})
    assert "anchors are drawn from 287 of them" in fact and not warnings


def test_a_run_says_that_public_rows_train_nobody(tiny, tmp_path):
    table = tiny(rounds=1, data={"options": {"public_share": 0.2}})
    told = [
        [one for one in found if "train nobody" in one]
        for found in (sordino.plan(table).warnings, sordino.run(table, out=tmp_path / "run")["warnings"])
    ]
    assert told[0] == told[1] and len(told[0]) == 1


def test_clients_whose_rows_are_all_public_are_counted(tiny, tmp_path):
    rows = [f"{row / 100},{row % 2},H{row // 20}" for row in range(200)]
    (tmp_path / "rows.csv").write_text("\n".join(["x,label,hospital", *rows]))
    data = {"source": str(tmp_path / "rows.csv"), "clients": 1, "partition": "column", "test": "public-split"}

    def told(first):
        options = {"rows": [first, 200], "client_column": "hospital"}
        plan = sordino.plan(
            tiny(data={**data, "options": options}, model={"name": "logistic"}, privacy={"expected_cohort": 2})
        )
        return plan.tariff.sampler.clients, [one for one in plan.warnings if "no client of this run" in one]

    assert told(0) == (10, [])
    assert told(10) == (10, [])
    clients, (said,) = told(40)
    assert clients == 8
    assert said.startswith("2 of the clients in column 'hospital' have no row in the private part of ")


def test_a_share_is_shown_as_it_was_written():
    with pytest.raises(SordinoError, match=r"public_share = 0\.9999999 should leave rows on both sides"):
        row_pool(1797, settings("private", public_share=0.9999999))


def test_a_file_of_weights_from_the_public_part_uses_it(tiny, tmp_path):
    options = {"options": {"public_share": 0.2}}
    sordino.run(
        tiny(rounds=1, data={**options, "visibility": "public"}, method={"name": "fedavg"}), out=tmp_path / "public"
    )
    weights = {"name": "file", "path": str(tmp_path / "public" / "model.safetensors")}
    plan = sordino.plan(tiny(data=options, start=weights))
    assert plan.method_facts["part of the set"].endswith("; the start's file was trained on public rows of that set")
    assert not [one for one in plan.warnings if "train nobody" in one]
