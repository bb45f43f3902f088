"""Does reprogramming beat a new last layer? `python -m benchmarks.studies.at_scale.reprogramming --out DIR [--only "cifar10 iid"]`.

EfficientNet-Lite0 at 224 pixels, three clients, 100 rounds, batches of 256, z = 1.1 and η = 0.15 as the paper prints them, on CIFAR-10 and
blood cells: equal shares, 45:9:1 and class groups. BL-PF is run defended and as published; nothing is tuned, for any method.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.studies.planned import Study, Winners
from benchmarks.studies.study import Cell

DATA, SPLITS = ("cifar10", "blood"), ("iid", "quantity", "classes")
METHODS = {"MR": "mr", "BL-PF": "bl-pf", "BL-FF": "bl-ff", "BL-TS": "bl-ts"}
FEW = ("engine.evaluate_every=20", "engine.checkpoint_every=5", "engine.workers=1")


def cells(winners: Winners) -> list[Cell]:
    made = []
    for data in DATA:
        for split in SPLITS:
            made += [
                Cell(name=f"{data} {split} {who}", file=f"reprogramming/{data}-{split}-{file}.toml", changes=FEW)
                for who, file in METHODS.items()
            ]
        published = f"reprogramming/{data}-iid-bl-pf-as-published.toml"
        made.append(Cell(name=f"{data} iid BL-PF as published", file=published, changes=FEW))
    return made


def quick(one: Cell) -> Sequence[str]:
    small = ("rounds=1", "data.options.limit=600", "data.options.test_limit=200", "method.batch_size=32")
    if one.name.endswith("MR"):
        return (*small, "tuning.frame=64", "tuning.image=56")
    return (*small, "data.options.resize=64")


STUDY = Study(name="Reprogramming at scale", file="reprogramming", cells=cells, quick=quick)

if __name__ == "__main__":
    STUDY.main()
