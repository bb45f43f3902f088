"""Which part to tune, with real rows and real ε? `python -m benchmarks.studies.at_scale.pretrain_dpfl --out DIR [--only HT]`.

CIFAR-10, the paper's CNN, 10 clients, Dirichlet(1), full batches. β is chosen for each strategy and mechanism on Fashion-MNIST, a public
stand-in of the same shape, at the middle ε. HT takes minutes; FT and ST are run with T = 20 and 40 for all ε and with T = 128 at the ends
(about an hour each). `auto` is run with the noise that is drawn and with c2 = 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.studies.planned import Study, Winners, on_proxy
from benchmarks.studies.study import Cell

EPSILONS = {"gaussian": ("0.3", "0.4", "0.5", "0.6", "0.7", "0.8"), "laplace": ("25", "30", "35", "40", "45", "50")}
STRATEGIES = {"HT": '{name="head"}', "FT": '{name="full"}', "ST": '{name="full"}'}
BETAS = {"HT": (0.03, 0.1, 0.3, 1.0), "FT": (0.03, 0.1, 0.3), "ST": (0.03, 0.1, 0.3)}
ROUNDS, LONG = (20, 40), 128
PROXY = ('data.source="fashion_mnist"', "data.options={channels=3,resize=32}", 'data.visibility="public"')


def cell(name: str, strategy: str, mechanism: str, epsilon: str, rounds: int, beta: str, *changes: str) -> Cell:
    scratch = ('start={name="scratch"}',) if strategy == "ST" else ()
    tuning = STRATEGIES.get(strategy, strategy)
    return Cell(
        name=f"{name} {mechanism} ε={epsilon} T={rounds}",
        file=f"pretrain-dpfl/cifar10-cnn-{mechanism}.toml",
        changes=(
            f"tuning={tuning}",
            f"privacy.epsilon={epsilon}",
            f"rounds={rounds}",
            beta,
            "engine.workers=1",
            "engine.evaluate_every=1000",
            *scratch,
            *changes,
        ),
    )


def candidates() -> dict[str, list[Cell]]:
    return {
        f"β of {strategy}, {mechanism}": [
            cell(f"tried {strategy} β={beta:g}", strategy, mechanism, epsilons[3], 20, f"method.beta={beta}", *PROXY)
            for beta in BETAS[strategy]
        ]
        for mechanism, epsilons in EPSILONS.items()
        for strategy in STRATEGIES
    }


def cells(winners: Winners) -> list[Cell]:
    made = []
    for mechanism, epsilons in EPSILONS.items():
        beta = {name: _beta(winners[f"β of {name}, {mechanism}"]) for name in STRATEGIES}
        for rounds in (*ROUNDS, LONG):
            for epsilon in epsilons:
                ends = rounds < LONG or epsilon in (epsilons[0], epsilons[-1])
                run = [name for name in STRATEGIES if name == "HT" or ends]
                made += [cell(name, name, mechanism, epsilon, rounds, beta[name]) for name in run]
        made += [_auto(mechanism, epsilon, beta["HT"]) for epsilon in (epsilons[0], epsilons[-1])]
        if mechanism == "gaussian":
            made += [_auto(mechanism, epsilon, beta["HT"], ",c2=1.0") for epsilon in (epsilons[0], epsilons[-1])]
    return made


def _auto(mechanism: str, epsilon: str, beta: str, more: str = "") -> Cell:
    name = "auto c2=1" if more else "auto"
    return cell(name, f'{{name="auto",epsilon=0.01{more}}}', mechanism, epsilon, 20, beta)


def _beta(winner: Cell) -> str:
    return next(change for change in winner.changes if change.startswith("method.beta="))


def quick(one: Cell) -> Sequence[str]:
    start = () if any("scratch" in change for change in one.changes) else ("start.epochs=1", "start.data.limit=500")
    rows = ("data.options.limit=300", "data.options.test_limit=300", "data.partition.min_examples=2", "rounds=2")
    return (*rows, *start, *(("privacy.epsilon=1000",) if "auto" in one.name else ()))


STUDY = Study(
    name="Pretrain-DPFL at scale",
    file="pretrain_dpfl",
    cells=cells,
    candidates=candidates(),
    choose_by=on_proxy,
    quick=quick,
)

if __name__ == "__main__":
    STUDY.main()
