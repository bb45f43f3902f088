"""PPSGD and CENTAUR with noisy steps: what they equal, what they charge, what is sent and what stays home."""

import pytest
import torch
from safetensors.torch import load_file

import sordino
from sordino.core import SordinoError
from sordino.privacy.event_kinds import PoissonSampledDpEvent, SelfComposedDpEvent
from sordino.privacy.ledger import read_lines

STEPS = {"local_steps": 3, "batch_size": 10, "learning_rate": 0.2, "momentum": 0.5}
DEEP = {"name": "mlp", "hidden": [8]}
FIXED = {"sampler": "fixed-size", "expected_cohort": 4}


def table(tiny, name, **changes):
    settings = {**STEPS, **changes.pop("method", {})}
    return tiny(
        rounds=2,
        model=DEEP,
        method={"name": name, **settings},
        data={"client_test_rows": 0},
        privacy={**FIXED, **changes.pop("privacy", {})},
        **changes,
    )


def state_after(folder):
    return load_file(folder / "checkpoint.safetensors")["model"]


def kept_after(folder):
    return load_file(folder / "private-to-each-client" / "after-00002-rounds.safetensors")


def test_ppsgd_steps_with_the_personal_part_frozen_are_dp_sgd_in_clients(tiny, tmp_path):
    sordino.run(table(tiny, "dp-sgd"), out=tmp_path / "plain")
    sordino.run(table(tiny, "ppsgd-steps", method={"personal_step_ratio": 0.0}), out=tmp_path / "frozen")
    sordino.run(table(tiny, "ppsgd-steps"), out=tmp_path / "free")
    torch.testing.assert_close(state_after(tmp_path / "plain"), state_after(tmp_path / "frozen"))
    assert not torch.allclose(state_after(tmp_path / "plain"), state_after(tmp_path / "free"), atol=1e-3)
    assert all(not own.any() for own in kept_after(tmp_path / "frozen").values())
    assert all(own.any() for own in kept_after(tmp_path / "free").values())


@pytest.mark.parametrize("name", ["ppsgd-steps", "centaur-steps"])
def test_every_step_is_charged_per_example(name, tiny, tmp_path):
    sordino.run(table(tiny, name), out=tmp_path / "run")
    for line in read_lines(tmp_path / "run" / "ledger.jsonl"):
        assert (line.unit, line.releases) == ("example", STEPS["local_steps"])
        for charge in line.charges:
            event = charge.event
            assert isinstance(event, SelfComposedDpEvent) and event.count == STEPS["local_steps"]
            assert isinstance(event.event, PoissonSampledDpEvent)


def test_heads_of_centaur_steps_move_at_home_and_never_leave(tiny, tmp_path):
    sordino.run(table(tiny, "centaur-steps") | {"rounds": 1}, out=tmp_path / "one")
    before = load_file(tmp_path / "one" / "model.safetensors")
    sordino.run(table(tiny, "centaur-steps"), out=tmp_path / "two")
    after = load_file(tmp_path / "two" / "model.safetensors")
    heads = [key for key in before if key.startswith("head")]
    assert heads and all(torch.equal(before[key], after[key]) for key in heads)
    assert any(not torch.equal(before[key], after[key]) for key in before if key not in heads)
    start = torch.cat([before[key].flatten() for key in ("head.weight", "head.bias")])
    kept = kept_after(tmp_path / "two")
    assert kept and all(not torch.equal(own, start) for own in kept.values())
    assert len({tuple(own.tolist()) for own in kept.values()}) == len(kept)


def test_without_noise_a_head_step_is_the_clipped_gradient_of_the_head_alone(tiny, tmp_path):
    """One head step from zero noise: the head moves by at most rate x clip, and the extractor by the same bound."""
    quiet = {"noise_multiplier": 0.0, "clip_norm": 0.25, "sampler": "everyone", "expected_cohort": None}
    method = {"local_steps": 2, "head_steps": 1, "head_learning_rate": 1.0, "learning_rate": 1.0, "batch_size": "full"}
    method["momentum"] = 0.0
    experiment = table(tiny, "centaur-steps", method=method, privacy=quiet) | {"rounds": 1}
    sordino.run(experiment, out=tmp_path / "run")
    start = load_file(tmp_path / "run" / "model.safetensors")
    head = torch.cat([start[key].flatten() for key in ("head.weight", "head.bias")])
    kept = load_file(tmp_path / "run" / "private-to-each-client" / "after-00001-rounds.safetensors")
    moved = [float((own - head).norm()) for own in kept.values()]
    assert len(moved) == 12
    assert all(0.01 < norm <= 0.25 + 1e-6 for norm in moved)


def test_a_resumed_run_keeps_what_clients_kept(tiny, tmp_path):
    from sordino.engine.moment import Moment
    from sordino.engine.run import run_experiment
    from sordino.experiment import experiment

    settings = table(tiny, "ppsgd-steps")

    def interrupt(moment: Moment) -> None:
        if moment.done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment(settings), tmp_path / "broken", watch=interrupt)
    sordino.run(settings, out=tmp_path / "broken", resume=True)
    sordino.run(settings, out=tmp_path / "whole")
    assert torch.equal(state_after(tmp_path / "broken"), state_after(tmp_path / "whole"))


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("centaur-steps", {"head_steps": 3}, "should leave some of the local steps to the extractor"),
        ("centaur-steps", {"head_steps": 0}, "head_steps should be greater than or equal to 1"),
        ("ppsgd-steps", {"personal_step_ratio": -1.0}, "personal_step_ratio should be greater than or equal to 0"),
        ("ppsgd-steps", {"learning_rate": "auto"}, "learning_rate should be a number here"),
    ],
    ids=["no-extractor-step", "no-head-step", "negative-ratio", "open-rate"],
)
def test_bad_settings_get_a_sentence(name, settings, sentence, tiny):
    with pytest.raises(SordinoError, match=sentence):
        sordino.plan(table(tiny, name, method=settings))


def test_a_model_without_a_body_is_refused(tiny):
    with pytest.raises(SordinoError, match="without both"):
        sordino.plan(table(tiny, "centaur-steps") | {"model": {"name": "logistic"}})
