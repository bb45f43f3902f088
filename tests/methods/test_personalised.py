"""The personalised family: what equals what, what stays home, and what the traps of published code would change."""

import io
import json
import math

import pytest
import torch
from safetensors.torch import load_file

import sordino
from sordino.core import SordinoError
from sordino.engine.run import Run
from sordino.experiment import experiment
from sordino.methods.pmtl_ft import PmtlFt
from sordino.methods.sparse import largest, norm_pull, regrown

LOCAL = {"epochs": 1, "batch_size": 16, "learning_rate": 0.1, "momentum": 0.5, "weight_decay": 1e-3}
HEADS = {"head_epochs": 1, "head_learning_rate": 0.1}
DEEP = {"name": "mlp", "hidden": [16, 8]}
PERSONAL = ["centaur", "dp-fedavg-fb", "dp-pfeddsu", "pmtl-ft", "ppsgd"]


def method(name, **settings):
    heads = {} if name == "dp-fedavg" else HEADS
    layers = {"layers": 2} if name == "dp-pfeddsu" else {}
    return {"name": name, **LOCAL, **heads, **layers, **settings}


def checkpoint_after(tiny, folder, method, **changes):
    sordino.run(tiny(method=method, model=DEEP, **changes), out=folder)
    return load_file(folder / "checkpoint.safetensors")["model"]


def personal_after(folder, rounds=4):
    return load_file(folder / "private-to-each-client" / f"after-{rounds:05d}-rounds.safetensors")


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text())


@pytest.mark.parametrize("model", [DEEP, {"name": "cnn", "features": 8}], ids=["mlp", "cnn"])
def test_dp_pfeddsu_that_keeps_everything_is_centaur_to_the_last_bit(model, tiny, tmp_path):
    for name, settings in (("centaur", {}), ("dp-pfeddsu", {"share": 1.0, "norm_weight": 0.0})):
        sordino.run(tiny(method=method(name, **settings), model=model, rounds=3), out=tmp_path / name)
    models = [load_file(tmp_path / name / "checkpoint.safetensors")["model"] for name in ("centaur", "dp-pfeddsu")]
    assert torch.equal(*models)
    heads = [personal_after(tmp_path / name, 3) for name in ("centaur", "dp-pfeddsu")]
    assert heads[0].keys() == heads[1].keys()
    assert all(torch.equal(heads[0][client], heads[1][client]) for client in heads[0])


def test_heads_alone_are_centaur_whose_extractor_does_not_move(tiny, tmp_path):
    still = {"privacy": {"clip_norm": 1e-9, "noise_multiplier": 0.0, "sampler": "everyone", "expected_cohort": None}}
    alone = method("centaur", extractor="frozen")
    start = checkpoint_after(tiny, tmp_path / "alone", alone, rounds=2, **still)
    checkpoint_after(tiny, tmp_path / "centaur", method("centaur"), rounds=2, **still)
    heads, beside = (personal_after(tmp_path / name, 2) for name in ("alone", "centaur"))
    assert len(heads) == 12
    for client, head in heads.items():
        torch.testing.assert_close(head, beside[client], atol=1e-5, rtol=1e-4)
    more = checkpoint_after(tiny, tmp_path / "more", method("centaur", extractor="frozen"), rounds=3, **still)
    assert torch.equal(start, more), "nothing that clients do reaches the extractor"
    assert summary_of(tmp_path / "alone")["bytes_up"] == 0
    named = checkpoint_after(tiny, tmp_path / "named", method("heads-alone"), rounds=2, **still)
    assert torch.equal(start, named)
    by_name = personal_after(tmp_path / "named", 2)
    assert all(torch.equal(heads[client], by_name[client]) for client in heads), "the control's own name is the same"
    with pytest.raises(SordinoError, match="extractor should be"):
        sordino.plan(tiny(method=method("centaur", extractor="still"), model=DEEP))
    with pytest.raises(SordinoError, match=r"extractor should be .frozen"):
        sordino.plan(tiny(method=method("heads-alone", extractor="shared"), model=DEEP))


def test_heads_are_tuned_over_the_dense_extractor_unless_told_otherwise(tiny, tmp_path):
    heads = {}
    for name, settings in (
        ("usual", {}),
        ("dense", {"head_extractor": "dense"}),
        ("masked", {"head_extractor": "masked"}),
    ):
        checkpoint_after(tiny, tmp_path / name, method("dp-pfeddsu", share=0.2, **settings), rounds=1)
        heads[name] = personal_after(tmp_path / name, 1)
    assert all(torch.equal(heads["usual"][client], heads["dense"][client]) for client in heads["usual"])
    assert any(not torch.equal(heads["usual"][client], heads["masked"][client]) for client in heads["usual"])


def test_ppsgd_with_the_personal_part_frozen_at_zero_is_dp_fedavg(tiny, tmp_path):
    plain = checkpoint_after(tiny, tmp_path / "plain", method("dp-fedavg"))
    frozen = checkpoint_after(tiny, tmp_path / "frozen", method("ppsgd", personal_step_ratio=0.0))
    free = checkpoint_after(tiny, tmp_path / "free", method("ppsgd", personal_step_ratio=1.0))
    assert torch.equal(plain, frozen)
    assert not torch.equal(plain, free)
    assert all(not own.any() for own in personal_after(tmp_path / "frozen").values())


def test_pmtl_without_penalty_is_dp_fedavg_fb(tiny, tmp_path):
    """From the mean in every turn; with models that persist, in each client's first turn."""
    fb = checkpoint_after(tiny, tmp_path / "fb", method("dp-fedavg-fb"))
    restarted = checkpoint_after(tiny, tmp_path / "restarted", method("pmtl-ft", mean_weight=0.0, restart=True))
    assert torch.equal(fb, restarted)
    first = checkpoint_after(tiny, tmp_path / "fb1", method("dp-fedavg-fb"), rounds=1)
    persistent = checkpoint_after(tiny, tmp_path / "one", method("pmtl-ft", mean_weight=0.0), rounds=1)
    assert torch.equal(first, persistent)


def test_a_persistent_model_goes_on_from_where_it_was(tiny, tmp_path):
    every = {"privacy": {"sampler": "everyone"}}
    restarted = checkpoint_after(
        tiny, tmp_path / "a", method("pmtl-ft", mean_weight=0.0, restart=True), rounds=2, **every
    )
    persistent = checkpoint_after(tiny, tmp_path / "b", method("pmtl-ft", mean_weight=0.0), rounds=2, **every)
    assert not torch.equal(restarted, persistent)


def test_the_penalty_to_the_mean_has_a_gradient():
    """A penalty built from detached copies has none; this would catch it."""
    weights, mean = [torch.tensor([3.0, -1.0])], [torch.tensor([1.0, 1.0])]
    held = PmtlFt(mean_weight=0.5)._held_to(mean, weights, iter([[torch.zeros(2)], [torch.zeros(2)]]))
    assert next(held)[0].tolist() == [1.0, -1.0]
    weights[0] += 2
    assert next(held)[0].tolist() == [2.0, 0.0]


def test_the_penalty_keeps_models_nearer_to_the_mean(tiny, tmp_path):
    def distance(weight):
        folder = tmp_path / str(weight)
        mean = checkpoint_after(tiny, folder, method("pmtl-ft", mean_weight=weight))
        return sum(float((own - mean).norm()) for own in personal_after(folder).values())

    assert distance(5.0) < distance(0.0)


def test_the_pull_of_the_norm_is_zero_where_nothing_moved_and_points_to_the_bound():
    assert norm_pull([torch.zeros(3), torch.zeros(2)], bound=1.0, weight=0.2)[0].tolist() == [0, 0, 0]
    for length, outward in ((0.5, -1), (2.0, 1)):
        moved = torch.tensor([0.6, 0.8], requires_grad=True)
        loss = 0.2 / 2 * (torch.linalg.vector_norm(length * moved) - 1.0).abs()
        expected = torch.autograd.grad(loss, moved)[0] / length
        (pull,) = norm_pull([length * moved.detach()], bound=1.0, weight=0.2)
        assert torch.allclose(pull, expected)
        assert math.copysign(1, pull[0]) == outward


def test_the_pull_and_the_mask_change_what_is_learnt(tiny, tmp_path):
    models = [
        checkpoint_after(tiny, tmp_path / f"{k}", method("dp-pfeddsu", **settings))
        for k, settings in enumerate(
            ({"share": 1.0, "norm_weight": 0.0}, {"share": 0.2, "norm_weight": 0.0}, {"share": 0.2, "norm_weight": 0.5})
        )
    ]
    assert not torch.equal(models[0], models[1])
    assert not torch.equal(models[1], models[2])


@pytest.mark.parametrize("through", ["all", "kept", "larger"])
def test_which_weights_a_step_moves_is_a_choice(through, tiny, tmp_path):
    settings = {"mask": "local-dense-noise", "straight_through": through, "share": 0.1}
    settings |= {"backward_share": 0.5} if through == "larger" else {}
    quiet = {"privacy": {"noise_multiplier": 0.0, "sampler": "everyone"}}
    model = checkpoint_after(tiny, tmp_path / through, method("dp-pfeddsu", **settings), rounds=1, **quiet)
    other = "kept" if through == "all" else "all"
    changed = {"mask": "local-dense-noise", "straight_through": other, "share": 0.1}
    assert not torch.equal(
        model, checkpoint_after(tiny, tmp_path / "other", method("dp-pfeddsu", **changed), rounds=1, **quiet)
    )


def test_masks_keep_the_largest_and_regrow_in_the_open():
    weight = torch.tensor([[0.1, -4.0, 0.3], [2.0, -0.2, 1.0]])
    mask = largest(weight, 0.5)
    assert mask.tolist() == [[False, True, False], [True, False, True]]
    assert largest(weight, 0.01).sum() == 1
    again = [regrown(mask, weight, 0.34, torch.Generator().manual_seed(5)) for _ in range(2)]
    assert torch.equal(*again)
    assert again[0].sum() == mask.sum()
    assert not again[0][1, 2]
    assert (again[0] & ~mask).sum() == 1


def test_only_kept_coordinates_move_and_mask_turnover_is_told(tiny, tmp_path):
    table = tiny(method=method("dp-pfeddsu", share=0.1, regrowth=0.5), model=DEEP, engine={"evaluate_every": 1})
    sordino.run(table, out=tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[0]["mask_turnover"] == 0
    assert all(0 < row["mask_turnover"] <= 1 for row in rows[1:])
    frozen = checkpoint_after(tiny, tmp_path / "one", method("dp-pfeddsu", share=0.1), rounds=1)
    state = load_file(tmp_path / "one" / "checkpoint.safetensors")
    begin = start_of(tiny)
    assert torch.equal(frozen != begin, state["mask"])


def start_of(tiny):
    from pathlib import Path

    from sordino.engine.resolved import resolve
    from sordino.engine.setup import prepare

    checked = experiment(tiny(method=method("dp-pfeddsu"), model=DEEP))
    setup = prepare(resolve(checked), folder=Path(), progress=lambda done, total: None)
    return setup.space.read(setup.net)


@pytest.mark.parametrize("name", PERSONAL)
def test_every_client_is_tested_on_its_own_mix_outside_the_guarantee(name, tiny, tmp_path):
    table = tiny(method=method(name), model=DEEP, data={"late_clients": 3})
    summary = sordino.run(table, out=tmp_path / "run")
    figures = summary["non_private_diagnostics"]["non_private_clients"]
    assert summary["clients"] == figures["clients"] == 9
    assert figures["newcomers"]["clients"] == 3
    for group in (figures, figures["newcomers"]):
        assert 0 <= group["worst_tenth"] <= group["mean"] <= 1
    assert any("outside ε" in warning for warning in summary["warnings"])


def test_a_secure_run_shows_nothing_of_its_clients(tiny, tmp_path):
    secure = {"data": {"test": "public-split"}, "privacy": {"noise_source": "secure"}}
    table = tiny(method=method("centaur"), model=DEEP, rounds=2, **secure)
    summary = sordino.run(table, out=tmp_path / "run")
    assert summary["non_private_diagnostics"] == {}
    assert "non_private_clients" not in (tmp_path / "run" / "metrics.jsonl").read_text()


def test_plain_methods_are_tested_on_the_same_rows_when_asked(tiny, tmp_path):
    plain = sordino.run(tiny(model=DEEP, data={"client_test_rows": 50}), out=tmp_path / "plain")
    assert plain["non_private_diagnostics"]["non_private_clients"]["clients"] == 12
    silent = sordino.run(tiny(model=DEEP), out=tmp_path / "silent")
    assert "non_private_clients" not in silent["non_private_diagnostics"]


def test_heads_stay_home(tiny, tmp_path):
    shared = checkpoint_after(tiny, tmp_path / "run", method("centaur"))
    heads = personal_after(tmp_path / "run")
    summary = summary_of(tmp_path / "run")
    assert shared.numel() == summary["trained_parameters"] == 64 * 16 + 16 + 16 * 8 + 8
    assert all(head.numel() == 8 * 10 + 10 for head in heads.values())
    uploads = sum(
        len(json.loads(line)["participants"])
        for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()[1:]
    )
    assert summary["bytes_up"] == 4 * shared.numel() * uploads
    assert len(heads) <= 12


def test_sparse_uploads_are_sent_sparse_and_counted(tiny, tmp_path):
    dense = 16 + 8
    sizes = {"global": dense + 103 + 13, "local-dense-noise": 64 * 16 + 16 * 8 + dense, "local": None}
    for mask, numbers in sizes.items():
        table = tiny(
            method=method("dp-pfeddsu", mask=mask, share=0.1),
            model=DEEP,
            rounds=1,
            privacy={"noise": "distributed", "sampler": "everyone"},
        )
        summary = sordino.run(table, out=tmp_path / mask)
        values = sizes["global"] + (64 * 16 + 16 * 8) / 32 if numbers is None else numbers
        assert summary["bytes_up"] == 12 * 4 * values
        plan = sordino.plan(table).to_json()
        assert plan["bytes_per_client_and_round"] == 4 * values + 4 * summary["trained_parameters"]


@pytest.mark.parametrize("name", ["centaur", "ppsgd", "pmtl-ft", "dp-pfeddsu"])
def test_personal_state_survives_a_crash_to_the_same_bits(name, tiny, tmp_path, monkeypatch):
    table = tiny(method=method(name), model=DEEP, engine={"checkpoint_every": 2})
    sordino.run(table, out=tmp_path / "whole")

    class Cut(Exception):
        pass

    right = Run.save

    def crash(self, rounds_done):
        if rounds_done == 4:
            raise Cut
        right(self, rounds_done)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "save", crash)
        with pytest.raises(Cut):
            sordino.run(table, out=tmp_path / "cut")
    assert list(personal_after(tmp_path / "cut", 2))
    sordino.run(table, out=tmp_path / "cut", resume=True)
    whole, cut = personal_after(tmp_path / "whole"), personal_after(tmp_path / "cut")
    assert whole.keys() == cut.keys()
    assert all(torch.equal(whole[client], cut[client]) for client in whole)
    models = [load_file(tmp_path / run / "checkpoint.safetensors")["model"] for run in ("whole", "cut")]
    assert torch.equal(*models)
    metrics = [(tmp_path / run / "metrics.jsonl").read_text() for run in ("whole", "cut")]
    assert metrics[0] == metrics[1]


def test_a_missing_personal_file_is_one_sentence(tiny, tmp_path, monkeypatch):
    table = tiny(method=method("centaur"), model=DEEP)
    monkeypatch.setattr(Run, "_finish", lambda self, ended: {})
    sordino.run(table, out=tmp_path / "run")
    next((tmp_path / "run" / "private-to-each-client").iterdir()).unlink()
    with pytest.raises(SordinoError, match="missing or damaged"):
        sordino.run(table, out=tmp_path / "run", resume=True)


def test_the_number_of_workers_changes_no_bit(tiny, tmp_path):
    models = [
        checkpoint_after(tiny, tmp_path / str(count), method("dp-pfeddsu"), engine={"workers": count})
        for count in (1, 3)
    ]
    assert torch.equal(*models)
    heads = [personal_after(tmp_path / str(count)) for count in (1, 3)]
    assert all(torch.equal(heads[0][client], heads[1][client]) for client in heads[0])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"share": 0.0}, "greater than 0"),
        ({"share": 1.5}, "less than or equal to 1"),
        ({"layers": 3}, "more sparse layers than the shared part has, which is 2"),
        ({"layers": 0}, "greater than or equal to 1"),
        ({"mask": "local", "straight_through": "larger", "backward_share": 0.01}, "raise backward_share"),
        ({"mask": "local-dense-noise", "regrowth": 0.5}, "regrowth = 0"),
        ({"mask": "local"}, "noise = 'distributed'"),
        ({"mask": "private"}, "'global', 'local'"),
    ],
)
def test_bad_settings_of_dp_pfeddsu_are_one_sentence(settings, sentence, tiny, tmp_path):
    with pytest.raises(SordinoError, match=sentence):
        sordino.run(tiny(method=method("dp-pfeddsu", **settings), model=DEEP), out=tmp_path / "run")


@pytest.mark.parametrize("name", ["centaur", "dp-pfeddsu"])
@pytest.mark.parametrize(
    "changes", [{"model": {"name": "logistic"}}, {"model": DEEP, "tuning": {"name": "head"}}], ids=["model", "tuning"]
)
def test_a_head_that_is_all_there_is_leaves_nothing_to_share(name, changes, tiny, tmp_path):
    table = tiny(method=method(name, **({"layers": 1} if name == "dp-pfeddsu" else {})), **changes)
    with pytest.raises(SordinoError, match="nothing would be shared"):
        sordino.run(table, out=tmp_path / "run")
    with pytest.raises(SordinoError, match="nothing would be shared"):
        sordino.plan(table)


@pytest.mark.parametrize("name", PERSONAL)
def test_clients_with_one_class_and_with_one_example_take_part(name, tiny, tmp_path):
    classes = {"partition": {"name": "classes", "classes_per_client": 1}}
    figures = sordino.run(tiny(method=method(name), model=DEEP, rounds=2, data=classes), out=tmp_path / "one-class")
    assert 0 <= figures["non_private_diagnostics"]["non_private_clients"]["mean"] <= 1
    single = {"clients": 12, "options": {"limit": 12}, "partition": {"name": "iid"}}
    changes = {"rounds": 2, "data": single, "privacy": {"sampler": "everyone"}}
    assert torch.isfinite(checkpoint_after(tiny, tmp_path / "one-example", method(name), **changes)).all()


def test_kept_state_needs_a_sampler_whose_coins_are_fresh(tiny, tmp_path):
    fixed = {"privacy": {"sampler": "fixed-size"}}
    with pytest.raises(SordinoError, match="sampler = 'poisson'"):
        sordino.run(tiny(method=method("centaur"), model=DEEP, **fixed), out=tmp_path / "run")
    sordino.run(tiny(method=method("dp-fedavg-fb"), model=DEEP, rounds=1, **fixed), out=tmp_path / "fb")


def test_late_clients_must_leave_some_to_train(tiny):
    with pytest.raises(SordinoError, match="leaves none"):
        experiment(tiny(data={"late_clients": 12}))


def test_one_accountant_serves_all_clients_and_rounds(tiny, tmp_path):
    """A fresh accountant for each call would report one round's ε for ever."""
    one, four = (
        sordino.run(tiny(method=method("centaur"), model=DEEP, rounds=rounds), out=tmp_path / str(rounds))
        for rounds in (1, 4)
    )
    assert four["epsilon"]["public"]["epsilon"] > 1.5 * one["epsilon"]["public"]["epsilon"]
    plain = sordino.run(tiny(method={"name": "dp-fedavg"}), out=tmp_path / "plain")
    assert plain["epsilon"]["public"]["epsilon"] == four["epsilon"]["public"]["epsilon"]


def test_the_last_round_is_reported_and_not_the_best(tiny, tmp_path):
    sordino.run(tiny(method=method("centaur"), model=DEEP, engine={"evaluate_every": 1}), out=tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    summary = summary_of(tmp_path / "run")
    assert summary["non_private_diagnostics"]["non_private_clients"] == rows[-1]["non_private_clients"]


def test_a_run_shows_what_clients_see_of_themselves(tiny, tmp_path):
    from rich.console import Console

    from sordino.report.terminal import summary_table

    table = tiny(method=method("centaur"), model=DEEP, rounds=1, data={"late_clients": 2})
    summary = sordino.run(table, out=tmp_path / "run")
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(summary_table([summary]))
    text = console.export_text()
    own = summary["non_private_diagnostics"]["non_private_clients"]
    assert f"own {own['mean']:.1%}" in text
    assert f"late {own['newcomers']['mean']:.1%}" in text
    assert "outside every ε" in text


@pytest.mark.parametrize("name", ["centaur", "dp-pfeddsu"])
def test_a_reprogrammed_model_has_a_personal_output_map(name, tiny, tmp_path):
    tuning = {"name": "reprogram", "frame": 12, "image": 8, "source_classes": 10}
    source = {"name": "cnn", "features": 8}
    table = tiny(
        method=method(name, **({"layers": 1} if name == "dp-pfeddsu" else {})),
        model=source,
        tuning=tuning,
        start=public_source(tmp_path, source),
        rounds=2,
    )
    summary = sordino.run(table, out=tmp_path / "run")
    assert summary["trained_parameters"] == 12 * 12
    assert all(own.numel() == 10 * 10 + 10 for own in personal_after(tmp_path / "run", 2).values())
    assert math.isfinite(summary["epsilon"]["public"]["epsilon"])


def public_source(folder, model):
    from safetensors.torch import save_file

    from sordino.models import build

    settings = {key: value for key, value in model.items() if key != "name"}
    net = build(model["name"], shape=(1, 12, 12), classes=10, seed=9, **settings)
    save_file(dict(net.state_dict()), folder / "source.safetensors")
    return {"name": "file", "path": str(folder / "source.safetensors")}


def test_whole_models_of_their_own_start_anew_when_the_phase_changes(tiny, tmp_path):
    table = tiny(method=method("pmtl-ft"), model=DEEP, tuning={"name": "unified", "head_rounds": 2})
    sordino.run(table, out=tmp_path / "run")
    everything = 64 * 16 + 16 + 16 * 8 + 8 + 8 * 10 + 10
    assert {own.numel() for own in personal_after(tmp_path / "run").values()} == {everything}
