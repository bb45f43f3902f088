"""What BL-PF's public code does to its frozen source: `python -m benchmarks.studies.batchnorm_artefact --out DIR [--quick]`.

Two runs that differ in nothing else: a new last layer over the source, and over the source after rows passed it one by one in training
mode (as published). EfficientNet-Lite0 at 96 pixels, 6,000 rows of CIFAR-10 over three clients, 30 rounds, batches of 256, z = 1.1.
Nothing is tuned.
"""

from __future__ import annotations

from benchmarks.studies.planned import Study, Winners
from benchmarks.studies.study import Cell

SCALE = (
    "data.options.resize=96",
    "data.options.limit=6000",
    "data.options.test_limit=2000",
    "rounds=30",
    "engine.evaluate_every=30",
    "engine.workers=1",
)
QUICK = ("data.options.resize=64", "data.options.limit=600", "data.options.test_limit=200", "rounds=2")
FILES = {
    "BL-PF": "reprogramming/cifar10-iid-bl-pf.toml",
    "BL-PF as published": "reprogramming/cifar10-iid-bl-pf-as-published.toml",
}


def cells(winners: Winners) -> list[Cell]:
    return [Cell(name=name, file=file, changes=SCALE) for name, file in FILES.items()]


STUDY = Study(name="BatchNorm artefact", file="batchnorm_artefact", cells=cells, quick=lambda cell: QUICK)

if __name__ == "__main__":
    STUDY.main()
