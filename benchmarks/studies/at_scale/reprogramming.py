"""Does reprogramming beat a new last layer? `python -m benchmarks.studies.at_scale.reprogramming --out DIR [--only MR]`.

EfficientNet-Lite0 at 224 pixels, three clients, batches of 256, z = 1.1 and η = 0.15 as the paper prints them; nothing is tuned, for any
method. A round of MR takes about 48 seconds of one core, so the cells that decide are on blood cells in equal shares, with 20 rounds, 6,000
rows and 1,000 test rows: BL-PF defended and as published, and MR. `--large` has 100 rounds and all rows, CIFAR-10 too, all four methods,
and also 45:9:1 and class groups; `--only "cifar10 iid"` runs a part of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.studies.gains import Gain
from benchmarks.studies.planned import Study, Winners
from benchmarks.studies.study import Cell

DATA, SPLITS = ("cifar10", "blood"), ("iid", "quantity", "classes")
METHODS = {"BL-PF": "bl-pf", "MR": "mr", "BL-FF": "bl-ff", "BL-TS": "bl-ts"}
FEW = ("engine.checkpoint_every=5", "engine.workers=1")
SHORT = ("rounds=20", "data.options.limit=6000", "data.options.test_limit=1000", "engine.evaluate_every=1000", *FEW)
DECIDING = {"BL-PF": "bl-pf", "BL-PF as published": "bl-pf-as-published", "MR": "mr"}


def cells(winners: Winners) -> list[Cell]:
    return [
        Cell(name=who, file=f"reprogramming/blood-iid-{file}.toml", changes=SHORT) for who, file in DECIDING.items()
    ]


def full_size() -> list[Cell]:
    made = []
    for data in DATA:
        for split in SPLITS:
            made += [_whole(f"{data} {split} {who}", f"{data}-{split}-{file}") for who, file in METHODS.items()]
        made.append(_whole(f"{data} iid BL-PF as published", f"{data}-iid-bl-pf-as-published"))
    return made


def _whole(name: str, file: str) -> Cell:
    return Cell(name=name, file=f"reprogramming/{file}.toml", changes=("engine.evaluate_every=20", *FEW))


def gains(winners: Winners) -> list[Gain]:
    known = {one.name: one for one in (*cells(winners), *full_size())}
    last, published = "MR over a new last layer (BL-PF)", "MR over BL-PF as published"
    regimes = [
        (last, "CIFAR-10, 100 rounds", "cifar10 iid MR", "cifar10 iid BL-PF"),
        (last, "blood cells, 100 rounds", "blood iid MR", "blood iid BL-PF"),
        (last, "blood cells, 6,000 rows, 20 rounds", "MR", "BL-PF"),
        (published, "blood cells, 6,000 rows, 20 rounds", "MR", "BL-PF as published"),
    ]
    return [
        Gain(group=group, where=where, method=known[method], control=known[control])
        for group, where, method, control in regimes
    ]


def quick(one: Cell) -> Sequence[str]:
    small = ("rounds=1", "data.options.limit=600", "data.options.test_limit=200", "method.batch_size=32")
    if one.name.endswith("MR"):
        return (*small, "tuning.frame=64", "tuning.image=56")
    return (*small, "data.options.resize=64")


STUDY = Study(
    name="Reprogramming at scale", file="reprogramming", cells=cells, large=full_size(), quick=quick, gains=gains
)

if __name__ == "__main__":
    STUDY.main()
