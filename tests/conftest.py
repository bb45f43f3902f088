"""Small, real experiments that tests share."""

import copy
import os
import random

# for processes that tests start: one test runs on each core
os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}

import numpy as np
import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)

settings.register_profile("same", derandomize=True)
settings.register_profile("explore", max_examples=200)
settings.load_profile("explore" if os.environ.get("SORDINO_EXPLORE") else "same")

TINY = {
    "name": "tiny",
    "seed": 3,
    "rounds": 4,
    "data": {"source": "digits", "clients": 12, "partition": {"name": "dirichlet", "alpha": 1.0, "min_examples": 4}},
    "model": {"name": "mlp", "hidden": [8]},
    "method": {"name": "dp-fedavg", "epochs": 1, "batch_size": 16, "learning_rate": 0.1},
    "privacy": {"noise_multiplier": 1.0, "delta": 1e-3, "clip_norm": 0.5, "expected_cohort": 4},
    "engine": {"schedule": "workers", "workers": 1},
}


def merged(base, changes):
    result = copy.deepcopy(base)
    for key, value in changes.items():
        result[key] = (
            merged(result[key], value)
            if isinstance(value, dict) and isinstance(result.get(key), dict) and "name" not in value
            else value
        )
    return result


@pytest.fixture(autouse=True)
def same_draws():
    """Tests that draw without a generator of their own draw the same each time, whatever ran before them."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def no_lasting_store(tmp_path_factory):
    """Pre-trained models of tests live and die with them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SORDINO_PRETRAINED", str(tmp_path_factory.mktemp("pretrained")))
        yield


def pytest_terminal_summary(terminalreporter):
    """Say once, in a line that is seen, that pages were not tested in a browser."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if "no Chromium" in str(report.longrepr)]
    if skipped:
        terminalreporter.write_line(
            f"NOT TESTED: {len(skipped)} tests of the report in a browser, because no Chromium is installed "
            "(on Debian: apt-get install chromium).",
            yellow=True,
        )


@pytest.fixture(scope="session")
def tiny():
    """A table for a run of a second: `tiny(rounds=2, privacy={...})` changes single settings."""
    return lambda **changes: merged(TINY, changes)
