"""What BL-PF's public code does to its frozen source: `python -m benchmarks.studies.batchnorm_artefact --out DIR [--quick]`.

Three runs that differ in nothing else: a new last layer over the source, over the source after rows passed it one by one in training
mode (as published), and a border with a map of the logits (MR). Seeds 1 to 3; nothing is tuned.
"""

from __future__ import annotations

from benchmarks.studies.planned import Study
from benchmarks.studies.study import Cell

SIDE = 96
SCALE = (f"data.options.resize={SIDE}", "engine.evaluate_every=10", "engine.workers=1")
QUICK = ("data.options.limit=1500", "data.options.test_limit=500", "rounds=3", "method.batch_size=64")
FRAME = (f"tuning.frame={SIDE}", f"tuning.image={SIDE - 10}")
FILES = {
    "BL-PF": "reprogramming/cifar10-iid-bl-pf.toml",
    "BL-PF as published": "reprogramming/cifar10-iid-bl-pf-as-published.toml",
    "MR": "reprogramming/cifar10-iid-mr.toml",
}


def cells() -> list[Cell]:
    """The same noise for all: z = 1.1, batches of 256, 100 rounds, three clients."""
    own = {"MR": ("engine.evaluate_every=10", "engine.workers=1", *FRAME)}
    return [Cell(name=name, file=file, changes=own.get(name, SCALE)) for name, file in FILES.items()]


if __name__ == "__main__":
    Study(name="BatchNorm artefact", cells=lambda winners: cells(), quick=lambda cell: QUICK).main()
