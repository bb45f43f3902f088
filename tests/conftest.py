"""Small, real experiments that tests share."""

import copy
import functools
import hashlib
import os
import pickle
import random

# for processes that tests start: one test runs on each core
os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
os.environ.setdefault("SORDINO_KERNELS", "on")  # wherever they suit: a trial could come out one way or the other

import numpy as np
import pytest
import torch
from hypothesis import settings

from sordino.privacy import accounting

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


def pytest_collection_modifyitems(items):
    """Tests that share what is made once for their module run in one worker, so that it is made once."""
    for item in items:
        made = item._fixtureinfo.name2fixturedefs.values()
        shared = any(fixture.scope in ("class", "module") for fixtures in made for fixture in fixtures)
        if shared and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


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


@pytest.fixture(autouse=True, scope="session")
def prices_worked_out_once(tmp_path_factory):
    """What releases cost takes long to work out; workers that run side by side tell each other."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    folder = tmp_path_factory.getbasetemp().parent / "prices"
    folder.mkdir(exist_ok=True)
    work_out = accounting._spent.__wrapped__

    @functools.lru_cache(maxsize=4096)
    def spent(releases, *others):
        constants = [value for name, value in vars(accounting).items() if name.isupper()]
        question = repr((sorted(map(repr, releases)), others, constants))
        path = folder / hashlib.sha256(question.encode()).hexdigest()
        if not path.exists():
            own = path.with_suffix("." + os.environ["PYTEST_XDIST_WORKER"])
            own.write_bytes(pickle.dumps(work_out(releases, *others)))
            own.rename(path)
        return pickle.loads(path.read_bytes())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accounting, "_spent", spent)
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
