"""Every method runs with every tuning, or says in one sentence why not."""

import pytest
import torch
from safetensors.torch import load_file
from test_members import method_table, names

import sordino
from sordino.core import SordinoError
from sordino.methods import METHODS
from sordino.tuning import TUNINGS

SETTINGS = {"reprogram": {"frame": 10, "image": 8, "source_classes": 10}}


@pytest.mark.parametrize("tuning", names(TUNINGS))
@pytest.mark.parametrize("method", names(METHODS))
def test_a_method_runs_with_a_tuning_or_tells_why_not(method, tuning, tiny, tmp_path):
    table = tiny(
        rounds=2,
        start="scratch",
        data={"clients": 3, "partition": {"name": "iid"}, "options": {"limit": 60, "test_limit": 20}},
        tuning={"name": tuning, **SETTINGS.get(tuning, {})},
        **method_table(method),
    )
    table["privacy"]["sampler"] = "everyone"
    table["privacy"]["expected_cohort"] = None
    try:
        summary = sordino.run(table, out=tmp_path / "run")
    except SordinoError as refusal:
        assert str(refusal).count(". ") == 0
        return
    weights = load_file(tmp_path / "run" / "model.safetensors")
    assert summary["trained_parameters"] <= summary["parameters"]
    assert all(bool(torch.isfinite(value).all()) for value in weights.values())
