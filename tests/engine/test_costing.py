"""The trial behind a plan's time and memory: it leaves no trace, and what it says adds up. No test here looks at a clock."""

import dataclasses
import io
import os
import random

import numpy as np
import pytest
import torch
from rich.console import Console

import sordino
from sordino.core import Private
from sordino.data.settings import SourceFacts
from sordino.engine.costing.made_up import Roster, Shapes
from sordino.engine.costing.sampled import SampledWorkers, Sampling, makespan, spread
from sordino.engine.costing.subject import PHASES
from sordino.engine.messages import Answer
from sordino.engine.row_checks import look_for_anchors
from sordino.engine.simulate.workers import Place
from sordino.models import FlatSpace, build
from sordino.report.terminal import plan_table

COSTS = {
    "seconds": 5025.4,
    "start": 12.3,
    "features": 0.0,
    "rounds": 5000.0,
    "evaluation": 12.0,
    "end": 1.1,
    "assumed": "",
    "memory_bytes": 1_700_000_000,
    "processor": "Some Processor With A Long Name @ 2.60GHz",
    "threads": 2,
}


def everything_drawn():
    """What a draw from a generator that is shared would change."""
    return torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state()), torch.get_num_threads()


def test_public_anchors_are_looked_for_once_and_counted(tiny, monkeypatch):
    mechanism = {"name": "gep", "public": {"source": "mnist5k", "visibility": "public"}, "anchors": 20, "basis": 4}
    found = []

    def slow(resolved, private):
        found.append(look_for_anchors(resolved, private))
        return dataclasses.replace(found[-1], seconds=1000.0)

    for module in ("row_checks", "costing.costs"):
        monkeypatch.setattr(f"sordino.engine.{module}.look_for_anchors", slow)
    table = tiny(method={"name": "dp-sgd", "batch_size": 32, "local_steps": 1}, privacy={"mechanism": mechanism})
    assert sordino.plan(table, measure=True).costs.start >= 1000
    assert len(found) == 1


def test_a_trial_leaves_streams_files_and_settings_alone_and_its_phases_add_up(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORDINO_PRETRAINED", str(tmp_path / "starts"))
    start = {"name": "standard", "data": {"source": "mnist5k", "visibility": "public"}, "epochs": 2000}
    table = tiny(start=start)
    before = everything_drawn()
    plan = sordino.plan(table, measure=True)
    assert everything_drawn() == before
    assert os.environ["SORDINO_PRETRAINED"] == str(tmp_path / "starts")
    assert list(tmp_path.iterdir()) == []
    costs = plan.costs.to_json()
    assert costs["seconds"] == pytest.approx(sum(costs[name] for name in PHASES))
    assert all(costs[name] >= 0 for name in PHASES) and costs["rounds"] > 0 and costs["features"] == 0
    assert costs["memory_bytes"] > 10**8 and costs["threads"] >= 1 and costs["processor"]
    untried = sordino.plan(table)
    assert untried.costs is None
    assert {**untried.to_json(), "costs": costs} == plan.to_json()


def test_a_run_after_a_trial_is_the_same_run(tiny, tmp_path):
    table = tiny(tuning={"name": "head"}, model={"name": "mlp", "hidden": [8]}, data={"client_test_rows": 20})
    sordino.run(table, out=tmp_path / "first")
    costs = sordino.plan(table, measure=True).costs
    sordino.run(table, out=tmp_path / "again")
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("first", "again")]
    assert models[0] == models[1]
    assert costs.features > 0


def test_a_trial_that_fails_is_told_of_and_the_plan_stands(tiny, monkeypatch):
    def broken(*arguments, **settings):
        raise ZeroDivisionError("no such thing")

    monkeypatch.setattr("sordino.engine.costing.costs.attempt", broken)
    plan = sordino.plan(tiny(), measure=True)
    assert plan.costs is None
    assert plan.warnings[-1].endswith("because a trial on made-up rows ended with: no such thing")


@pytest.mark.parametrize("width", [80, 120])
def test_a_plan_shows_time_by_phase_and_where_it_holds(tiny, width):
    table = plan_table({**sordino.plan(tiny()).to_json(), "costs": COSTS})
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(table)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    said = " ".join(" ".join(lines).replace("│", " ").split())
    for part in ("about 84 min: start 12 s, rounds 83 min", "evaluation 12 s, end 1.1 s", ", 2 threads", "1,700 MB"):
        assert part in said
    assert "features" not in said


def test_a_plan_without_a_trial_says_nothing_of_time(tiny):
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(plan_table(sordino.plan(tiny()).to_json()))
    assert "peak of the process" not in console.export_text()


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10, 100])
def test_a_beginning_of_the_order_is_spread_over_all(count):
    order = spread(count)
    assert sorted(order) == list(range(count))
    if count == 100:
        assert {number // 25 for number in order[:10]} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("amounts", "threads", "longest"),
    [([1, 1, 1, 1, 1], 2, 3), ([5, 2, 1, 1, 1], 2, 5), ([3, 1, 2], 1, 6), ([], 2, 0)],
    ids=["five alike", "one large", "one thread", "none"],
)
def test_the_busiest_thread_is_reckoned_with(amounts, threads, longest):
    assert makespan(amounts, threads) == longest


def sampled(seconds):
    net = build("mlp", shape=(4,), classes=2, vocabulary=0, seed=0, hidden=[3])
    sampling = Sampling(seconds_each=seconds, work=float)
    return sampling, SampledWorkers(
        net, FlatSpace(net), seed=0, device=torch.device("cpu"), workers=2, sampling=sampling
    )


def test_clients_that_are_left_out_answer_like_others_under_their_own_number():
    sampling, workers = sampled(0.0)
    asked = []

    def work(number, context):
        asked.append(number)
        return Answer(client=context.client)

    answers = workers.each([Place(client=10 + k, round=0, size=5) for k in range(9)], work)
    workers.close()
    assert [answer.client for answer in answers] == list(range(10, 19))
    assert len(set(asked)) == 4 and sampling.left_out == 5
    assert sampling.reckoned > 0


def test_a_lone_client_is_not_sampled():
    sampling, workers = sampled(0.0)
    assert workers.each([Place(client=3, round=0, size=5)], lambda number, context: context.client) == [3]
    workers.close()
    assert sampling.left_out == 0


@pytest.mark.parametrize("kind", ["image", "tabular", "text"])
def test_made_up_rows_have_the_shapes_and_nothing_of_the_data(kind):
    shape = {"image": (1, 4, 4), "tabular": (5,), "text": (7,)}[kind]
    facts = SourceFacts(n_train=1000, n_test=10, shape=shape, classes=3, kind=kind, vocabulary=11)
    source = Shapes.of(facts, None).source(12)
    assert source.train.inputs.shape[1:] == torch.Size(shape) and len(source.public_test) == 12
    roster = Roster(sizes=[400, 30, 5], held_out=0.25, validation=0.1, late=2)
    federated = roster.federated(source, most_rows=100)
    assert federated.sizes == [100, 30, 5]
    assert federated.roster.held_out == (25, 8, 1) and federated.newcomers.clients == 2
    assert isinstance(federated.client(0), Private)
    assert roster.times_more(100) == pytest.approx(435 / 135)
