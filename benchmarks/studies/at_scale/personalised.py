"""Where does sharing an extractor beat heads alone? `python -m benchmarks.studies.at_scale.personalised --out DIR`.

CIFAR-10 at 16 pixels, five classes a client, all 50,000 rows, ε = 1 for whole clients at δ = 1e-4. Three things may let sharing win: more
clients (the noise of a sum is spread over them, and each has fewer rows to train a head with), another clip, and a public start. Clips are
chosen on rows that clients keep from training, for each number of clients and start; then methods are compared there with heads alone, and
with sharing without noise as the ceiling. 1,600 clients have 31 rows each.
`--only ResNet-20` is one pair at the paper's full size.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.studies.planned import Study, Winners, own_accuracy, validation
from benchmarks.studies.study import Cell

FILE = "personalised/small-study.toml"
CLIENTS = (1600, 400, 100)
CLIPS = (0.003, 0.03, 0.3)
PUBLIC = (
    '{name="standard",epochs=10,keep_head=false,seed=0,data={source="tinyimagenet100",visibility="public",resize=16}}'
)
STARTS = {"scratch": '{name="scratch"}', "public start": PUBLIC}
HEADS = "head_epochs=8,head_batch_size=100,head_learning_rate=0.1"
LOCAL = "epochs=2,batch_size=100,learning_rate=0.02"
METHODS = ("dp-fedavg-fb", "ppsgd", "pmtl-ft", "centaur", "dp-pfeddsu")


def cell(name: str, method: str, clients: int, start: str, *changes: str) -> Cell:
    return Cell(
        name=f"{name} N={clients} {start}",
        file=FILE,
        changes=(
            f"method={{name={method},{LOCAL},{HEADS}}}",
            f"data.clients={clients}",
            "data.late_clients=0",
            "data.options={resize=16}",
            f"start={STARTS[start]}",
            "rounds=20",
            "privacy.delta=1e-4",
            *changes,
        ),
    )


def candidates() -> dict[str, list[Cell]]:
    kept = "data.client_split={validation=0.2,test=0.0}"
    return {
        f"clip, N={clients}, {start}": [
            cell(f"tried C={clip:g}", '"centaur"', clients, start, f"privacy.clip_norm={clip}", kept) for clip in CLIPS
        ]
        for clients in CLIENTS
        for start in STARTS
    }


def cells(winners: Winners) -> list[Cell]:
    return [*(one for clients in CLIENTS for start in STARTS for one in _at(clients, start, winners)), *full_size()]


def full_size() -> list[Cell]:
    """Table II at s = 5 as the paper has it, ResNet-20 and 100 rounds: sharing against heads alone."""
    methods = {"heads alone": "{name='centaur',extractor='frozen'}", "dp-pfeddsu": "{name='dp-pfeddsu'}"}
    few = ("engine.workers=1", "engine.evaluate_every=1000", "engine.checkpoint_every=1")
    return [
        Cell(name=f"ResNet-20 {name}", file="personalised/table2-cifar10-s5.toml", changes=(f"method={method}", *few))
        for name, method in methods.items()
    ]


def _at(clients: int, start: str, winners: Winners) -> list[Cell]:
    won = winners[f"clip, N={clients}, {start}"].changes
    clip = next(change for change in won if change.startswith("privacy.clip_norm="))
    alone = cell("heads alone", '"centaur",extractor="frozen"', clients, start)
    ceiling = cell(
        "no noise",
        '"centaur"',
        clients,
        start,
        'privacy={noise_multiplier=0.0,clip_norm=1.0,sampler="everyone",delta=1e-4}',
    )
    return [alone, ceiling, *(cell(method, f'"{method}"', clients, start, clip) for method in METHODS)]


def quick(one: Cell) -> Sequence[str]:
    start = ("start.epochs=1", "start.data.limit=500") if "public start" in one.name else ()
    small = ("rounds=2", "data.clients=10", "method.head_epochs=1", "data.client_test_rows=50")
    return (*small, "data.options.limit=2000", "data.options.test_limit=500", *start)


STUDY = Study(
    name="Personalised methods at scale",
    file="personalised",
    cells=cells,
    candidates=candidates(),
    choose_by=validation,
    figures=own_accuracy,
    quick=quick,
)

if __name__ == "__main__":
    STUDY.main()
