"""Where does a robust start help private training? `python -m benchmarks.studies.at_scale.dpadapter --out DIR [--only ε=0.1]`.

Starts on EMNIST-47 letters, private training on MNIST with DP-SGD, ε from 0.1 to 4, an MLP of two layers of 512. The learning rate is
chosen for each start and ε on Fashion-MNIST, a public stand-in. Told beside it, at ε = 0.1, 0.2 and 4, is the same at four times that
rate, where noise limits more. The radii are those that the small study chose on public rows. Five seeds, which are also those of the
starts.
Beside them stands a convolutional network on CIFAR-10 at 16 pixels, from starts on 10,000 public images of Tiny-ImageNet-100, ε = 1, with
a larger radius too, at which starts bear the most noise and have lost accuracy by it (`--only CNN --seeds 1 2 3`).
Figure 2: the robustness of every trained model, under noise of 0.1 on its weights. `--large` has cells of Table 1 with ResNet-20.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.studies.gains import Gain
from benchmarks.studies.planned import Study, Winners, accuracy, on_proxy
from benchmarks.studies.study import Cell
from sordino.engine.robustness import measure, open_subject

FILE = "dpadapter/embedded.toml"
PUBLIC = 'data={source="emnist47",visibility="public",limit=10000,resize=14}'
TRAINED = f"epochs=10,batch_size=50,keep_head=false,{PUBLIC}"
STARTS = {
    "scratch": '{name="scratch"}',
    "standard": f'{{name="standard",{TRAINED}}}',
    "sam": f'{{name="sam",perturbation_radius=0.1,warmup_epochs=2,{TRAINED}}}',
    "dpadapter": f'{{name="dpadapter",perturbation_radius=0.2,perturbation_batch=1000,warmup_epochs=2,{TRAINED}}}',
    "dpadapter γ=0.5": f'{{name="dpadapter",perturbation_radius=0.5,perturbation_batch=1000,warmup_epochs=2,{TRAINED}}}',
}
LARGER = "dpadapter γ=0.5"
"""The radius at which starts of the small study were most robust."""
PICTURES = 'data={source="tinyimagenet100",visibility="public",limit=10000,resize=16}'
CONVOLUTIONAL = ("standard", "dpadapter", LARGER)
"""Starts that a convolutional network is given as well."""
ON_PICTURES = ("data.source=cifar10", "data.options={resize=16}", 'model={name="cnn"}')
EPSILONS = ("0.1", "0.2", "1", "4")
CNN_EPSILONS = ("1",)
WIDTH = 512
RATES = (0.1, 0.4, 1.6)
CNN_RATES = (*RATES, 6.4)
TOO_HIGH, TOO_HIGH_AT = 4.0, ("0.1", "0.2", "4")
ROBUST_NOISE = 0.1
METHOD = 'method={{name="dp-sgd",where="one-place",local_steps=10,batch_size=512,momentum=0.0,learning_rate={rate}}}'
PROXY = ('data.source="fashion_mnist"', 'data.visibility="public"')
COLOURED_PROXY = (*PROXY, "data.options={channels=3,resize=16,limit=20000}")


def cell(name: str, start: str, epsilon: str, rate: float, *changes: str) -> Cell:
    return Cell(
        name=f"{name} {start} ε={epsilon}",
        file=FILE,
        changes=(
            'data.source="mnist"',
            "data.options={resize=14,limit=20000}",
            f"model.hidden=[{WIDTH},{WIDTH}]",
            f"start={STARTS[start]}",
            "rounds=20",
            METHOD.format(rate=rate),
            f"privacy.epsilon={epsilon}",
            "privacy.mechanism=gaussian",
            "engine.workers=1",
            "engine.evaluate_every=1000",
            *changes,
        ),
    )


def convolutional(name: str, start: str, epsilon: str, rate: float, *changes: str) -> Cell:
    """The same with a network and images like the paper's, only smaller."""
    public = f"start={STARTS[start].replace(PUBLIC, PICTURES)}"
    return cell(f"{name} CNN", start, epsilon, rate, *ON_PICTURES, public, *changes)


def _group(start: str, epsilon: str, network: str = "") -> str:
    return f"rate, {network}{start}, ε={epsilon}"


def _places() -> list[tuple[str, str]]:
    return [(start, epsilon) for epsilon in EPSILONS for start in STARTS if start != LARGER]


def _cnn_places() -> list[tuple[str, str]]:
    return [(start, epsilon) for epsilon in CNN_EPSILONS for start in CONVOLUTIONAL]


def candidates() -> dict[str, list[Cell]]:
    dense = {_group(*place): [cell(f"tried η={rate:g}", *place, rate, *PROXY) for rate in RATES] for place in _places()}
    return dense | {
        _group(*place, "CNN "): [
            convolutional(f"tried η={rate:g}", *place, rate, *COLOURED_PROXY) for rate in CNN_RATES
        ]
        for place in _cnn_places()
    }


def _rate(winner: Cell) -> float:
    return float(winner.name.split("η=")[1].split(" ")[0])


def cells(winners: Winners) -> list[Cell]:
    made = []
    for place in _places():
        rate = _rate(winners[_group(*place)])
        made.append(cell("best rate", *place, rate))
        if place[1] in TOO_HIGH_AT and place[0] != "scratch":
            made.append(cell("too high a rate", *place, TOO_HIGH * rate))
    return [
        *made,
        *(convolutional("best rate", *place, _rate(winners[_group(*place, "CNN ")])) for place in _cnn_places()),
    ]


def full_size() -> list[Cell]:
    """Cells of Table 1: ResNet-20 on CIFAR-10 with starts of 20 epochs, where the paper has 1,000."""
    few = ("engine.workers=1", "engine.evaluate_every=1000", "engine.checkpoint_every=1")
    return [
        Cell(
            name=f"ResNet-20 {start} ε={epsilon}",
            file=f"dpadapter/cifar10-from-{start}.toml",
            changes=(f"privacy.epsilon={epsilon}", *few, *(() if start == "scratch" else ("start.epochs=20",))),
        )
        for epsilon in ("1", "4")
        for start in STARTS
        if start != LARGER
    ]


def gains(winners: Winners) -> list[Gain]:
    """Robust starts over the ordinary one, and that one over none."""
    known = {one.name: one for one in cells(winners)}

    def rows(group: str, rate: str, start: str, control: str, epsilons: Sequence[str], figure: str) -> list[Gain]:
        return [
            Gain(
                group=group,
                where=f"ε = {epsilon}",
                method=known[f"{rate} {start} ε={epsilon}"],
                control=known[f"{rate} {control} ε={epsilon}"],
                figure=figure,
            )
            for epsilon in epsilons
        ]

    best, usual, cnn = "best rate", "standard", "best rate CNN"
    return [
        *rows("an ordinary public start over none", best, usual, "scratch", EPSILONS, "accuracy"),
        *rows("DPAdapter over an ordinary start", best, "dpadapter", usual, EPSILONS, "accuracy"),
        *rows("the same, convolutional network on CIFAR-10", cnn, "dpadapter", usual, CNN_EPSILONS, "accuracy"),
        *rows("the same at a larger radius, γ = 0.5", cnn, LARGER, usual, CNN_EPSILONS, "accuracy"),
        *rows(
            "DPAdapter, MNIST, at four times the best rate",
            "too high a rate",
            "dpadapter",
            usual,
            TOO_HIGH_AT,
            "accuracy",
        ),
        *rows("SAM over an ordinary start", best, "sam", usual, EPSILONS, "accuracy"),
        *rows("DPAdapter, accuracy under noise on weights", best, "dpadapter", usual, EPSILONS, "robust accuracy"),
    ]


def figures(run: Path) -> dict[str, float]:
    """Accuracy, and that of the trained model under noise on its weights (Figure 2)."""
    robust = measure(open_subject(run), noise=[ROBUST_NOISE], draws=3).accuracies[ROBUST_NOISE]
    return {**accuracy(run), "robust accuracy": sum(robust) / len(robust)}


def quick(one: Cell) -> Sequence[str]:
    start = () if "scratch" in one.name else ("start.epochs=1", "start.data.limit=300")
    more = ("start.warmup_epochs=0",) if any(kind in one.name for kind in (" sam ", " dpadapter ")) else ()
    more += ("data.options.resize=8", "start.data.resize=8") if " CNN " in one.name else ()
    more += ("method.local_steps=2",) if "ResNet-20" in one.name else ()
    large = ("start.perturbation_batch=100",) if " dpadapter " in one.name else ()
    rows = ("data.options.limit=1000", "data.options.test_limit=300", "rounds=1", "method.batch_size=100")
    return (*rows, *start, *more, *large)


STUDY = Study(
    name="DPAdapter at scale",
    file="dpadapter",
    cells=cells,
    large=full_size(),
    candidates=candidates(),
    choose_by=on_proxy,
    figures=figures,
    seeds=(1, 2, 3, 4, 5),
    quick=quick,
    gains=gains,
)

if __name__ == "__main__":
    STUDY.main()
