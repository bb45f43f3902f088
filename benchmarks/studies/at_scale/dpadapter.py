"""Where does a robust start help private training? `python -m benchmarks.studies.at_scale.dpadapter --out DIR [--only ε=0.1]`.

Starts on EMNIST-47 letters, private training on MNIST with DP-SGD, ε from 0.1 to 4, a narrow and a wide MLP. The learning rate is chosen
for each start, width and ε on Fashion-MNIST, a public stand-in; and told beside it is the same at four times that rate, where noise
limits. Five seeds, which are also those of the starts. Figure 2: the robustness of every trained model, under noise of 0.1 on its weights.
`--only ResNet-20` has cells of Table 1, which take hours each.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.studies.planned import Study, Winners, accuracy, on_proxy
from benchmarks.studies.study import Cell
from sordino.engine.robustness import measure, open_subject

FILE = "dpadapter/embedded.toml"
PUBLIC = 'data={source="emnist47",visibility="public",limit=20000,resize=14}'
TRAINED = f"epochs=20,batch_size=50,keep_head=false,{PUBLIC}"
STARTS = {
    "scratch": '{name="scratch"}',
    "standard": f'{{name="standard",{TRAINED}}}',
    "sam": f'{{name="sam",perturbation_radius=0.1,warmup_epochs=2,{TRAINED}}}',
    "dpadapter": f'{{name="dpadapter",perturbation_radius=0.1,perturbation_batch=2000,warmup_epochs=2,{TRAINED}}}',
}
EPSILONS = ("0.1", "0.2", "0.5", "1", "4")
WIDTHS = ("64", "512")
RATES = (0.05, 0.2, 0.8, 3.2)
TOO_HIGH = 4.0
ROBUST_NOISE = 0.1
METHOD = 'method={{name="dp-sgd",where="one-place",local_steps=10,batch_size=512,momentum=0.0,learning_rate={rate}}}'
PROXY = ('data.source="fashion_mnist"', 'data.visibility="public"')


def cell(name: str, start: str, width: str, epsilon: str, rate: float, *changes: str) -> Cell:
    return Cell(
        name=f"{name} {start} width={width} ε={epsilon}",
        file=FILE,
        changes=(
            'data.source="mnist"',
            "data.options={resize=14,limit=20000}",
            f"model.hidden=[{width},{width}]",
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


def _group(start: str, width: str, epsilon: str) -> str:
    return f"rate, {start}, width={width}, ε={epsilon}"


def _places() -> list[tuple[str, str, str]]:
    return [(start, width, epsilon) for epsilon in EPSILONS for width in WIDTHS for start in STARTS]


def candidates() -> dict[str, list[Cell]]:
    return {_group(*place): [cell(f"tried η={rate:g}", *place, rate, *PROXY) for rate in RATES] for place in _places()}


def cells(winners: Winners) -> list[Cell]:
    made = []
    for place in _places():
        rate = float(winners[_group(*place)].name.split("η=")[1].split(" ")[0])
        made += [cell("best rate", *place, rate), cell("too high a rate", *place, TOO_HIGH * rate)]
    return [*made, *full_size()]


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
    ]


def figures(run: Path) -> dict[str, float]:
    """Accuracy, and that of the trained model under noise on its weights (Figure 2)."""
    robust = measure(open_subject(run), noise=[ROBUST_NOISE], draws=3).accuracies[ROBUST_NOISE]
    return {**accuracy(run), "robust accuracy": sum(robust) / len(robust)}


def quick(one: Cell) -> Sequence[str]:
    start = () if "scratch" in one.name else ("start.epochs=1", "start.data.limit=300")
    more = ("start.warmup_epochs=0",) if any(kind in one.name for kind in (" sam ", " dpadapter ")) else ()
    more += ("method.local_steps=2",) if "ResNet-20" in one.name else ()
    large = ("start.perturbation_batch=100",) if " dpadapter " in one.name else ()
    rows = ("data.options.limit=1000", "data.options.test_limit=300", "rounds=1", "method.batch_size=100")
    return (*rows, *start, *more, *large)


STUDY = Study(
    name="DPAdapter at scale",
    file="dpadapter",
    cells=cells,
    candidates=candidates(),
    choose_by=on_proxy,
    figures=figures,
    seeds=(1, 2, 3, 4, 5),
    quick=quick,
)

if __name__ == "__main__":
    STUDY.main()
