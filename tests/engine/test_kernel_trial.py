"""Kernels are used where they were faster than torch when both were tried; the run record says where."""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import sordino
from sordino.engine import kernel_trial, trials
from sordino.engine.kernel_trial import left_to_torch_here
from sordino.engine.trials import gain, settled
from sordino.kernels import fastest
from sordino.kernels.choice import leave_to_torch
from sordino.kernels.native import ON, SWITCH, TRIAL, library
from sordino.models import build

pytestmark = pytest.mark.skipif(library() is None, reason="no compiled kernels on this machine")

CPU = torch.device("cpu")
IMAGES = {
    "model": {"name": "cnn"},
    "data": {
        "source": "digits",
        "clients": 2,
        "partition": {"name": "iid"},
        "options": {"limit": 64, "test_limit": 32},
    },
    "privacy": {"noise_multiplier": 1.0, "delta": 1e-3, "clip_norm": 0.5, "expected_cohort": 1},
    "rounds": 1,
}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(SWITCH, TRIAL)
    monkeypatch.setenv(trials.FOLDER_VARIABLE, str(tmp_path / "trials"))
    yield tmp_path / "trials"


def torch_wins(monkeypatch: pytest.MonkeyPatch, *, at: str = "") -> list[str]:
    """Trials whose name begins with `at` come out for torch; returns the names that were tried, as they come."""
    tried: list[str] = []
    original = trials.settled

    def told(asked: dict[str, trials.Trial]) -> dict[str, bool]:
        def trial(name: str) -> trials.Trial:
            def now() -> float:
                tried.append(name)
                return 0.5 if name.startswith(at) else 2.0

            return now

        return original({name: trial(name) for name in asked})

    monkeypatch.setattr(kernel_trial, "settled", told)
    return tried


def refuse_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    def settled_again(asked: object) -> None:
        pytest.fail("a trial where the choice is made")  # no Exception, so that nothing can take it for a model's own

    monkeypatch.setattr(kernel_trial, "settled", settled_again)


def test_every_kind_of_layer_is_tried_once(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = build("resnet20", shape=(3, 32, 32), classes=10)
    tried = torch_wins(monkeypatch, at="forward 32 32")
    left = left_to_torch_here(net, (3, 32, 32), private_examples=False, device=CPU)
    assert len(tried) == len(set(tried))
    assert sum(name.startswith("sums") for name in tried) == 6
    assert sum(name.startswith("step") for name in tried) == 1
    assert left and set(map(tuple, left.values())) == {("forward",)}
    tried.clear()
    assert left_to_torch_here(net, (3, 32, 32), private_examples=False, device=CPU) == left
    assert not tried


def test_a_layout_that_does_not_pay_is_left_whole(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = build("resnet20", shape=(3, 16, 16), classes=10)
    torch_wins(monkeypatch, at="private step")
    left = left_to_torch_here(net, (3, 16, 16), private_examples=True, device=CPU)
    assert left == {"": ["layers"]}
    leave_to_torch(net, left)
    before = [type(layer) for layer in net.modules()]
    assert [type(layer) for layer in fastest(net).modules()] == before


@pytest.mark.parametrize(
    ("work", "kernel"), [("forward", "conv3x3"), ("sums", "conv_weight_sum"), ("rows", "conv_weight_rows")]
)
def test_what_is_left_to_torch_calls_no_kernel(work: str, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(16, 16, 3, padding=1), torch.nn.Flatten(), torch.nn.Linear(1024, 2))
    kernels, calls = library(), []
    original = getattr(kernels, kernel)
    monkeypatch.setattr(kernels, kernel, lambda *args: calls.append(kernel) or original(*args))
    inputs, labels = torch.randn(4, 16, 8, 8), torch.zeros(4, dtype=torch.int64)

    def use() -> None:
        if work == "rows":
            sordino.gradients.ClippedGradients(fastest(net)).sum(inputs, labels, clip_norm=1.0)
        else:
            fastest(net)(inputs).sum().backward()

    leave_to_torch(net, {"0": [work]})
    use()
    assert not calls
    leave_to_torch(net, {"0": ["something else"]})
    use()
    assert calls


def test_what_is_known_makes_no_images(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 224 pixels a layer's images alone took as long as a round."""
    net = build("resnet20", shape=(3, 16, 16), classes=10)
    first = left_to_torch_here(net, (3, 16, 16), private_examples=True, device=CPU)
    monkeypatch.setattr(kernel_trial._Call, "tensors", lambda call: pytest.fail("images were made"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert left_to_torch_here(net, (3, 16, 16), private_examples=True, device=CPU) == first


@pytest.mark.parametrize(("stride", "padding", "side"), [(1, 1, 16), (2, 0, 15), (2, 1, 16)])
def test_blank_tensors_have_the_shapes_of_real_ones(stride: int, padding: int, side: int) -> None:
    call = kernel_trial._Call(16, 32, (3, 3), stride, padding, (side, side + 3))
    layer, images, grads = call.tensors()
    assert layer(images).shape == grads.shape == call.blank()[1].shape
    assert images.is_contiguous(memory_format=torch.channels_last) and grads.isfinite().all()


def test_dense_clients_are_tried(store: Path) -> None:
    """With real timings, whichever way they come out."""
    left = left_to_torch_here(build("mlp", shape=(20,), classes=3), (20,), private_examples=False, device=CPU)
    (kept,) = store.glob("*.json")
    (ratio,) = json.loads(kept.read_text())["gains"].values()
    assert left == ({} if ratio >= 1 else {"": ["clients"]})


def test_the_faster_is_seen() -> None:
    def short() -> None:
        sum(range(1_000))

    def long() -> None:
        sum(range(100_000))

    def kept_waiting() -> None:
        time.sleep(0.01)
        short()

    assert gain(short, long) > 1.5
    assert gain(long, short) < 1
    assert gain(kept_waiting, long) > 1.5


def test_a_run_keeps_its_choice(tiny, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one process, in several, resumed, and whatever would be found faster now."""
    torch_wins(monkeypatch, at="sums")
    sordino.run(tiny(**IMAGES), out=tmp_path / "here")
    facts = json.loads((tmp_path / "here" / "experiment.json").read_text())["facts"]
    assert facts["left_to_torch"] and set(map(tuple, facts["left_to_torch"].values())) == {("sums",)}
    sordino.run(tiny(**IMAGES, engine={"name": "process"}), out=tmp_path / "processes")
    monkeypatch.setattr("sordino.engine.run.Run._finish", lambda run, ended: {})
    sordino.run(tiny(**IMAGES), out=tmp_path / "cut")
    monkeypatch.undo()
    monkeypatch.setenv(SWITCH, TRIAL)
    refuse_trials(monkeypatch)
    sordino.run(tiny(**IMAGES), out=tmp_path / "cut", resume=True)
    monkeypatch.setenv(SWITCH, ON)
    sordino.run(tiny(**IMAGES), out=tmp_path / "kernels")
    bits = {
        name: (tmp_path / name / "model.safetensors").read_bytes() for name in ("here", "processes", "cut", "kernels")
    }
    assert bits["here"] == bits["processes"] == bits["cut"] != bits["kernels"]


def test_a_damaged_file_is_tried_again(store: Path) -> None:
    assert settled({"one": lambda: 2.0}) == {"one": True}
    (kept,) = store.glob("*.json")
    for damaged in ("{", "[]", '{"gains": {"one": "fast"}}'):
        kept.write_text(damaged)
        with pytest.warns(UserWarning, match="is damaged or cannot be read, so what is faster here"):
            assert settled({"one": lambda: 0.5}) == {"one": False}
        assert settled({"one": lambda: 2.0}) == {"one": False}


def test_a_folder_that_cannot_be_written_is_survived(store: Path) -> None:
    store.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="is tried for this run and cannot be kept: .*trials"):
        assert settled({"one": lambda: 2.0}) == {"one": True}


def test_the_first_of_two_processes_decides(store: Path) -> None:
    tried: list[int] = []
    found: list[dict[str, bool]] = []

    def run(number: int) -> None:
        def trial() -> float:
            tried.append(number)
            time.sleep(0.1)
            return 2.0 if number else 0.5

        found.append(settled({"one": trial}))

    both = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert len(tried) == 1
    assert found == [{"one": bool(tried[0])}] * 2


def test_private_steps_of_dense_layers_are_tried(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = build("mlp", shape=(20,), classes=3)
    tried = torch_wins(monkeypatch, at="private step")
    assert left_to_torch_here(net, (20,), private_examples=True, device=CPU) == {"": ["rows"]}
    assert len(tried) == 2


def test_a_trial_leaves_the_shared_generator_as_it_was(store: Path) -> None:
    net = build("cnn", shape=(1, 8, 8), classes=3)
    before = torch.random.get_rng_state()
    left_to_torch_here(net, (1, 8, 8), private_examples=False, device=CPU)
    assert store.exists()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_nothing_is_tried_for_another_device(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_trials(monkeypatch)
    net = build("cnn", shape=(1, 8, 8), classes=3)
    assert left_to_torch_here(net, (1, 8, 8), private_examples=False, device=torch.device("cuda")) == {}


def test_a_model_that_refuses_made_up_rows_is_run_with_kernels(store: Path) -> None:
    net = build("cnn", shape=(1, 8, 8), classes=3)

    def refuse(*_: object) -> None:
        raise ValueError("pixels below zero")

    net.register_forward_pre_hook(refuse)
    with pytest.warns(UserWarning, match="kernels are used; .* ended with: pixels below zero"):
        assert left_to_torch_here(net, (1, 8, 8), private_examples=False, device=CPU) == {}
