"""Does reprogramming beat a new last layer? `python -m benchmarks.studies.at_scale.reprogramming --out DIR [--only MR]`.

EfficientNet-Lite0 at 224 pixels, three clients, batches of 256, z = 1.1 and η = 0.15 as the paper prints them; nothing is tuned, for any
method. A round of MR takes 15 to 48 seconds of one core, so the cells that decide have 20 rounds, 6,000 rows and 1,000 test rows: MR and
BL-PF on blood cells in equal shares, 45:9:1 and class groups, and on CIFAR-10; and BL-PF as published once. `--large` has 100 rounds and
all rows, and also full tuning and training from scratch; `--only "cifar10 iid"` runs a part of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.studies.gains import Gain
from benchmarks.studies.planned import Study, Winners
from benchmarks.studies.study import Cell

DATA, SPLITS = ("cifar10", "blood"), ("iid", "quantity", "classes")
METHODS = {"BL-PF": "bl-pf", "MR": "mr", "BL-FF": "bl-ff", "BL-TS": "bl-ts"}
PAIR = ("BL-PF", "MR")
FEW = ("engine.checkpoint_every=5", "engine.workers=1")
SHORT = ("rounds=20", "data.options.limit=6000", "data.options.test_limit=1000", "engine.evaluate_every=1000", *FEW)
DECIDING = {"BL-PF": "bl-pf", "BL-PF as published": "bl-pf-as-published", "MR": "mr"}
ELSEWHERE = {"blood quantity": "blood-quantity", "blood classes": "blood-classes", "cifar10": "cifar10-iid"}


def cells(winners: Winners) -> list[Cell]:
    return [
        *(_short(who, f"blood-iid-{file}") for who, file in DECIDING.items()),
        *(_short(f"{place} {who}", f"{file}-{METHODS[who]}") for place, file in ELSEWHERE.items() for who in PAIR),
    ]


def _short(name: str, file: str) -> Cell:
    return Cell(name=name, file=f"reprogramming/{file}.toml", changes=SHORT)


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
        (last, "CIFAR-10, 6,000 rows, 20 rounds", "cifar10 MR", "cifar10 BL-PF"),
        (last, "blood cells, 6,000 rows, 20 rounds", "MR", "BL-PF"),
        (last, "the same, 45:9:1 of the rows", "blood quantity MR", "blood quantity BL-PF"),
        (last, "the same, class groups", "blood classes MR", "blood classes BL-PF"),
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
