"""Kept features: read again where nothing changed, computed anew where anything did."""

import pytest
import torch

import sordino
from sordino.core import SordinoError
from sordino.data.examples import Examples, Normalisation
from sordino.engine import feature_store
from sordino.engine.feature_store import FeatureStore
from sordino.engine.run import run_experiment
from sordino.experiment import experiment
from sordino.models import build

CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SORDINO_FEATURES", str(tmp_path))
    monkeypatch.setattr(feature_store, "PART_ROWS", 4)
    return tmp_path


def examples(value=1):
    inputs = torch.full((10, 1, 2, 2), value, dtype=torch.uint8)
    inputs[:, 0, 0, 0] = torch.arange(10)
    return Examples(inputs=inputs, labels=torch.zeros(10, dtype=torch.int64), normalisation=Normalisation())


def body(seed=1):
    return build("mlp", shape=(1, 2, 2), classes=2, seed=seed, hidden=[3]).body


def parts_computed(store, rows):
    seen = []

    def compute(part):
        seen.append(len(part))
        return part.inputs.flatten(1).float()

    outputs = store.outputs(rows, compute)
    assert torch.equal(outputs, rows.inputs.flatten(1).float())
    return seen


def test_outputs_are_computed_once(folder):
    assert parts_computed(FeatureStore(body(), CPU), examples()) == [4, 4, 2]
    assert parts_computed(FeatureStore(body(), CPU), examples()) == []


def test_another_body_or_other_examples_are_computed_anew(folder):
    parts_computed(FeatureStore(body(), CPU), examples())
    assert parts_computed(FeatureStore(body(seed=2), CPU), examples()) == [4, 4, 2]
    assert parts_computed(FeatureStore(body(), CPU), examples(value=2)) == [4, 4, 2]


def test_a_lost_part_is_made_again_and_a_damaged_one_named(folder):
    parts_computed(FeatureStore(body(), CPU), examples())
    first, second, _ = sorted(folder.rglob("*.safetensors"))
    first.unlink()
    assert len(parts_computed(FeatureStore(body(), CPU), examples())) == 1
    second.write_bytes(second.read_bytes()[:20])
    with pytest.raises(SordinoError, match="remove it"):
        parts_computed(FeatureStore(body(), CPU), examples())


def test_a_run_with_kept_features_is_the_run_without_them(folder, tiny, tmp_path):
    table = tiny(tuning={"name": "head"}, rounds=2)
    plain = sordino.run(table, out=tmp_path / "plain")["accuracy"]
    table["engine"]["keep_features"] = True
    kept = [sordino.run(table, out=tmp_path / name)["accuracy"] for name in ("first", "second")]
    assert kept == [plain, plain]
    assert list(folder.rglob("*.safetensors"))


@pytest.mark.parametrize("keep", [False, True])
def test_progress_counts_every_row_once_computed_or_found(folder, tiny, tmp_path, keep):
    table = tiny(tuning={"name": "head"}, engine={"keep_features": keep})
    for name in ("first", "second"):
        moments = []
        run_experiment(experiment(table), tmp_path / name, watch=moments.append)
        described = [moment for moment in moments if moment.stage == "features"]
        assert [moment.done for moment in described] == sorted({moment.done for moment in described})
        assert described[-1].done == described[-1].total > 0
