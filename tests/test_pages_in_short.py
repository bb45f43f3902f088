"""Commands that stand in tables and sentences of pages, each run in short: beside a small experiment and its run."""

import shutil

import numpy as np
import pytest

from tests.page_cuts import IN_SHORT
from tests.pages import ROOT, done, in_folder

EXPERIMENT = """
rounds = 2
model = "logistic"
method = "dp-fedavg"
data = { source = "digits", clients = 24, test = "public-split" }
start = { name = "scratch" }
privacy = { noise_multiplier = 1.0, delta = 1e-3, noise_source = "secure", sampler = "everyone" }
"""
MEANT = {"FILE": "experiment.toml", "DIR": "runs/NAME", "NAME": "dp-fedavg", "RULE": "logarithmic"}
VERDICTS = ("audit", "attack")
"""Commands whose exit code is a verdict: one run of canaries under noise that nobody can repeat may alarm by chance."""
COMMANDS = [(page, command, cut) for page, own in IN_SHORT.items() for command, cut in own.items()]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the examples, an experiment, its run, and random images in the place of data sets that are not in the package."""
    folder = tmp_path_factory.mktemp("short")
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "experiment.toml").write_text(EXPERIMENT)
    draw = np.random.default_rng(1)
    for name, classes, rows in (("cifar10", 10, 80), ("tinyimagenet100", 100, 100)):
        arrays = {
            f"{kind}_{split}": values
            for split in ("train", "test")
            for kind, values in (
                ("x", draw.integers(0, 256, (rows, 3, 32, 32), dtype=np.uint8)),
                ("y", np.arange(rows) % classes),
            )
        }
        (folder / "data").mkdir(exist_ok=True)
        np.savez(folder / "data" / f"{name}.npz", **arrays)
    with in_folder(folder):
        assert done("sordino run experiment.toml --out runs/NAME")[0] == 0
    return folder


@pytest.mark.parametrize(
    ("page", "command", "cut"), COMMANDS, ids=[f"{page}: {command}" for page, command, _ in COMMANDS]
)
def test_a_command_of_a_page_runs_in_short(page, command, cut, place):
    words = [MEANT.get(word, word) for word in command.replace("DIR/", "runs/NAME/").split()]
    with in_folder(place) as patch:
        patch.setenv("SORDINO_DATA", str(place / "data"))
        code, printed = done(" ".join([*words, cut]))
    assert code == 0 or (code == 1 and words[1] in VERDICTS), printed
