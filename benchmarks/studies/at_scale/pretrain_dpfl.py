"""Which part to tune, with real rows and real ε? `python -m benchmarks.studies.at_scale.pretrain_dpfl --out DIR [--only HT]`.

All 50,000 rows of CIFAR-10 at 16 pixels, the paper's CNN, 10 clients, Dirichlet(1), full batches, T = 20, the ends of the paper's ranges
of ε. β is chosen for each strategy and budget on Fashion-MNIST, a public stand-in: a tenth of the rows at ten times the ε, so that a
client's mean gradient bears about the same noise. Training from scratch takes the β of full tuning. `auto` reckons with the noise that is
drawn, or with c2 = 1. HT and FT have 40 rounds too, and 128, at the same β: a step is β over the root of T. `--large` has the paper's 32
pixels, with 20 and 128 rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.studies.gains import Gain
from benchmarks.studies.planned import Study, Winners, accuracy, on_proxy
from benchmarks.studies.study import Cell
from sordino.engine.record import read_summary

EPSILONS = {"gaussian": ("0.3", "0.8"), "laplace": ("25", "50")}
BUDGETS = [(mechanism, epsilon) for mechanism, epsilons in EPSILONS.items() for epsilon in epsilons]
STRATEGIES = {"HT": '{name="head"}', "FT": '{name="full"}', "ST": '{name="full"}'}
BETAS = {"HT": (0.1, 0.3, 1.0), "FT": (0.1, 0.5, 2.0, 4.0)}
ROUNDS, TWICE, LONG = 20, 40, 128
SIDE, PAPERS_SIDE = 16, 32
PROXY_ROWS, OF_ALL = 5000, 10
PROXY = (
    'data.source="fashion_mnist"',
    f"data.options={{channels=3,resize={SIDE},limit={PROXY_ROWS}}}",
    'data.visibility="public"',
)


def cell(name: str, strategy: str, mechanism: str, epsilon: str, beta: str, *changes: str, side: int = SIDE) -> Cell:
    public = f'data={{source="tinyimagenet100",visibility="public",limit=20000,resize={side}}}'
    scratch = strategy == "ST"
    start = '{name="scratch"}' if scratch else f'{{name="standard",epochs=10,keep_head=false,seed=0,{public}}}'
    return Cell(
        name=f"{name} {mechanism} ε={epsilon}",
        file=f"pretrain-dpfl/cifar10-cnn-{mechanism}.toml",
        changes=(
            f"data.options={{resize={side}}}",
            f"start={start}",
            f"tuning={STRATEGIES.get(strategy, strategy)}",
            f"privacy.epsilon={epsilon}",
            f"rounds={ROUNDS}",
            beta,
            "engine.workers=1",
            "engine.evaluate_every=1000",
            *changes,
        ),
    )


def candidates() -> dict[str, list[Cell]]:
    return {
        _group(strategy, mechanism, epsilon): [
            cell(f"tried {strategy} β={beta:g}", strategy, mechanism, _looser(epsilon), _beta(beta), *PROXY)
            for beta in BETAS[strategy]
        ]
        for mechanism, epsilon in BUDGETS
        for strategy in BETAS
    }


def _group(strategy: str, mechanism: str, epsilon: str) -> str:
    return f"β of {strategy}, {mechanism} ε={epsilon}"


def cells(winners: Winners) -> list[Cell]:
    """The cheap ones first."""
    return [
        *(_tuned(winners, strategy, strategy, *budget) for strategy in STRATEGIES for budget in BUDGETS),
        *(_tuned(winners, "auto", '{name="auto",epsilon=0.01}', *budget) for budget in BUDGETS),
        *(
            _tuned(winners, "auto c2=1", '{name="auto",epsilon=0.01,c2=1.0}', "gaussian", one)
            for one in EPSILONS["gaussian"]
        ),
        *(
            _tuned(winners, f"{rounds} rounds {strategy}", strategy, *budget, f"rounds={rounds}")
            for rounds in (TWICE, LONG)
            for strategy in BETAS
            for budget in BUDGETS
        ),
    ]


def _tuned(winners: Winners, name: str, strategy: str, mechanism: str, epsilon: str, *changes: str) -> Cell:
    """At the β that was chosen for head or full tuning at this budget; `auto` has that of the head."""
    like = "FT" if strategy in ("FT", "ST") else "HT"
    beta = _chosen(winners[_group(like, mechanism, epsilon)])
    return cell(name, strategy, mechanism, epsilon, beta, *changes)


def gains(winners: Winners) -> list[Gain]:
    known = {one.name: one for one in cells(winners)}
    budgets = [
        (f"{mechanism.capitalize()}, ε = {epsilon}", f"{mechanism} ε={epsilon}")
        for mechanism, epsilons in EPSILONS.items()
        for epsilon in epsilons
    ]

    def rows(group: str, method: str, control: str) -> list[Gain]:
        return [
            Gain(group=group, where=where, method=known[f"{method} {budget}"], control=known[f"{control} {budget}"])
            for where, budget in budgets
        ]

    longer = (f"{rounds} rounds " for rounds in (TWICE, LONG))
    return [
        *rows("head tuning over scratch, 20 rounds", "HT", "ST"),
        *rows("full over head tuning, 20 rounds", "FT", "HT"),
        *(gain for length in longer for gain in rows(f"the same, {length}", f"{length}FT", f"{length}HT")),
        *rows("`auto` over head tuning, 20 rounds", "auto", "HT"),
    ]


def full_size() -> list[Cell]:
    """The ends at the paper's 32 pixels with 20 and with 128 rounds, and the β that its example has."""
    return [
        cell(f"{rounds} rounds {strategy}", strategy, mechanism, one, _beta(0.4), f"rounds={rounds}", side=PAPERS_SIDE)
        for rounds in (ROUNDS, LONG)
        for mechanism, epsilons in EPSILONS.items()
        for one in epsilons
        for strategy in STRATEGIES
    ]


def _looser(epsilon: str) -> str:
    return f"{OF_ALL * float(epsilon):g}"


def _beta(beta: float) -> str:
    return f"method.beta={beta}"


def _chosen(winner: Cell) -> str:
    return next(change for change in winner.changes if change.startswith("method.beta="))


def figures(run: Path) -> dict[str, float]:
    """Accuracy, and for `auto` whether it chose to tune the whole model (1) or the head (0)."""
    choice = read_summary(run)["choice"]
    return {**accuracy(run), **({"chose all": float(choice["head_rounds"] == 0)} if choice else {})}


def quick(one: Cell) -> Sequence[str]:
    start = () if any("scratch" in change for change in one.changes) else ("start.epochs=1", "start.data.limit=500")
    rows = ("data.options.limit=300", "data.options.test_limit=300", "data.partition.min_examples=2", "rounds=2")
    return (*rows, *start, *(("privacy.epsilon=1000",) if "auto" in one.name else ()))


STUDY = Study(
    name="Pretrain-DPFL at scale",
    file="pretrain_dpfl",
    cells=cells,
    large=full_size(),
    candidates=candidates(),
    choose_by=on_proxy,
    figures=figures,
    quick=quick,
    gains=gains,
)

if __name__ == "__main__":
    STUDY.main()
