"""Every method keeps the contract, and faults that a stranger may bring in are refused, caught or priced right."""

import dataclasses
import inspect

import pytest
import strangers
import torch
from test_members import names

import sordino
from sordino.core import SordinoError
from sordino.engine import federation
from sordino.engine.priced_steps import priced_steps
from sordino.engine.run import run_experiment
from sordino.experiment import experiment
from sordino.methods import METHODS
from sordino.methods.dp_sgd import DpSgd
from sordino.methods.method import Federation
from sordino.privacy.ledger import read_lines
from sordino.testing import CHECKS, Broken, contract_table
from sordino.testing.methods import (
    check_own_rows,
    check_the_rate,
    check_the_schedule,
    check_the_server,
    check_the_verb,
    check_what_is_kept,
)
from sordino.testing.rounds import play

MODES = {
    "fedceo, copies": {"name": "fedceo", "interval": 1},
    "fedceo, sum": {"name": "fedceo", "interval": 1, "personal": False},
    "fedceo, steps": {"name": "fedceo", "interval": 1, "noisy_steps": {"local_steps": 2, "batch_size": 5}},
    "udp-fedavg-svt, steps": {"name": "udp-fedavg-svt", "noisy_steps": {"local_steps": 2, "batch_size": 5}},
    "dp-sgd, momentum": {"name": "dp-sgd", "momentum": 0.5, "batch_size": 5},
    "dp-pfeddsu": {"name": "dp-pfeddsu", "layers": 1},
    "dp-pfeddsu, local": {"name": "dp-pfeddsu", "layers": 1, "mask": "local"},
    "dp-pfeddsu, dense noise": {"name": "dp-pfeddsu", "layers": 1, "mask": "local-dense-noise"},
    "pmtl-ft, restart": {"name": "pmtl-ft", "restart": True},
}
TABLES = {name: {"name": name} for name in names(METHODS) if name not in ("fedceo", "dp-pfeddsu")} | MODES


def path(kind):
    """How an experiment names a stranger."""
    return f"strangers:{kind.__name__}"


@pytest.mark.parametrize("check", CHECKS["method"], ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", TABLES)
def test_our_methods_keep_the_contract(method, check):
    check(TABLES[method])


REFUSED = {
    strangers.EachAsSum: "uses = 'sum' and was priced so, but it called collect_each",
    strangers.SumAsEach: "uses = 'each' and was priced so, but it called collect_sum",
    strangers.StepsAsClient: "unit = 'client' and was priced so, but it called collect_models",
    strangers.SumAsExample: "unit = 'example' and was priced so, but it called collect_sum",
    strangers.EachAsExample: "unit = 'example' and was priced so, but it called collect_each",
    strangers.UnitOfItsOwn: "needs a job of noisy steps",
    strangers.InOnePlace: "hides examples",
    strangers.BareSupport: "declares nothing as uncovered",
    strangers.KeepsInSecret: "declares that they keep nothing",
    strangers.NoisyUpload: "noise of their own",
    strangers.MoreSteps: "priced for 1 local steps, but handed over a job of 9",
    strangers.LargerBatches: "but handed over a job with rate 1",
    strangers.PlainSteps: "needs a job of noisy steps",
    strangers.PartOfAStep: "whole number of local_steps",
}


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_what_was_not_priced_is_refused_before_anything_is_charged(kind, tmp_path):
    with pytest.raises(SordinoError, match=REFUSED[kind]) as refusal:
        sordino.run(contract_table({"name": path(kind)}), out=tmp_path / "run")
    assert str(refusal.value).count(". ") == 0
    assert not (tmp_path / "run" / "ledger.jsonl").exists() or not read_lines(tmp_path / "run" / "ledger.jsonl")


STOPPED = {
    strangers.OldCoins: (SordinoError, "handed round 1, but it called a verb for round 0"),
    strangers.OneNumber: (SordinoError, r"must have shape \(460,\)"),
    strangers.OneStepTooMany: (SordinoError, "asked for one more"),
    strangers.BareModel: (SordinoError, "must return a released model"),
    strangers.OwnRows: (AttributeError, "data"),
    strangers.HookedSteps: (AttributeError, "net"),
    strangers.Peeking: (AttributeError, "data"),
    strangers.KeepsOpenly: (
        SordinoError,
        r"it assigned 'average'; return it in the state: \{\*\*state, 'average': …\}",
    ),
    strangers.Counting: (SordinoError, r"\(460 numbers\), but entry 'count' is an int; write torch.tensor"),
    strangers.ModelAlone: (SordinoError, "should return a dict of tensors .*, but it returned a Tensor; return"),
    strangers.StillReleased: (SordinoError, "entry 'model' is a Released; take its .value"),
    strangers.Modelless: (SordinoError, "there is no entry 'model'"),
    strangers.SpreadOut: (SordinoError, r"'model' has shape \(1, 460\)"),
}


@pytest.mark.parametrize("kind", STOPPED, ids=lambda kind: kind.__name__)
def test_what_would_break_a_promise_is_stopped(kind, tmp_path):
    error, sentence = STOPPED[kind]
    with pytest.raises(error, match=sentence):
        sordino.run(contract_table({"name": path(kind)}), out=tmp_path / "run")


CAUGHT = {
    strangers.EachAsSum: check_the_verb,
    strangers.GlobalStash: check_own_rows,
    strangers.SelfStash: check_own_rows,
    strangers.StashInARound: check_own_rows,
    strangers.BufferStash: check_own_rows,
    strangers.ForgottenHead: check_own_rows,
    strangers.SeeingServer: check_the_server,
    strangers.SeeingState: check_the_server,
}


@pytest.mark.parametrize("kind", CAUGHT, ids=lambda kind: kind.__name__)
def test_the_contract_catches_it(kind):
    with pytest.raises((Broken, SordinoError)):
        CAUGHT[kind](contract_table({"name": path(kind)}))


KEEPING = (strangers.KeepsByForce, strangers.KeepsInANotebook, strangers.KeepsBehindTheScenes)


@pytest.mark.parametrize("kind", KEEPING, ids=lambda kind: kind.__name__)
def test_what_is_kept_besides_the_state_is_found(kind):
    """A run that resumes would begin without it, and end in another model."""
    with pytest.raises(Broken, match="kept something outside its state between rounds; put it into the state"):
        check_what_is_kept(contract_table({"name": path(kind)}))


HARMLESS = {
    strangers.Proximal: (check_the_schedule, check_own_rows),
    strangers.Decaying: (check_the_schedule, check_own_rows),
    strangers.Rescaled: (check_the_schedule, check_own_rows),
    strangers.Zeros: (check_the_schedule,),
    strangers.TwoFaced: (check_the_rate, check_own_rows),
    strangers.TwiceARound: (check_the_verb, check_own_rows, check_the_server),
    strangers.StepsTwiceARound: (check_the_rate, check_own_rows),
}


@pytest.mark.parametrize(
    ("kind", "check"),
    [(kind, check) for kind, checks in HARMLESS.items() for check in checks],
    ids=lambda one: one.__name__,
)
def test_what_strangers_do_differently_is_done_and_priced_as_they_do_it(kind, check):
    check(contract_table({"name": path(kind)}))


def test_every_stranger_is_looked_at():
    methods = {one for _, one in inspect.getmembers(strangers, inspect.isclass) if one.__module__ == "strangers"}
    assert methods == {*REFUSED, *STOPPED, *CAUGHT, *KEEPING, *HARMLESS}


def test_a_verb_called_twice_is_paid_twice_and_draws_afresh(tmp_path):
    """From one draw, two sums would be one joint release, which costs more than two sampled ones."""
    privacy = {"noise_multiplier": 1.0, "clip_norm": 0.5, "expected_cohort": 6}
    table = contract_table({"name": "strangers:TwiceARound"}, rounds=6, privacy=privacy)
    table["data"] = {**table["data"], "clients": 12}
    twice = sordino.run(table, out=tmp_path / "twice")
    lines = read_lines(tmp_path / "twice" / "ledger.jsonl")
    assert [line.round for line in lines] == [number for number in range(6) for _ in range(2)]
    draws = [line.participants for line in lines]
    assert len(set(draws)) == 12
    longer = sordino.run({**table, "rounds": 12, "method": {"name": "dp-fedavg"}}, out=tmp_path / "longer")
    assert twice["epsilon"]["public"]["epsilon"] == longer["epsilon"]["public"]["epsilon"]


def test_steps_taken_twice_in_a_round_are_on_batches_of_their_own():
    found = play(contract_table({"name": "strangers:StepsTwiceARound"}))
    lines = found.seen.ledger.lines
    assert len(lines) == 2 * 2 * 4
    counts = list(found.seen.units.values())
    assert any(one[0] != one[1] for one in counts)


def test_a_run_that_calls_a_verb_twice_resumes_to_the_same_bits(tmp_path):
    def interrupt(moment):
        if moment.done == 1:
            raise KeyboardInterrupt

    table = contract_table({"name": "strangers:TwiceARound"}, rounds=3)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment(table), tmp_path / "broken", watch=interrupt)
    sordino.run(table, out=tmp_path / "broken", resume=True)
    sordino.run(table, out=tmp_path / "whole")
    for file in ("model.safetensors", "ledger.jsonl"):
        assert (tmp_path / "broken" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


def test_a_method_is_handed_the_protocols_members_and_nothing_else():
    view = play(contract_table({"name": "dp-fedavg"})).public
    public = {name for name in dir(view) if not name.startswith("_")}
    assert public == {name for name in dir(Federation) if not name.startswith("_")}
    with pytest.raises(AttributeError):
        view.tariff = None
    with pytest.raises(TypeError):
        view.sizes[0] = 1


def test_a_pull_that_strangers_add_is_at_work_where_others_are_stacked():
    """With no pull FedProx is plain SGD, in the bits of workers; with one it is not."""
    none, strong = (
        play(contract_table({"name": "strangers:Proximal", "pull": pull}), schedule="stacked").seen.uploads[0][0].value
        for pull in (0.0, 5.0)
    )
    plain = play(contract_table({"name": "dp-fedavg", "batch_size": 8})).seen.uploads[0][0].value
    assert torch.equal(none, plain)
    assert not torch.allclose(none, strong, rtol=0.1)


def test_the_contract_knows_verbs_by_itself(monkeypatch):
    """An engine that lets every verb pass is not believed."""
    monkeypatch.setattr(federation, "check_uploads", lambda *given, **known: None)
    with pytest.raises(Broken, match="calls \\['collect_each'\\]"):
        check_the_verb(contract_table({"name": "strangers:EachAsSum"}))


@pytest.mark.parametrize("method", [{"name": "strangers:Zeros"}, {"name": "centaur"}, {"name": "dp-sgd"}])
def test_stacking_asked_for_by_name_is_done_or_refused(method, tmp_path):
    table = contract_table(method, engine={"schedule": "stacked"})
    with pytest.raises(SordinoError, match="does not say how it is stacked"):
        sordino.run(table, out=tmp_path / "run")
    assert not (tmp_path / "run" / "experiment.json").exists()


def test_stacking_asked_for_a_model_that_is_no_chain_is_refused(tmp_path):
    table = contract_table({"name": "dp-fedavg"}, engine={"schedule": "stacked"}, model={"name": "cnn"})
    with pytest.raises(SordinoError, match="plain chain of dense layers"):
        sordino.run(table, out=tmp_path / "run")


def test_a_declaration_is_read_once():
    """A rate that changes once it was priced changes neither the price nor the draw."""
    method = DpSgd(batch_size=5)
    priced = priced_steps(method)
    assert priced.rate(50) == 0.1
    object.__setattr__(method, "batch_size", "full")
    object.__setattr__(method, "local_steps", 7)
    assert (priced.rate(50), priced.local_steps) == (0.1, 1)
    with pytest.raises(SordinoError, match="above 0 and up to 1"):
        priced_steps(dataclasses.replace(method, batch_size=-1)).rate(10)
