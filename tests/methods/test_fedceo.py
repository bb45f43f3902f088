"""FedCEO: prices of every combination, equality with its ablation, and defined behaviour at the edges."""

import json
import math

import pytest
import torch
from safetensors.torch import load_file

import sordino
from sordino.core import Released, SordinoError
from sordino.engine.record import RunRecord
from sordino.methods.fedceo import FedCeo, ShrunkAverage, roughness
from sordino.methods.method import Upload
from sordino.methods.tensor_lowrank import singular_values
from sordino.models import FlatSpace, build
from sordino.privacy.event_kinds import GaussianDpEvent, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent
from sordino.privacy.ledger import read_lines

CEO = {"name": "fedceo", "epochs": 1, "batch_size": 16, "regularisation": 0.5, "growth": 1.1, "interval": 2}
FOUR = {"sampler": "fixed-size", "expected_cohort": 4, "noise_multiplier": 2.0}


def charges(table, tmp_path):
    sordino.run(table, out=tmp_path / "run")
    line = read_lines(tmp_path / "run" / "ledger.jsonl")[0]
    return {charge.view: charge.event for charge in line.charges}, line


SHARE, FULL = GaussianDpEvent(1.0), GaussianDpEvent(2.0)


def fixed(z):
    return SampledWithoutReplacementDpEvent(12, 4, GaussianDpEvent(z))


@pytest.mark.parametrize(
    ("noise", "personal", "public", "server", "client"),
    [
        ("distributed", False, fixed(2.0), SHARE, fixed(2.0 * math.sqrt(3 / 4))),
        ("local", False, fixed(4.0), FULL, fixed(2.0 * math.sqrt(3))),
        ("distributed", True, SHARE, SHARE, SHARE),
        ("local", True, FULL, FULL, FULL),
    ],
)
def test_every_placement_and_broadcast_is_priced_as_it_leaks(tiny, tmp_path, noise, personal, public, server, client):
    events, line = charges(tiny(method={**CEO, "personal": personal}, privacy={**FOUR, "noise": noise}), tmp_path)
    assert events == {"public": public, "server": server, "client": client}
    assert line.noise_multiplier == pytest.approx(1.0 if noise == "distributed" else 2.0)
    assert all(charge.because for charge in line.charges)


def test_noise_inside_steps_is_priced_per_example(tiny, tmp_path):
    table = tiny(
        method={"name": "fedceo", "interval": 2, "noisy_steps": {"local_steps": 1, "batch_size": 10}},
        privacy={"sampler": "everyone", "expected_cohort": None},
    )
    events, line = charges(table, tmp_path)
    assert line.unit == "example"
    assert all(isinstance(event, PoissonSampledDpEvent) for event in events.values())


def test_central_noise_cannot_serve_personal_copies(tiny, tmp_path):
    with pytest.raises(SordinoError, match="one by one"):
        sordino.run(tiny(method=CEO, privacy=FOUR), out=tmp_path / "run")


class Uploads:
    """A federation that gives fixed noisy updates, summed or one by one."""

    def __init__(self, space, updates):
        self.space, self.updates = space, updates
        self.expected_cohort, self.sizes = len(updates), [1] * len(updates)
        self.sent, self.notes = [], []

    def collect_sum(self, number, broadcast, job):
        return Released.public(self.updates.sum(0))

    def collect_each(self, number, broadcast, job):
        self.sent.append(broadcast)
        return [Upload(client=k, value=Released.public(update)) for k, update in enumerate(self.updates)]

    def diagnose(self, number, tensors):
        self.notes.append(tensors)


@pytest.fixture
def federation():
    net = build("mlp", shape=(1, 8, 8), classes=10, seed=1, hidden=[8])
    space = FlatSpace(net)
    torch.manual_seed(0)
    return Uploads(space, torch.randn(5, space.size)), space.read(net)


def test_without_personal_copies_it_is_the_thresholded_average(federation):
    uploads, start = federation
    setting = {"regularisation": 0.3, "growth": 1.05, "interval": 1}
    whole = FedCeo(**setting, personal=True).round(0, {"model": start}, uploads)["model"]
    average = FedCeo(**setting, personal=False).round(0, {"model": start}, uploads)["model"]
    named = ShrunkAverage(**setting).round(0, {"model": start}, uploads)["model"]
    torch.testing.assert_close(average, named, rtol=0, atol=0)
    torch.testing.assert_close(whole, average, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(average, start + uploads.updates.mean(0), atol=1e-3), "the threshold did nothing"


def test_personal_copies_are_sent_once_and_only_to_their_owners(federation):
    uploads, start = federation
    method = FedCeo(interval=2, regularisation=0.3)
    state = method.round(0, {"model": start}, uploads)
    assert "copies" not in state
    state = method.round(1, state, uploads)
    assert state["copy_owners"].tolist() == [0, 1, 2, 3, 4]
    after = method.round(2, state, uploads)
    assert torch.equal(uploads.sent[2].to(3).value, state["copies"][3])
    assert torch.equal(uploads.sent[2].to(99).value, state["model"])
    assert "copies" not in after
    assert not uploads.sent[1].personal


def test_copies_kept_until_the_next_turn_wait_for_owners_who_were_not_drawn(federation):
    uploads, start = federation
    method = FedCeo(interval=2, regularisation=0.3, copies="next-turn")
    state = method.round(1, {"model": start}, uploads)
    smoothed = state["copies"]
    uploads.updates = uploads.updates[:2]
    after = method.round(2, state, uploads)
    assert after["copy_owners"].tolist() == [2, 3, 4], "clients 0 and 1 had their turn"
    assert torch.equal(uploads.sent[1].to(1).value, smoothed[1])
    later = method.round(4, after, uploads)
    assert later["copy_owners"].tolist() == [2, 3, 4]
    assert torch.equal(uploads.sent[2].to(4).value, smoothed[4])
    assert torch.equal(uploads.sent[2].to(1).value, after["model"])
    again = method.round(3, after, uploads)
    assert sorted(again["copy_owners"].tolist()) == [0, 1, 2, 3, 4], "new copies join those that still wait"


def test_the_public_code_restarts_everyone_from_what_was_sent_last(federation):
    uploads, start = federation
    method = FedCeo(interval=2, regularisation=0.3, copies="public-code")
    state = method.round(0, {"model": start}, uploads)
    assert state["copy_owners"].tolist() == [0, 1, 2, 3, 4]
    assert torch.equal(state["copies"], start + uploads.updates), "unsmoothed models are kept too"
    uploads.updates = uploads.updates[:2]
    smoothed = method.round(1, state, uploads)
    assert not uploads.sent[1].personal, "between smoothings everyone starts from the average"
    method.round(2, smoothed, uploads)
    copies = dict(zip(smoothed["copy_owners"].tolist(), smoothed["copies"], strict=True))
    assert torch.equal(uploads.sent[2].to(0).value, copies[0])
    assert torch.equal(uploads.sent[2].to(4).value, state["copies"][4]), "however old, and not smoothed"
    assert torch.equal(uploads.sent[2].to(99).value, smoothed["model"]), "who was never seen starts from the average"


@pytest.mark.parametrize("copies", ["next-turn", "public-code"])
def test_waiting_copies_are_priced_one_by_one_and_need_personal_ones(copies, tiny, tmp_path):
    events, _ = charges(tiny(method={**CEO, "copies": copies}, privacy={**FOUR, "noise": "distributed"}), tmp_path)
    assert events == {"public": SHARE, "server": SHARE, "client": SHARE}
    with pytest.raises(SordinoError, match="how long personal copies wait"):
        FedCeo(copies=copies, personal=False)


def test_huge_regularisation_and_long_intervals_are_plain_averaging(federation):
    uploads, start = federation
    plain = start + uploads.updates.mean(0)
    for method in (
        FedCeo(regularisation=1e12, interval=1),
        FedCeo(interval=10),
        FedCeo(regularisation=1e12, interval=1, personal=False),
    ):
        torch.testing.assert_close(method.round(0, {"model": start}, uploads)["model"], plain, rtol=1e-4, atol=1e-5)


def test_only_the_chosen_layers_are_smoothed(federation):
    uploads, start = federation
    method = FedCeo(regularisation=0.05, interval=1, layers=("head",))
    model = uploads.space.views(method.round(0, {"model": start}, uploads)["model"])
    plain = uploads.space.views(start + uploads.updates.mean(0))
    torch.testing.assert_close(model["body.1.weight"], plain["body.1.weight"])
    assert not torch.allclose(model["head.weight"], plain["head.weight"], atol=1e-2)
    with pytest.raises(SordinoError, match="names none"):
        FedCeo(interval=1, layers=("tail",)).round(0, {"model": start}, uploads)


def test_a_cohort_of_one_and_an_empty_cohort_are_defined(federation):
    uploads, start = federation
    uploads.updates = uploads.updates[:1]
    assert torch.isfinite(FedCeo(interval=1).round(0, {"model": start}, uploads)["model"]).all()
    uploads.updates = uploads.updates[:0]
    assert torch.equal(FedCeo(interval=1).round(0, {"model": start}, uploads)["model"], start)


def test_a_cohort_that_shrinks_mid_run_is_smoothed_as_it_is(tiny, tmp_path):
    budgets = [2.0 if client % 2 else 50.0 for client in range(12)]
    privacy = {
        "client_epsilon": budgets,
        "view": "server",
        "noise": "local",
        "sampler": "everyone",
        "noise_multiplier": 3.0,
        "expected_cohort": None,
    }
    sordino.run(tiny(rounds=6, method=CEO, privacy=privacy), out=tmp_path / "run")
    lines = read_lines(tmp_path / "run" / "ledger.jsonl")
    assert len(lines[0].participants) == 12
    assert len(lines[-1].participants) == 6


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"regularisation": 0.0}, "regularisation should be greater than 0"),
        ({"regularisation": -1.0}, "regularisation should be greater than 0"),
        ({"growth": 0.9}, "growth should be greater than or equal to 1"),
        ({"interval": 0}, "interval should be greater than or equal to 1"),
    ],
)
def test_bad_settings_get_a_sentence(tiny, tmp_path, setting, sentence):
    with pytest.raises(SordinoError, match=sentence):
        sordino.run(tiny(method={**CEO, **setting}, privacy={"noise": "local"}), out=tmp_path / "run")


def test_a_parameter_with_more_than_four_axes_is_refused():
    net = torch.nn.Conv3d(1, 2, 2)
    space = FlatSpace(net)
    uploads = Uploads(space, torch.randn(3, space.size))
    with pytest.raises(SordinoError, match="at most 4 axes"):
        FedCeo(interval=1).round(0, {"model": space.read(net)}, uploads)


def test_the_plan_prints_the_threshold_schedule(tiny):
    facts = sordino.plan(tiny(method=CEO, privacy={"noise": "local"})).to_json()["method_facts"]
    assert facts["smoothing"] == "2 times, threshold τ = 1.1 in round 2, 1.21 in round 4"
    assert "never" in FedCeo(interval=9).plan_facts(4)["smoothing"]


def test_spectra_and_roughness_go_to_the_record_as_non_private(tiny, tmp_path):
    sordino.run(tiny(method=CEO, privacy={**FOUR, "noise": "distributed"}), out=tmp_path / "run")
    found = RunRecord(tmp_path / "run").read_diagnostics()
    assert set(found) == {2, 4}
    assert found[2]["roughness before smoothing"].shape == (10, 4)
    assert found[2]["singular values before smoothing, head.weight"].shape == (3, 8)
    assert (found[2]["roughness after smoothing"].mean() < found[2]["roughness before smoothing"].mean()).item()
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["non_private_diagnostics"]["folders"] == [
        "non-private-diagnostics"
    ]


def test_recorded_spectra_are_those_of_the_models(federation):
    uploads, start = federation
    models, threshold = start + uploads.updates, 4.0
    smoothed, images = FedCeo().smooth_models(models, threshold, uploads.space)
    for when, stack in (("before", models), ("after", smoothed)):
        for name, view in uploads.space.views(stack).items():
            if view.dim() > 2:
                found = images.pop(f"singular values {when} smoothing, {name}")
                torch.testing.assert_close(found, singular_values(view), rtol=1e-4, atol=1e-4)
    assert set(images) == {"roughness before smoothing", "roughness after smoothing"}


def test_roughness_is_zero_for_equal_clients_and_the_laplacian_otherwise():
    net = build("logistic", shape=(1, 2, 2), classes=2, seed=1)
    space = FlatSpace(net)
    one = space.read(net)
    assert roughness(torch.stack([one, one]), space).abs().max() < 1e-6
    other = one.clone()
    other[0] += 2.0
    torch.testing.assert_close(
        roughness(torch.stack([one, other]), space), torch.tensor([[2.0, 2.0], [0.0, 0.0]]), atol=1e-4, rtol=1e-4
    )


def test_resuming_keeps_personal_copies(tiny, tmp_path):
    from sordino.engine.moment import Moment
    from sordino.engine.run import run_experiment
    from sordino.experiment import experiment

    table = tiny(method=CEO, privacy={**FOUR, "noise": "distributed"})

    def interrupt(moment: Moment) -> None:
        if moment.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment(table), tmp_path / "broken", watch=interrupt)
    sordino.run(table, out=tmp_path / "broken", resume=True)
    sordino.run(table, out=tmp_path / "whole")
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("broken", "whole"))
    assert all(torch.equal(one[key], two[key]) for key in one)
