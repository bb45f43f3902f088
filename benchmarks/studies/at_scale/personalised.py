"""Where does sharing an extractor beat heads alone? `python -m benchmarks.studies.at_scale.personalised --out DIR`.

EMNIST-47 at 14 pixels, five classes and 31 rows a client, an extractor of 17,024 numbers, whole clients hidden at δ = 1e-4. Noise on the
mean of a round falls with N·ε. At ε = 4 it has 0.99·C where 400 clients all take part in 10 rounds, and 0.35·C where a tenth of 3,200 is
drawn in each of 20 (0.17·C if all of them took part, at ten times the cost); at ε = 1 it is 0.74·C there. So there are two regimes:
- everyone: 400 clients, all of them in each of 10 rounds, with pixels from -1 to 1;
- drawn: 3,200 clients, of whom about 320 are drawn in each of 20 rounds, with 0.175 taken off pixels and the rest divided by 0.333,
  constants in common use for EMNIST. An empty page is then no longer far from zero, where it adds the same to everyone's gradient.
  400, 800 and 1,600 clients with the same settings, of whom about 320 are drawn, tell what is owed to the number of clients.

Of those drawn every method has settings of its own, chosen at ε = 4 on rows that clients keep from training: the clip for CENTAUR, which
DP-pFedDSU, DP-FedAvg-fb and the ceiling (sharing without noise) take over; the rate for PPSGD and PMTL-FT, which take 8 steps on the
whole model in a turn; and how long heads alone are tuned, so that they do not lose for want of steps.

Cells that were in an earlier grid and never ran are gone: 400 clients at ε = 1, a public start, and 1,600 clients at ε = 1. Without noise
400 clients gained 1.7 points by sharing, so noise had nothing to take away there. `--large` is one pair at the paper's full size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.studies.gains import Gain
from benchmarks.studies.planned import Study, Winners, own_accuracy, validation
from benchmarks.studies.study import Cell

FILE = "personalised/small-study.toml"
ROWS = 31
CLIPS = (0.3, 1.0, 3.0)
CLIP = "clip"
KEPT = "data.client_split={validation=0.2,test=0.0}"
"""Rows that clients keep from training, on which settings are chosen."""
HEADS = "head_epochs=8,head_batch_size=100,head_learning_rate=0.5"
LOCAL = "epochs=2,batch_size=100,learning_rate=0.2"
"""Rates at which heads keep up, and a client's update is longer than the clip: noise follows the clip, and the signal follows the rate."""
METHODS = ("centaur", "dp-pfeddsu", "ppsgd", "pmtl-ft", "dp-fedavg-fb")
ALONE = '"centaur",extractor="frozen"'
NO_NOISE = 'privacy={noise_multiplier=0.0,clip_norm=1.0,sampler="everyone",delta=1e-4}'
MANY, FEW, COHORT = 3200, 400, 320
FEWER = (FEW, 800, 1600)
DRAWN_CLIP, DRAWN_HEADS, DRAWN_PPSGD, DRAWN_PMTL = "clip, drawn", "heads alone, drawn", "ppsgd, drawn", "pmtl-ft, drawn"
NONE = "noise_multiplier=0.0"
STEPS = "epochs=2,learning_rate=0.3"
RATES = (0.1, 0.3, 1.0)
HEAD_EPOCHS = (16, 32)


def cell(name: str, method: str, *changes: str) -> Cell:
    """Where everyone takes part."""
    return Cell(
        name=f"{name} N={FEW} ε=4 scratch",
        file=FILE,
        changes=(
            f"method={{name={method},{LOCAL},{HEADS}}}",
            'data.source="emnist47"',
            f"data.clients={FEW}",
            "data.late_clients=0",
            "data.client_test_rows=20",
            f"data.options={{resize=14,limit={FEW * ROWS}}}",
            "model.hidden=[64,64]",
            'start={name="scratch"}',
            "rounds=10",
            "privacy.epsilon=4",
            "privacy.delta=1e-4",
            *changes,
        ),
    )


def drawn(
    name: str, method: str, *changes: str, clients: int = MANY, noise: str = "epsilon=4", head_epochs: int = 16
) -> Cell:
    """One of many clients, or of few with the same settings."""
    told = "without noise" if noise == NONE else noise.replace("epsilon", "ε")
    return Cell(
        name=f"{name} N={clients} {told} drawn",
        file=FILE,
        changes=(
            f"method={{name={method},batch_size=100,head_epochs={head_epochs},head_batch_size=100,head_learning_rate=0.5}}",
            'data.source="emnist47"',
            f"data.clients={clients}",
            "data.late_clients=0",
            "data.client_test_rows=20",
            f"data.options={{resize=14,limit={clients * ROWS},mean=[0.175],std=[0.333]}}",
            "model.hidden=[64,64]",
            "rounds=20",
            f'privacy={{{noise},clip_norm=1.0,delta=1e-4,sampler="poisson",expected_cohort={COHORT}}}',
            *changes,
        ),
    )


def _tried(name: str, method: str, *changes: str, head_epochs: int = 16) -> Cell:
    """A candidate, which is shown no test row of its clients."""
    return drawn(f"tried {name}", method, *changes, KEPT, "data.client_test_rows=0", head_epochs=head_epochs)


def _whole_model(name: str, rate: float) -> str:
    return f'"{name}",epochs=8,learning_rate={rate}'


def candidates() -> dict[str, list[Cell]]:
    shared = f'"centaur",{STEPS}'
    return {
        CLIP: [cell(f"tried C={clip:g}", '"centaur"', f"privacy.clip_norm={clip}", KEPT) for clip in CLIPS],
        DRAWN_CLIP: [_tried(f"C={clip:g}", shared, f"privacy.clip_norm={clip}") for clip in CLIPS],
        DRAWN_HEADS: [_tried(f"{count} head epochs", f"{ALONE},{STEPS}", head_epochs=count) for count in HEAD_EPOCHS],
        DRAWN_PPSGD: [_tried(f"ppsgd {rate:g}", _whole_model("ppsgd", rate)) for rate in RATES],
        DRAWN_PMTL: [_tried(f"pmtl-ft {rate:g}", _whole_model("pmtl-ft", rate)) for rate in RATES],
    }


def _method(name: str) -> str:
    """The extractor has two layers, where dp-pfeddsu makes four sparse unless told."""
    return '"dp-pfeddsu",layers=2' if name == "dp-pfeddsu" else f'"{name}"'


def _change(winner: Cell, what: str) -> str:
    return next(change for change in winner.changes if change.startswith(what))


def cells(winners: Winners) -> list[Cell]:
    """Heads alone and the ceiling do not know ε, and are told once for each number of clients."""
    clip = _change(winners[CLIP], "privacy.clip_norm=")
    return [
        *_cells_drawn(winners),
        cell("heads alone", ALONE),
        *(cell(one, _method(one), clip) for one in METHODS),
        cell("no noise", '"centaur"', NO_NOISE),
    ]


def _cells_drawn(winners: Winners) -> list[Cell]:
    clip = _change(winners[DRAWN_CLIP], "privacy.clip_norm=")
    heads, ppsgd, pmtl = (_change(winners[name], "method=") for name in (DRAWN_HEADS, DRAWN_PPSGD, DRAWN_PMTL))
    shared = {one: f"{_method(one)},{STEPS}" for one in ("centaur", "dp-pfeddsu", "dp-fedavg-fb")}
    centaur = shared["centaur"]
    return [
        drawn("heads alone", ALONE, heads),
        *(drawn(one, method, clip) for one, method in shared.items()),
        drawn("ppsgd", '"ppsgd"', ppsgd),
        drawn("pmtl-ft", '"pmtl-ft"', pmtl),
        drawn("centaur", centaur, clip, noise=NONE),
        drawn("centaur", centaur, clip, noise="epsilon=1"),
        *(one for count in FEWER for one in _fewer(count, heads, shared, clip)),
    ]


def _fewer(clients: int, heads: str, shared: Mapping[str, str], clip: str) -> list[Cell]:
    """The same settings with fewer clients, who are drawn more often; noise for ε = 4 grows with that."""
    return [
        drawn("heads alone", ALONE, heads, clients=clients),
        *(drawn(one, method, clip, clients=clients) for one, method in shared.items()),
        drawn("centaur", shared["centaur"], clip, clients=clients, noise=NONE),
    ]


def gains(winners: Winners) -> list[Gain]:
    """Every method over heads alone, where the number of clients is the same."""
    known = {one.name: one for one in cells(winners)}
    counts = (MANY, *FEWER[::-1])
    few, many = f"N={FEW} ε=4 scratch", f"N={MANY} ε=4 drawn"
    regimes = [
        ("CENTAUR over heads alone", [
            (f"{MANY:,} clients, ε = 4", f"centaur {many}", many),
            (f"{MANY:,} clients, ε = 1", f"centaur N={MANY} ε=1 drawn", many),
            *((f"{count:,} clients, ε = 4", f"centaur N={count} ε=4 drawn", f"N={count} ε=4 drawn") for count in FEWER[::-1]),
            (f"{FEW} clients, all of them in 10 rounds, ε = 4", f"centaur {few}", few),
        ]),
        ("the same without noise", [
            *((f"{count:,} clients", f"centaur N={count} without noise drawn", f"N={count} ε=4 drawn") for count in counts),
            (f"{FEW} clients, all of them in 10 rounds", f"no noise {few}", few),
        ]),
        ("DP-FedAvg-fb over heads alone", [
            (f"{count:,} clients, ε = 4", f"dp-fedavg-fb N={count} ε=4 drawn", f"N={count} ε=4 drawn") for count in counts
        ]),
        ("DP-pFedDSU over heads alone", [
            *((f"{count:,} clients, ε = 4", f"dp-pfeddsu N={count} ε=4 drawn", f"N={count} ε=4 drawn") for count in counts),
            (f"{FEW} clients, all of them in 10 rounds, ε = 4", f"dp-pfeddsu {few}", few),
        ]),
        (f"others over heads alone, {MANY:,} clients, ε = 4", [
            (method, f"{method} {many}", many) for method in ("pmtl-ft", "ppsgd")
        ]),
    ]  # fmt: skip
    return [
        Gain(
            group=group, where=where, method=known[method], control=known[f"heads alone {place}"], figure="own accuracy"
        )
        for group, rows in regimes
        for where, method, place in rows
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
    cohort = ("privacy.expected_cohort=5",) if one.name.endswith("drawn") else ()
    small = ("rounds=2", "data.clients=10", "method.head_epochs=1")
    return (*small, "data.options.limit=600", "data.options.test_limit=3000", *cohort)


STUDY = Study(
    name="Personalised methods at scale",
    file="personalised",
    cells=cells,
    large=full_size(),
    candidates=candidates(),
    choose_by=validation,
    figures=own_accuracy,
    quick=quick,
    gains=gains,
)

if __name__ == "__main__":
    STUDY.main()
