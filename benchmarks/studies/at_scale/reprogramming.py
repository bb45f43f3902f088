"""Does reprogramming beat a new last layer? `python -m benchmarks.studies.at_scale.reprogramming --out DIR [--only MR]`.

EfficientNet-Lite0 at 224 pixels, three clients, batches of 256, z = 1.1. A round of MR takes 16 to 48 seconds of one core, so the cells
that decide have 20 rounds, 6,000 rows and 1,000 test rows: MR and BL-PF on blood cells in equal shares, 45:9:1 and class groups, and on
CIFAR-10, at η = 0.15 as the paper prints it; and BL-PF as published once. Since clipped steps of the two methods move their models by
different lengths at one η, both are told again at a rate of their own, chosen on a fifth of each client's rows that it does not train
on, in equal shares of blood cells; CIFAR-10 takes it over.

`--large` has 100 rounds and all rows, and also full tuning and training from scratch; `--only "cifar10 iid"` runs a part of it. The two
are told there at the rate that was chosen in 20 rounds, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.studies.gains import Gain
from benchmarks.studies.planned import Study, Winners, validation
from benchmarks.studies.study import Cell

DATA, SPLITS = ("cifar10", "blood"), ("iid", "quantity", "classes")
METHODS = {"BL-PF": "bl-pf", "MR": "mr", "BL-FF": "bl-ff", "BL-TS": "bl-ts"}
PAIR = ("BL-PF", "MR")
FEW = ("engine.checkpoint_every=5", "engine.workers=1")
SHORT = ("rounds=20", "data.options.limit=6000", "data.options.test_limit=1000", "engine.evaluate_every=1000", *FEW)
DECIDING = {"BL-PF": "bl-pf", "BL-PF as published": "bl-pf-as-published", "MR": "mr"}
ELSEWHERE = {"blood quantity": "blood-quantity", "blood classes": "blood-classes", "cifar10": "cifar10-iid"}
RATES = {"BL-PF": (0.15, 0.5, 1.5, 5.0), "MR": (0.15, 0.5, 1.5)}
"""η from which one is chosen for each method; the paper prints 0.15 for both."""
KEPT = "data.client_split={validation=0.2,test=0.0}"
"""Rows that clients keep from training, on which rates are chosen."""
TUNED = 1.5
"""The rate that was chosen for both in 20 rounds, at which 100 rounds are told beside the printed one."""


def candidates() -> dict[str, list[Cell]]:
    return {
        _group(who): [_short(f"tried {who} η={rate:g}", _blood(who), _rate(rate), KEPT) for rate in RATES[who]]
        for who in PAIR
    }


def cells(winners: Winners) -> list[Cell]:
    return [
        *(_short(who, f"blood-iid-{file}") for who, file in DECIDING.items()),
        *(_short(f"{place} {who}", f"{file}-{METHODS[who]}") for place, file in ELSEWHERE.items() for who in PAIR),
        *(_short(f"{who}, chosen rate", _blood(who), _chosen(winners[_group(who)])) for who in PAIR),
        *(
            _short(f"cifar10 {who}, chosen rate", f"cifar10-iid-{METHODS[who]}", _chosen(winners[_group(who)]))
            for who in PAIR
        ),
    ]


def _group(who: str) -> str:
    return f"rate of {who}"


def _blood(who: str) -> str:
    return f"blood-iid-{METHODS[who]}"


def _rate(rate: float) -> str:
    return f"method.learning_rate={rate:g}"


def _chosen(winner: Cell) -> str:
    return next(change for change in winner.changes if change.startswith("method.learning_rate="))


def _short(name: str, file: str, *changes: str) -> Cell:
    return Cell(name=name, file=f"reprogramming/{file}.toml", changes=(*SHORT, *changes))


def full_size() -> list[Cell]:
    made = []
    for data in DATA:
        for split in SPLITS:
            made += [_whole(f"{data} {split} {who}", f"{data}-{split}-{file}") for who, file in METHODS.items()]
        made.append(_whole(f"{data} iid BL-PF as published", f"{data}-iid-bl-pf-as-published"))
        made += [_whole(f"{data} iid {who} η={TUNED:g}", f"{data}-iid-{METHODS[who]}", _rate(TUNED)) for who in PAIR]
    return made


def _whole(name: str, file: str, *changes: str) -> Cell:
    return Cell(name=name, file=f"reprogramming/{file}.toml", changes=("engine.evaluate_every=20", *FEW, *changes))


def gains(winners: Winners) -> list[Gain]:
    known = {one.name: one for one in (*full_size(), *cells(winners))}  # of two cells of one name the short one
    printed, chosen = "MR over a new last layer (BL-PF), both at η = 0.15", "both at a rate of their own"
    regimes = [
        (printed, "CIFAR-10, 100 rounds", "cifar10 iid MR", "cifar10 iid BL-PF"),
        (printed, "blood cells, 100 rounds", "blood iid MR", "blood iid BL-PF"),
        (printed, "CIFAR-10, 6,000 rows, 20 rounds", "cifar10 MR", "cifar10 BL-PF"),
        (printed, "blood cells, 6,000 rows, 20 rounds", "MR", "BL-PF"),
        (printed, "the same, 45:9:1 of the rows", "blood quantity MR", "blood quantity BL-PF"),
        (printed, "the same, class groups", "blood classes MR", "blood classes BL-PF"),
        (chosen, "CIFAR-10, 100 rounds", f"cifar10 iid MR η={TUNED:g}", f"cifar10 iid BL-PF η={TUNED:g}"),
        (chosen, "blood cells, 100 rounds", f"blood iid MR η={TUNED:g}", f"blood iid BL-PF η={TUNED:g}"),
        (chosen, "blood cells, 6,000 rows, 20 rounds", "MR, chosen rate", "BL-PF, chosen rate"),
        (chosen, "CIFAR-10, 6,000 rows, 20 rounds", "cifar10 MR, chosen rate", "cifar10 BL-PF, chosen rate"),
        ("MR over BL-PF as published", "blood cells, 6,000 rows, 20 rounds", "MR", "BL-PF as published"),
    ]
    return [
        Gain(group=group, where=where, method=known[method], control=known[control])
        for group, where, method, control in regimes
    ]


def quick(one: Cell) -> Sequence[str]:
    small = ("rounds=1", "data.options.limit=600", "data.options.test_limit=200", "method.batch_size=32")
    if one.file.endswith("-mr.toml"):
        return (*small, "tuning.frame=64", "tuning.image=56")
    return (*small, "data.options.resize=64")


STUDY = Study(
    name="Reprogramming at scale",
    file="reprogramming",
    cells=cells,
    large=full_size(),
    candidates=candidates(),
    choose_by=validation,
    quick=quick,
    gains=gains,
)

if __name__ == "__main__":
    STUDY.main()
