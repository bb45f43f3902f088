"""Which part to tune under noise. First `--slices`, then `--proxy`, then without either, then `--report`:

python -m benchmarks.studies.pretrain_dpfl --out DIR [--slices | --proxy | --report FIGURE] [--seeds 1 2 3] [--only NAME]

`--slices` cuts small pictures out of the real sets into DIR; the others need SORDINO_DATA=DIR.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.studies.study import Cell, Result, markdown, results, run_all
from sordino.data.source import SourceSettings, load
from sordino.engine.record import read_summary
from sordino.privacy.calibration import calibrate
from sordino.privacy.event_kinds import GaussianDpEvent
from sordino.privacy.gaussian import gaussian_epsilon

FILE = "pretrain-dpfl/study.toml"
ROWS, PAPER_ROWS, PAPER_ROUNDS, DELTA = 200, 50_000, 128, 1e-5
SIDE, TRAIN_ROWS, TEST_ROWS = 16, 10_000, 2_000
SLICES = ("fashion_mnist", "cifar10", "mnist", "tinyimagenet100")
ROUNDS, OTHER_ROUNDS = 16, (8, 32)
"""Budgets are matched and varied at `ROUNDS`; rounds are varied at the middle budget."""

TUNINGS = {
    "ST": '{name="full"}',
    "HT": '{name="head"}',
    "FT": '{name="full"}',
    "UT 0.25": '{name="unified",head_rounds=0.25}',
    "UT 0.5": '{name="unified",head_rounds=0.5}',
    "UT 0.75": '{name="unified",head_rounds=0.75}',
    "auto printed": '{name="auto",epsilon=2.5,coefficient="printed"}',
    "auto derived": '{name="auto",epsilon=2.5,coefficient="derived"}',
}
AUTOS = [name for name in TUNINGS if name.startswith("auto")]
FIXED = [name for name in TUNINGS if name not in AUTOS]
BUDGETS = {"laplace": (50.0, 260.0, 800.0), "gaussian": (0.8, 3.0, 12.0)}
"""Of the paper's own set-up. The first is the largest of its figures; beyond it, the rule begins to choose FT."""
MIDDLE = {"laplace": 260.0, "gaussian": 3.0}
CLIPS = {"laplace": 300.0, "gaussian": 15.0}
PROXY_BETAS = {"HT": (0.03, 0.1, 0.3, 1.0), "FT": (0.1, 0.5, 2.0, 8.0), "ST": (0.1, 0.5, 2.0, 8.0)}
PROXY_SEED = 9


@dataclass(frozen=True, kw_only=True)
class Place:
    """One point of the study."""

    mechanism: str
    budget: float
    rounds: int
    source: str = "fashion_mnist"

    def __str__(self) -> str:
        return f"{self.source} {self.mechanism} ε={self.budget:g} T={self.rounds}"

    def cell(self, strategy: str, beta: float, note: str = "") -> Cell:
        start = 'start={name="scratch"}' if strategy == "ST" else f"start.data.source={_slice('tinyimagenet100')}"
        return Cell(
            name=f"{self} {strategy}{note}",
            file=FILE,
            changes=(
                f"data.source={_slice(self.source)}",
                f"rounds={self.rounds}",
                f"tuning={TUNINGS[strategy]}",
                f"method.beta={beta}",
                f"privacy.mechanism={self.mechanism}",
                f"privacy.clip_norm={CLIPS[self.mechanism]}",
                f"privacy.delta={DELTA if self.mechanism == 'gaussian' else 0.0}",
                f"privacy.epsilon={matched(self.mechanism, self.budget):.6g}",
                start,
            ),
        )


def matched(mechanism: str, budget: float) -> float:
    """The ε that puts the same noise on a mean over fewer rows, in `ROUNDS` rounds, as the paper's budget does in its own."""
    fewer = PAPER_ROWS / ROWS
    if mechanism == "laplace":
        return budget * fewer * ROUNDS / PAPER_ROUNDS
    multiplier = calibrate(
        lambda z: {GaussianDpEvent(z): PAPER_ROUNDS}, epsilon=budget, delta=DELTA, neighbours="replace-one"
    )
    return float(gaussian_epsilon(2 * math.sqrt(ROUNDS) * fewer / multiplier, DELTA))


def places(mechanisms: Collection[str] = tuple(BUDGETS)) -> list[Place]:
    """Budgets at one number of rounds, rounds at one budget, and CIFAR-10 at one point."""
    pairs = [(mechanism, budget) for mechanism, budgets in BUDGETS.items() for budget in budgets]
    at_budgets = [Place(mechanism=mechanism, budget=budget, rounds=ROUNDS) for mechanism, budget in pairs]
    at_rounds = [
        Place(mechanism=mechanism, budget=budget, rounds=rounds)
        for mechanism, budget in MIDDLE.items()
        for rounds in OTHER_ROUNDS
    ]
    other = Place(mechanism="laplace", budget=50.0, rounds=ROUNDS, source="cifar10")
    return [place for place in (*at_budgets, *at_rounds, other) if place.mechanism in mechanisms]


def proxy_cells() -> Iterator[tuple[tuple[str, float, str], float, Cell]]:
    """Learning rates tried on MNIST, a public stand-in, by mechanism, budget and strategy."""
    for mechanism, budgets in BUDGETS.items():
        for budget in budgets:
            place = Place(mechanism=mechanism, budget=budget, rounds=ROUNDS, source="mnist")
            for strategy, betas in PROXY_BETAS.items():
                for beta in betas:
                    yield (mechanism, budget, strategy), beta, place.cell(strategy, beta, f" β={beta:g}")


def best_betas(out: Path) -> dict[tuple[str, float, str], float]:
    """For each mechanism, budget and strategy, the β with the best accuracy on the stand-in; all have to be tried first."""
    scores: dict[tuple[str, float, str], list[tuple[float, float]]] = {}
    for key, beta, cell in proxy_cells():
        place = cell.place(PROXY_SEED, out)
        if (place / "summary.json").exists():
            scores.setdefault(key, []).append((read_summary(place)["accuracy"], beta))
    return {key: max(found)[1] for key, found in scores.items() if len(found) == len(PROXY_BETAS[key[2]])}


def cells(betas: Mapping[tuple[str, float, str], float]) -> list[Cell]:
    """Every fixed strategy at every place; UT takes FT's learning rate."""
    return [
        place.cell(strategy, betas[place.mechanism, place.budget, strategy if strategy in PROXY_BETAS else "FT"])
        for place in places(_tried(betas))
        for strategy in FIXED
    ]


def _tried(betas: Mapping[tuple[str, float, str], float]) -> set[str]:
    """Mechanisms whose learning rates are all known."""
    return {
        mechanism
        for mechanism, budgets in BUDGETS.items()
        if all((mechanism, budget, strategy) in betas for budget in budgets for strategy in PROXY_BETAS)
    }


def auto_cell(place: Place, strategy: str, choice: str, betas: Mapping[tuple[str, float, str], float]) -> Cell:
    """`auto` with the learning rate of one of its choices, which does not depend on the learning rate."""
    return place.cell(strategy, betas[place.mechanism, place.budget, choice], f" at the β of {choice}")


def run_autos(
    betas: Mapping[tuple[str, float, str], float], seeds: Sequence[int], wanted: Sequence[str], out: Path
) -> None:
    """First with the head's learning rate; where everything is chosen, once more with that of full tuning."""
    for place, strategy, seed in itertools.product(places(_tried(betas)), AUTOS, seeds):
        if not any(part in f"{place} {strategy}" for part in wanted):
            continue
        first = auto_cell(place, strategy, "HT", betas)
        run_all([first], [seed], out)
        if read_summary(first.place(seed, out))["choice"]["strategy"] == "FT":
            run_all([auto_cell(place, strategy, "FT", betas)], [seed], out)


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one place gave."""

    place: Place
    fixed: Mapping[str, Result]
    autos: Mapping[str, Sequence[tuple[str, float]]]
    """By rule, seed by seed: what was chosen, and the accuracy."""
    noise_power: float
    break_even: float
    flip_chances: Sequence[float]

    @property
    def winner(self) -> str:
        return max(self.fixed, key=lambda name: self.fixed[name].mean)

    def loss(self, auto: str) -> float:
        """How far the rule's runs lie behind the best fixed strategy, on average."""
        return self.fixed[self.winner].mean - statistics.mean(accuracy for _, accuracy in self.autos[auto])

    def loss_of_ends(self, auto: str) -> float:
        """The same against the better of HT and FT, between which the rule chooses."""
        best = max(self.fixed[name].mean for name in ("HT", "FT"))
        return best - statistics.mean(accuracy for _, accuracy in self.autos[auto])


def rows(out: Path, seeds: Sequence[int]) -> list[Row]:
    betas = best_betas(out)
    found = results(cells(betas), seeds, out)
    table = []
    for place in places(_tried(betas)):
        fixed = {name: found[f"{place} {name}"] for name in FIXED if f"{place} {name}" in found}
        if len(fixed) < len(FIXED):
            continue
        summaries = {name: [_auto_summary(place, name, seed, betas, out) for seed in seeds] for name in AUTOS}
        choices = [summary["choice"] for summary in summaries["auto printed"]]
        table.append(
            Row(
                place=place,
                fixed=fixed,
                autos={
                    name: [(s["choice"]["strategy"], s["accuracy"]) for s in each] for name, each in summaries.items()
                },
                noise_power=statistics.mean(choice["noise_power"] for choice in choices),
                break_even=statistics.mean(choice["break_even_noise_power"] for choice in choices),
                flip_chances=[choice["flip_chance"] for choice in choices],
            )
        )
    return table


def _auto_summary(
    place: Place, strategy: str, seed: int, betas: Mapping[tuple[str, float, str], float], out: Path
) -> dict[str, Any]:
    first = read_summary(auto_cell(place, strategy, "HT", betas).place(seed, out))
    if first["choice"]["strategy"] == "HT":
        return first
    return read_summary(auto_cell(place, strategy, "FT", betas).place(seed, out))


def report(table: Sequence[Row]) -> str:
    accuracies = markdown(
        ["set-up", *FIXED, "best"],
        [[str(row.place), *(str(row.fixed[name]) for name in FIXED), row.winner] for row in table],
    )
    choices = markdown(
        [
            "set-up",
            "P",
            "break-even (printed)",
            "printed",
            "derived",
            "better of HT, FT",
            "lost by printed",
            "by derived",
            "flip chance",
        ],
        [
            [
                str(row.place),
                f"{row.noise_power:.3g}",
                f"{row.break_even:.3g}",
                *(" ".join(chosen for chosen, _ in row.autos[name]) for name in AUTOS),
                max(("HT", "FT"), key=lambda name: row.fixed[name].mean),
                *(f"{100 * row.loss_of_ends(name):.1f} ({100 * row.loss(name):.1f})" for name in AUTOS),
                f"{min(row.flip_chances):.2g} to {max(row.flip_chances):.2g}",
            ]
            for row in table
        ],
    )
    return f"{accuracies}\n\n{choices}\n\n{_verdict(table)}\n"


def _verdict(table: Sequence[Row]) -> str:
    lines = []
    for auto in AUTOS:
        pairs = [
            (chosen, max(("HT", "FT"), key=lambda name: row.fixed[name].accuracies[seed]))
            for row in table
            for seed, (chosen, _) in enumerate(row.autos[auto])
        ]
        right = sum(chosen == best for chosen, best in pairs)
        lines.append(f"{auto}: {right} of {len(pairs)} choices are the better of HT and FT on that seed.")
    gains = [100 * (row.fixed["HT"].mean - row.fixed["ST"].mean) for row in table]
    best = [100 * (max(row.fixed[name].mean for name in FIXED if name != "ST") - row.fixed["ST"].mean) for row in table]
    lines.append(
        f"Pre-training gains {min(best):.1f} to {max(best):.1f} points over ST at its best, "
        f"HT alone {min(gains):.1f} to {max(gains):.1f}."
    )
    return "\n".join(lines)


def draw(table: Sequence[Row], path: Path) -> None:
    """Accuracy by budget and by rounds, one panel for each mechanism, with the spread over seeds."""
    figure, panels = plt.subplots(2, 2, figsize=(9, 6.5), sharey=True)
    fashion = [row for row in table if row.place.source == "fashion_mnist"]
    for panels_of_row, by in zip(panels, ("budget", "rounds"), strict=True):
        for panel, mechanism in zip(panels_of_row, BUDGETS, strict=True):
            kept = [row for row in fashion if row.place.mechanism == mechanism]
            kept = [row for row in kept if row.place.rounds == ROUNDS or by == "rounds"]
            kept = [row for row in kept if row.place.budget == MIDDLE[mechanism] or by == "budget"]
            kept.sort(key=lambda row: getattr(row.place, by))
            for name in FIXED:
                panel.errorbar(
                    [getattr(row.place, by) for row in kept],
                    [100 * row.fixed[name].mean for row in kept],
                    yerr=[100 * row.fixed[name].spread for row in kept],
                    marker="o",
                    markersize=3,
                    capsize=2,
                    linewidth=1,
                    label=name,
                )
            panel.set_xscale("log", base=2 if by == "rounds" else 10)
            panel.set_title(
                f"{mechanism}, " + (f"T = {ROUNDS}" if by == "budget" else f"ε = {MIDDLE[mechanism]:g}"), fontsize=9
            )
            panel.set_xlabel("ε of the paper with the same noise" if by == "budget" else "rounds T", fontsize=8)
    panels[0][0].legend(fontsize=7)
    figure.supylabel("accuracy, %", fontsize=9)
    figure.tight_layout()
    figure.savefig(path)


def cut_slices(out: Path) -> None:
    for name in SLICES:
        source = load(SourceSettings(source=name, visibility="public", resize=SIDE, channels=3, limit=TRAIN_ROWS))
        test = np.random.default_rng(0).permutation(len(source.test))[:TEST_ROWS]
        out.mkdir(parents=True, exist_ok=True)
        np.savez(
            out / f"{_slice(name)}.npz",
            x_train=source.train.inputs.permute(0, 2, 3, 1).numpy(),
            y_train=source.train.labels.numpy(),
            x_test=source.test.inputs[test].permute(0, 2, 3, 1).numpy(),
            y_test=source.test.labels[test].numpy(),
        )


def _slice(name: str) -> str:
    return f"{name}_{SIDE}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", nargs="+", default=[""], help="Runs whose name holds one of these.")
    parser.add_argument("--slices", action="store_true")
    parser.add_argument("--proxy", action="store_true")
    parser.add_argument("--report", type=Path, metavar="FIGURE")
    options = parser.parse_args()
    wanted = options.only
    if options.slices:
        cut_slices(options.out)
    elif options.proxy:
        run_all(
            [cell for _, _, cell in proxy_cells() if any(part in cell.name for part in wanted)],
            [PROXY_SEED],
            options.out,
        )
    elif options.report is not None:
        table = rows(options.out, options.seeds)
        draw(table, options.report)
        sys.stdout.write(report(table))
    else:
        betas = best_betas(options.out)
        run_autos(betas, options.seeds, wanted, options.out)
        run_all(
            [cell for cell in cells(betas) if any(part in cell.name for part in wanted)], options.seeds, options.out
        )


if __name__ == "__main__":
    main()
