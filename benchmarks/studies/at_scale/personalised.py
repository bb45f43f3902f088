"""Where does sharing an extractor beat heads alone? `python -m benchmarks.studies.at_scale.personalised --out DIR`.

EMNIST-47 at 14 pixels, five classes and 31 rows a client, an extractor of 16,960 numbers, 10 rounds in which everyone takes part, whole
clients hidden at δ = 1e-4. The noise of a mean falls with the number of clients times ε, so that decides: 400 clients at ε = 1 and 4, and
1,600 at ε = 1, which have about the noise of 400 at ε = 4. A public start (Fashion-MNIST) is the third axis. The clip is chosen for
CENTAUR with 400 clients at ε = 4, on rows that they keep from training. Then methods are compared with heads alone, and with sharing
without noise as the ceiling. `--large` is one pair at the paper's full size.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.studies.planned import Study, Winners, own_accuracy, validation
from benchmarks.studies.study import Cell

FILE = "personalised/small-study.toml"
ROWS = 31
CLIPS = (0.3, 1.0, 3.0)
CLIP = "clip"
"""The one group of candidates."""
PUBLIC = (
    '{name="standard",epochs=10,keep_head=false,seed=0,'
    'data={source="fashion_mnist",visibility="public",limit=20000,resize=14}}'
)
STARTS = {"scratch": '{name="scratch"}', "public start": PUBLIC}
HEADS = "head_epochs=8,head_batch_size=100,head_learning_rate=0.5"
LOCAL = "epochs=2,batch_size=100,learning_rate=0.2"
"""Rates at which heads keep up, and a client's update is longer than the clip: noise follows the clip, and the signal follows the rate."""
METHODS = ("centaur", "dp-pfeddsu", "ppsgd", "pmtl-ft", "dp-fedavg-fb")
FEWER = METHODS[:2]
ALONE = '"centaur",extractor="frozen"'
NO_NOISE = 'privacy={noise_multiplier=0.0,clip_norm=1.0,sampler="everyone",delta=1e-4}'


def cell(name: str, method: str, clients: int, epsilon: str, *changes: str, start: str = "scratch") -> Cell:
    return Cell(
        name=f"{name} N={clients} ε={epsilon} {start}",
        file=FILE,
        changes=(
            f"method={{name={method},{LOCAL},{HEADS}}}",
            'data.source="emnist47"',
            f"data.clients={clients}",
            "data.late_clients=0",
            "data.client_test_rows=20",
            f"data.options={{resize=14,limit={clients * ROWS}}}",
            "model.hidden=[64,64]",
            f"start={STARTS[start]}",
            "rounds=10",
            f"privacy.epsilon={epsilon}",
            "privacy.delta=1e-4",
            *changes,
        ),
    )


def candidates() -> dict[str, list[Cell]]:
    kept = "data.client_split={validation=0.2,test=0.0}"
    return {
        CLIP: [cell(f"tried C={clip:g}", '"centaur"', 400, "4", f"privacy.clip_norm={clip}", kept) for clip in CLIPS]
    }


def _method(name: str) -> str:
    """The extractor has two layers, where dp-pfeddsu makes four sparse unless told."""
    return '"dp-pfeddsu",layers=2' if name == "dp-pfeddsu" else f'"{name}"'


def cells(winners: Winners) -> list[Cell]:
    """Heads alone and the ceiling do not know ε, and are told once for each number of clients and start."""
    clip = next(change for change in winners[CLIP].changes if change.startswith("privacy.clip_norm="))

    def compared(clients: int, epsilon: str, methods: Sequence[str] = METHODS, start: str = "scratch") -> list[Cell]:
        return [cell(one, _method(one), clients, epsilon, clip, start=start) for one in methods]

    return [
        cell("heads alone", ALONE, 400, "4"),
        *compared(400, "4"),
        cell("no noise", '"centaur"', 400, "4", NO_NOISE),
        *compared(400, "1"),
        cell("heads alone", ALONE, 400, "4", start="public start"),
        *compared(400, "4", FEWER, "public start"),
        cell("heads alone", ALONE, 1600, "1"),
        *compared(1600, "1", FEWER),
    ]


def full_size() -> list[Cell]:
    """Table II at s = 5 as the paper has it, ResNet-20 and 100 rounds: sharing against heads alone."""
    methods = {"heads alone": "{name='centaur',extractor='frozen'}", "dp-pfeddsu": "{name='dp-pfeddsu'}"}
    few = ("engine.workers=1", "engine.evaluate_every=1000", "engine.checkpoint_every=1")
    return [
        Cell(name=f"ResNet-20 {name}", file="personalised/table2-cifar10-s5.toml", changes=(f"method={method}", *few))
        for name, method in methods.items()
    ]


def quick(one: Cell) -> Sequence[str]:
    if "ResNet-20" in one.name:
        return (
            "rounds=1",
            "data.clients=10",
            "data.options.limit=400",
            "data.options.test_limit=200",
            "data.client_test_rows=20",
        )
    start = ("start.epochs=1", "start.data.limit=500") if "public start" in one.name else ()
    small = ("rounds=2", "data.clients=10", "method.head_epochs=1")
    return (*small, "data.options.limit=600", "data.options.test_limit=500", *start)


STUDY = Study(
    name="Personalised methods at scale",
    file="personalised",
    cells=cells,
    large=full_size(),
    candidates=candidates(),
    choose_by=validation,
    figures=own_accuracy,
    quick=quick,
)

if __name__ == "__main__":
    STUDY.main()
