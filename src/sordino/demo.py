"""The demonstration: what privacy costs, and what gives it back, on images that come with the package.

Rows of one set are parted into public ones, test rows and private ones, so that the public start is of the same kind as the
task. The file says which settings were chosen, and the same ones are used in all cases unless a case names others.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sordino.data.embedded import EMBEDDED
from sordino.engine.pretraining import pretrain
from sordino.experiment import Experiment, experiment, read_table
from sordino.files import locked, make_folder, write_whole
from sordino.sweeps.cases import merged, take_cases

PUBLIC, TEST = 100, 1000
"""Images that are declared public to start from, and to test on; the other 3,900 lie with clients."""
SPLIT_SEED = 7
TRIALS = 19
"""By which settings were chosen, with seeds 0 and 1, before the demonstration was what it is."""
NOTHING, SCRATCH, START, HEAD, SERVER = (
    "no privacy",
    "private, from scratch",
    "private, public start",
    "public start, head alone",
    "hidden from the server too",
)
FILE = f"""# The demonstration of sordino. Run it again with: sordino sweep demo.toml --seeds 3
# 5,000 handwritten digits (MNIST): {PUBLIC} are declared public, as if their writers had agreed; {TEST} more are public test rows;
# the other 3,900 lie with 100 clients, and all that one client holds is hidden.
# The number of public images, the clip and the last case's rounds were chosen among {TRIALS} trials with seeds 0 and 1.
name = "demo"
rounds = 30
[data]
source = "private.npz"
clients = 100
partition = {{ name = "dirichlet", alpha = 1.0, min_examples = 5 }}
[model]
name = "mlp"
hidden = [64]
[start] # trained on the public images: free
name = "standard"
data = {{ source = "public.npz", visibility = "public" }}
epochs = 100
decay = "cosine"
[method]
name = "dp-fedavg"
epochs = 2
batch_size = 20
learning_rate = 0.1
[privacy]
epsilon = 2.0
delta = 1e-3
view = "public" # against anybody who sees the models
noise = "distributed"
clip_norm = 0.2
expected_cohort = 50
[engine]
evaluate_every = 5
schedule = "stacked"

[[case]]
name = "{NOTHING}"
start = "scratch"
method = {{ name = "fedavg", epochs = 2, batch_size = 20, learning_rate = 0.1 }}
[[case]]
name = "{SCRATCH}"
start = "scratch"
[[case]]
name = "{START}"
[[case]]
name = "{HEAD}"
tuning = "head"
[[case]] # noise on each upload; drawing clients hides nobody from the server, so all take part in fewer rounds
name = "{SERVER}"
tuning = "head"
rounds = 10
privacy = {{ noise = "local", view = "server", epsilon = 8.0, sampler = "everyone", expected_cohort = 100 }}
"""


@contextmanager
def prepared(out: Path) -> Iterator[Path]:
    """Write data and sweep file into `out` and hold that folder; yields the file. An earlier demonstration there is taken away."""
    make_folder(out)
    busy = f"Another demonstration is at work in {out}; wait until it has ended, or choose another --out folder."
    with locked(out / ".lock", busy=busy):
        shutil.rmtree(sweep_folder(out), ignore_errors=True)
        _write_data(out)
        write_whole(out / "demo.toml", FILE.encode())
        yield out / "demo.toml"


def sweep_folder(out: Path) -> Path:
    return out / "sweep"


def _write_data(out: Path) -> None:
    raw = EMBEDDED["mnist5k"].train
    images, labels = raw.inputs(), raw.labels()
    order = np.random.default_rng(SPLIT_SEED).permutation(len(labels))
    test, public, private = order[:TEST], order[TEST : TEST + PUBLIC], order[TEST + PUBLIC :]
    for name, rows in {"public": public, "private": private}.items():
        with open(out / f"{name}.npz", "wb") as file:
            np.savez(file, x_train=images[rows], y_train=labels[rows], x_test=images[test], y_test=labels[test])


def public_alone(file: Path, seeds: int) -> list[float]:
    """The accuracy of the public start by itself on the same test rows, for each seed: what one has without any private row."""
    return [_start_accuracy(_of_start(file, seed), file.parent) for seed in range(seeds)]


def _of_start(file: Path, seed: int) -> Experiment:
    table = read_table(file, ())
    case = next(one for one in take_cases(table) if one.name == START)
    return experiment({**merged(table, case.settings), "seed": seed})


def _start_accuracy(wanted: Experiment, folder: Path) -> float:
    record: dict[str, Any] = pretrain(
        wanted, folder / "start" / f"seed-{wanted.seed}", folder=folder, progress=lambda done, total: None
    )
    return float(record["public_test_accuracy"])
