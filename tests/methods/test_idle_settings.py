"""Settings that would do nothing: refused where they were changed, or named in the plan where one file serves several methods."""

import pytest
import torch
from safetensors.torch import load_file

import sordino
from sordino.core import SordinoError
from sordino.reference.parts import part

DEEP = {"name": "mlp", "hidden": [8]}
NOISY = {"local_steps": 2, "batch_size": 10}


def planned(tiny, method, **changes):
    return sordino.plan(tiny(model=DEEP, method=method, data={"client_test_rows": 0}, **changes))


@pytest.mark.parametrize("name", ["fedceo", "udp-fedavg-svt"])
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epochs": 5}, r"got epochs = 5 beside them, .* under \[method.noisy_steps\] \(epochs as local_steps\)"),
        ({"full_batch": True}, r"got full_batch = true beside them, .*\(full_batch as batch_size = \"full\"\)"),
        (
            {"batch_size": 16, "momentum": 0.5},
            r"got batch_size = 16 and momentum = 0.5 beside .*noisy_steps\], or leave",
        ),
        (
            {"batch_size": 16, "learning_rate": 0.2, "weight_decay": 0.1},
            "batch_size = 16, learning_rate = 0.2 and weight_decay = 0.1 beside them, which would do nothing",
        ),
    ],
    ids=["epochs", "full-batch", "two", "three"],
)
def test_local_work_beside_noisy_steps_is_refused(name, settings, sentence, tiny):
    with pytest.raises(SordinoError, match=sentence):
        planned(tiny, {"name": name, **settings, "noisy_steps": NOISY})
    planned(tiny, {"name": name, "epochs": 1, "batch_size": 32, "noisy_steps": NOISY})
    planned(tiny, {"name": name, **settings}, privacy={"noise": "local"})


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({"name": "ppsgd-steps", "local_steps": 1}, {"local_steps": 2}),
        ({"name": "centaur-steps", "local_steps": 2}, {"local_steps": 3}),
        ({"name": "centaur-steps", "local_steps": 2}, {"head_steps": 2, "local_steps": 3}),
    ],
    ids=["ppsgd", "extractor", "head"],
)
def test_personal_steps_refuse_a_momentum_that_would_do_nothing(settings, more, tiny):
    momentum = {"momentum": 0.5}
    with pytest.raises(SordinoError, match=r"\[method\] momentum acts from one local step .* would do nothing; raise"):
        planned(tiny, {**settings, **momentum})
    planned(tiny, settings)
    planned(tiny, {**settings, **momentum, **more})


IDLE = {"epochs": 2, "batch_size": 16, "learning_rate": 0.05, "momentum": 0.5, "weight_decay": 0.1}


@pytest.mark.parametrize("alone", [{"name": "heads-alone"}, {"name": "centaur", "extractor": "frozen"}])
def test_plans_of_heads_alone_name_what_does_nothing(alone, tiny, tmp_path):
    changed = {**alone, **IDLE, "server_learning_rate": 0.5}
    said = planned(tiny, changed).method_facts["sharing"]
    assert said.endswith(
        "; "
        + ", ".join(f"{key} = {value}" for key, value in IDLE.items())
        + " and server_learning_rate = 0.5 do nothing, as no extractor is trained"
    )
    assert (
        planned(tiny, {**alone, "epochs": 2})
        .method_facts["sharing"]
        .endswith("; epochs = 2 does nothing, as no extractor is trained")
    )
    assert planned(tiny, alone).method_facts["sharing"].endswith("as if they shared")
    assert planned(tiny, {**alone, "head_epochs": 3}).method_facts["sharing"].endswith("as if they shared")
    found = []
    for name, method in (("usual", alone), ("changed", changed)):
        table = tiny(rounds=1, model=DEEP, method={**method, "head_epochs": 2}, data={"client_test_rows": 0})
        sordino.run(table, out=tmp_path / name)
        found.append(load_file(tmp_path / name / "private-to-each-client" / "after-00001-rounds.safetensors"))
    assert found[0] and all(torch.equal(found[0][client], found[1][client]) for client in found[0]), "so it does"


def test_the_reference_says_what_heads_alone_have_no_use_for():
    described = part("heads-alone")
    assert described.example == 'method = { name = "heads-alone", head_epochs = 15 }'
    unused = {one.name for one in described.settings if one.meaning == "Does nothing here."}
    assert unused == {*IDLE, "full_batch", "server_learning_rate"}
    assert part("centaur").example == 'method = { name = "centaur", epochs = 5 }'


@pytest.mark.parametrize("name", ["ppsgd-steps", "centaur-steps", "fedceo", "udp-fedavg-svt"])
def test_settings_that_matter_in_part_say_for_whom(name):
    words = {one.name: one.meaning for one in part(name).settings}
    if name.endswith("steps"):
        assert all("join late" in words[key] for key in ("head_epochs", "head_batch_size", "head_learning_rate"))
        assert ("train the head" in words["head_learning_rate"]) is (name == "centaur-steps")
    else:
        assert "take the place of all local settings" in words["noisy_steps"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"straight_through": "larger"}, r"\[method\] straight_through chooses .* got 'larger' with mask = 'global'"),
        ({"straight_through": "kept"}, r"\[method\] straight_through chooses .* got 'kept' with mask = 'global'"),
        ({"backward_share": 0.3}, r"\[method\] backward_share is .* got 0.3 with straight_through = 'all'"),
        (
            {"backward_share": 0.3, "mask": "local-dense-noise", "straight_through": "kept"},
            r"\[method\] backward_share is .* got 0.3 with straight_through = 'kept'",
        ),
    ],
    ids=["larger", "kept", "share", "share-of-kept"],
)
def test_choices_among_weights_that_no_step_makes_are_refused(settings, sentence, tiny):
    with pytest.raises(SordinoError, match=sentence):
        planned(tiny, {"name": "dp-pfeddsu", "layers": 1, **settings})


def test_choices_among_weights_that_a_step_makes_are_not(tiny):
    local = {"name": "dp-pfeddsu", "layers": 1, "mask": "local-dense-noise"}
    planned(tiny, {**local, "straight_through": "kept"})
    planned(tiny, {**local, "straight_through": "larger", "backward_share": 0.3})
    planned(tiny, {"name": "dp-pfeddsu", "layers": 1, "straight_through": "all", "backward_share": 0.1})


@pytest.mark.parametrize("copies", ["public-code", "next-turn"])
def test_a_method_without_copies_does_not_advise_to_have_some(copies, tiny):
    with pytest.raises(
        SordinoError, match=rf"udp-fedavg-svt has no personal copies, but got copies = \"{copies}\"; leave"
    ):
        planned(tiny, {"name": "udp-fedavg-svt", "copies": copies})
    with pytest.raises(SordinoError, match="udp-fedavg-svt has no personal copies, but got personal = true; leave"):
        planned(tiny, {"name": "udp-fedavg-svt", "copies": copies, "personal": True})


@pytest.mark.parametrize("alone", [{"name": "heads-alone"}, {"name": "centaur", "extractor": "frozen"}])
def test_heads_alone_do_not_ask_for_something_to_share(alone, tiny):
    with pytest.raises(
        SordinoError, match=r"Heads alone are charged as if an extractor were shared, .* tuning = 'full'"
    ):
        planned(tiny, alone, tuning="head")
    with pytest.raises(SordinoError, match="so nothing would be shared"):
        planned(tiny, {"name": "centaur"}, tuning="head")
