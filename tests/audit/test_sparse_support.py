"""The index set of a sparse update is data: what each form of dp-pfeddsu's mask shows to whoever sees uploads.

Canary clients push a weight of their own so far that it enters the mask of whoever chooses it from private weights. The
onlooker scores a canary by that weight in its upload, and takes an exact zero for a sure sign that it was not kept.
"""

import math

import numpy as np
import pytest
import torch
from audited import CLIP, run_of, told_apart
from scipy.stats import kstest
from torch import nn

import sordino
from sordino.audit.canaries import OVERSHOOT, Sighting, _coins, _rows
from sordino.audit.watched import watched_federation
from sordino.core import Private, SordinoError
from sordino.engine import federation as federation_module
from sordino.engine.client import runtime as runtime_module
from sordino.engine.resolved import resolve
from sordino.methods.dp_pfeddsu import DpPfedDsu, SparseTurn
from sordino.methods.method import Turn
from sordino.methods.sparse import flat_mask
from sordino.models import Net
from sordino.privacy.door import Permit

CANARIES, WEIGHTS = 400, 800
MULTIPLIER = 0.5
CONFIDENCE = 1 - 0.05 / 4
SURELY_OUT = -1e9
DEEP = {"name": "mlp", "hidden": [16, 8]}


def crafted_turn(self, start, own, examples, context):
    """The real form of an upload, around crafted weights."""
    private = start.clone()
    private[context.client] += OVERSHOOT * CLIP * float(examples.inputs.sum())
    masks = self.method.largest_of(private, context.space) if self.masks is None else self.masks
    support = flat_mask(context.space, masks, start.device)
    update = private - start
    if self.masks is not None:
        return Turn(update=update[support], personal=own)
    return Turn(update=update * support, personal=own, support=support)


def uploads_of_one_round(mask, included, *, canaries_are_kept):
    """What the server is sent by each canary client, in their order."""
    method = {"name": "dp-pfeddsu", "layers": 1, "share": 0.5, "mask": mask}
    table = run_of(clients=CANARIES, method=method, noise="local", noise_multiplier=MULTIPLIER)
    uploads = {}

    def watch(grant, part, upload):
        uploads[grant.client] = upload

    rows = [Private(_rows(torch.tensor([[float(coin)]]))) for coin in included]
    net = Net(body=nn.Linear(40, WEIGHTS // 40, bias=False), head=nn.Linear(WEIGHTS // 40, 2))
    start = torch.full((WEIGHTS,), 1e-3)
    start[:CANARIES] = 2e-3 if canaries_are_kept else 0.0
    dsu = resolve(table).method
    with watched_federation(table, dsu, rows, sizes=[1] * CANARIES, features=40, watch=watch, net=net) as federation:
        dsu.round(0, {"model": start}, federation)
    return [uploads[client] for client in range(CANARIES)]


def seen_by_the_server(mask, *, canaries_are_kept):
    """How far the server tells canaries apart that are in from those that are out. Proved and claimed: μ."""
    included = _coins(run_of(clients=CANARIES), CANARIES)
    uploads = uploads_of_one_round(mask, included, canaries_are_kept=canaries_are_kept)
    values = np.array([float(upload[client]) for client, upload in enumerate(uploads)])
    scores = np.where(values == 0, SURELY_OUT, values)
    sighting = Sighting(included=included, scores=scores, claimed_epsilon=math.inf, delta=1e-6)
    return told_apart(sighting, MULTIPLIER, CONFIDENCE)


@pytest.fixture
def crafted(monkeypatch):
    monkeypatch.setattr(SparseTurn, "turn", crafted_turn)


@pytest.mark.parametrize(
    ("mask", "kept"), [("global", True), ("local-dense-noise", True), ("local-dense-noise", False)]
)
@pytest.mark.usefixtures("crafted")
def test_a_covered_mask_shows_no_more_than_its_noise_allows(mask, kept):
    proved, claimed = seen_by_the_server(mask, canaries_are_kept=kept)
    assert 0 <= proved <= claimed


def charged_as_if_covered(patch):
    """The broken twin: masks from private weights, priced like a public one, with nobody to ask."""
    patch.setattr(DpPfedDsu, "uncovered", property(lambda self: ""))
    patch.setattr(federation_module, "check_on_support", lambda *given, **known: None)

    def unguarded(self, value, support):
        noisy = Permit.release(self, value)
        return noisy.map(lambda all_noisy: all_noisy * support._Private__value)

    patch.setattr(Permit, "release_on_support", unguarded)


@pytest.mark.usefixtures("crafted")
def test_the_twin_whose_private_mask_is_charged_as_a_global_one_is_caught(monkeypatch):
    charged_as_if_covered(monkeypatch)
    proved, claimed = seen_by_the_server("local", canaries_are_kept=False)
    assert proved > claimed


def half_the_noise(patch):
    right = Permit._noise
    patch.setattr(Permit, "_noise", lambda self, like, scale, verb, part: right(self, like, scale / 2, verb, part))


@pytest.mark.parametrize("mask", ["global", "local-dense-noise"])
@pytest.mark.usefixtures("crafted")
def test_half_the_noise_on_sparse_uploads_is_caught(mask, monkeypatch):
    half_the_noise(monkeypatch)
    proved, claimed = seen_by_the_server(mask, canaries_are_kept=True)
    assert proved > claimed


@pytest.mark.usefixtures("crafted")
def test_the_verb_and_the_door_refuse_a_private_support_that_was_charged_a_finite_epsilon(monkeypatch):
    monkeypatch.setattr(DpPfedDsu, "uncovered", property(lambda self: ""))
    with pytest.raises(SordinoError, match="declares nothing as uncovered"):
        seen_by_the_server("local", canaries_are_kept=False)
    monkeypatch.setattr(federation_module, "check_on_support", lambda *given, **known: None)
    with pytest.raises(SordinoError, match="leaves the support uncovered"):
        seen_by_the_server("local", canaries_are_kept=False)


@pytest.mark.usefixtures("crafted")
@pytest.mark.parametrize("mask", ["global", "local", "local-dense-noise"])
def test_every_coordinate_that_is_sent_has_the_noise_that_was_charged(mask):
    """Two-sided: 5 % too little or too much is rejected."""
    uploads = uploads_of_one_round(mask, np.zeros(CANARIES), canaries_are_kept=True)
    sent = torch.cat([upload[upload != 0] for upload in uploads])
    assert len(sent) == CANARIES * (WEIGHTS if mask == "local-dense-noise" else WEIGHTS // 2)
    standard = sent.double().numpy() / (MULTIPLIER * CLIP)
    assert kstest(standard, "norm").pvalue > 1e-3
    assert kstest(1.05 * standard, "norm").pvalue < 1e-6
    assert kstest(0.95 * standard, "norm").pvalue < 1e-6


def table_with(tiny, mask, **privacy):
    method = {"name": "dp-pfeddsu", "mask": mask, "layers": 2, "share": 0.1, "learning_rate": 0.1, "head_epochs": 1}
    return tiny(method=method, model=DEEP, rounds=1, privacy={"noise": "distributed", "sampler": "everyone", **privacy})


def uploads_and_private_masks(tiny, tmp_path, mask, monkeypatch, seed=3):
    """What the server was sent, and, for comparison, the largest weights of what each client really trained."""
    uploads, masks = [], []
    for name in ("release", "release_on_support"):
        right = getattr(Permit, name)
        monkeypatch.setattr(
            Permit,
            name,
            lambda self, *given, right=right, **named: uploads.append(right(self, *given, **named)) or uploads[-1],
        )
    train = SparseTurn._train

    def remembered(self, start, begin, examples, context):
        trained, after = train(self, start, begin, examples, context)
        private = self.method.largest_of(torch.cat([weight.flatten() for weight in trained]), context.space)
        masks.append(flat_mask(context.space, private, start.device))
        return trained, after

    monkeypatch.setattr(SparseTurn, "_train", remembered)
    sordino.run({**table_with(tiny, mask), "seed": seed}, out=tmp_path / f"{mask}-{seed}")
    assert len(uploads) == len(masks) == 12
    return [upload.value for upload in uploads], masks


def test_local_masks_can_be_read_off_the_uploads(tiny, tmp_path, monkeypatch):
    uploads, masks = uploads_and_private_masks(tiny, tmp_path, "local", monkeypatch)
    assert all(torch.equal(upload != 0, mask) for upload, mask in zip(uploads, masks, strict=True))
    assert any(not torch.equal(masks[0], mask) for mask in masks)


def test_dense_noise_hides_local_masks(tiny, tmp_path, monkeypatch):
    uploads, masks = uploads_and_private_masks(tiny, tmp_path, "local-dense-noise", monkeypatch)
    assert all((upload != 0).all() for upload in uploads)
    guesses = [
        upload.abs() >= upload.abs().topk(int(mask.sum())).values[-1]
        for upload, mask in zip(uploads, masks, strict=True)
    ]
    assert not any(torch.equal(guess, mask) for guess, mask in zip(guesses, masks, strict=True))


def test_a_global_mask_is_the_same_whatever_the_data(tiny, tmp_path, monkeypatch):
    uploads, masks = uploads_and_private_masks(tiny, tmp_path, "global", monkeypatch)
    assert len({upload.shape for upload in uploads}) == 1
    assert all((upload != 0).all() for upload in uploads)
    assert any(not torch.equal(masks[0], mask) for mask in masks)


def test_the_ledger_says_that_a_local_mask_leaves_the_support_uncovered(tiny, tmp_path):
    summary = sordino.run(table_with(tiny, "local"), out=tmp_path / "local")
    for entry in summary["epsilon"].values():
        assert entry["epsilon"] == math.inf
        assert "mask comes from its private weights" in entry["because"]
    assert any(warning.startswith("No ε holds") for warning in summary["warnings"])
    planned = sordino.plan(table_with(tiny, "local"))
    assert all(spent.epsilon == math.inf for spent in planned.epsilon.values())
    with pytest.raises(SordinoError, match="No noise can reach ε = 1"):
        sordino.plan(table_with(tiny, "local", epsilon=1.0, noise_multiplier=None))


@pytest.mark.parametrize("mask", ["global", "local-dense-noise"])
def test_covered_masks_have_the_full_guarantee(mask, tiny, tmp_path):
    table = table_with(tiny, mask)
    dense = {**table, "method": {"name": "dp-fedavg"}}
    mine, plain = (
        sordino.run(one, out=tmp_path / name)["epsilon"] for name, one in (("mine", table), ("plain", dense))
    )
    assert {view: entry["epsilon"] for view, entry in mine.items()} == {
        view: entry["epsilon"] for view, entry in plain.items()
    }


def test_an_upload_never_holds_the_personal_part(tiny, tmp_path, monkeypatch):
    """A client bounds and hands out its turn's update and nothing else of the turn."""
    given = []
    right = runtime_module.bound_update
    monkeypatch.setattr(
        runtime_module,
        "bound_update",
        lambda update, clip, **how: given.append(update) or right(update, clip, **how),
    )
    table = table_with(tiny, "local-dense-noise")
    summary = sordino.run(table, out=tmp_path / "run")
    assert given
    assert all(update._Private__value.numel() == summary["trained_parameters"] for update in given)
    assert summary["trained_parameters"] == summary["parameters"] - (8 * 10 + 10)
