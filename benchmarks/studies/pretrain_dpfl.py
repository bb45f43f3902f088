"""Which part to tune under noise. First `--slices`, then `--proxy`, then without either, then `--report`:

python -m benchmarks.studies.pretrain_dpfl --out DIR [--slices | --proxy | --report FIGURE] [--seeds 1 2 3] [--only NAME]

`--slices` cuts small images out of the real sets into DIR; the others need SORDINO_DATA=DIR.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from torch import Tensor

from benchmarks.studies.study import EXAMPLES, Cell, Result, markdown, results, run_all
from sordino.core import Bounded, Released, unwrap
from sordino.data.source import SourceSettings, load
from sordino.engine.asking import ask_clients
from sordino.engine.federation import FederationServer
from sordino.engine.record import read_summary
from sordino.engine.resolved import resolve
from sordino.engine.run_facts import noise_facts
from sordino.engine.setup import prepare
from sordino.engine.simulate.simulator import Simulator
from sordino.experiment import experiment, read_table
from sordino.privacy.calibration import calibrate
from sordino.privacy.door import Door, Permit
from sordino.privacy.event_kinds import GaussianDpEvent
from sordino.privacy.gaussian import gaussian_epsilon
from sordino.privacy.ledger import Ledger
from sordino.privacy.mechanisms import UPDATE
from sordino.privacy.noise import SeededNoise
from sordino.privacy.streams import stream_id
from sordino.settings import validated
from sordino.tuning.auto import Auto
from sordino.tuning.choice import make_rule
from sordino.tuning.rule import Coefficient, Statistics
from sordino.tuning.survey import Survey

FILE = "pretrain-dpfl/study.toml"
ROWS, PAPER_ROWS, PAPER_ROUNDS, DELTA = 200, 50_000, 128, 1e-5
SIDE, TRAIN_ROWS, TEST_ROWS = 16, 10_000, 2_000
SLICES = ("fashion_mnist", "cifar10", "mnist", "tinyimagenet100")
ROUNDS, OTHER_ROUNDS = 16, (8, 24)
"""Budgets are matched and varied at `ROUNDS`; rounds are varied at the middle budget."""

STRATEGIES = {
    "ST": '{name="full"}',
    "HT": '{name="head"}',
    "FT": '{name="full"}',
    "UT 0.25": '{name="unified",head_rounds=0.25}',
    "UT 0.5": '{name="unified",head_rounds=0.5}',
    "UT 0.75": '{name="unified",head_rounds=0.75}',
}
AUTO = '{name="auto",epsilon=2.5}'
"""The paper's ε of 0.01 for the statistics, by as much more as there are fewer rows."""
RULES: tuple[Coefficient, ...] = ("printed", "derived")
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
        tuning = STRATEGIES.get(strategy, AUTO)
        start = 'start={name="scratch"}' if strategy == "ST" else f"start.data.source={_slice('tinyimagenet100')}"
        return Cell(
            name=f"{self} {strategy}{note}",
            file=FILE,
            changes=(
                f"data.source={_slice(self.source)}",
                f"rounds={self.rounds}",
                f"tuning={tuning}",
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
        for strategy in STRATEGIES
    ]


def _tried(betas: Mapping[tuple[str, float, str], float]) -> set[str]:
    """Mechanisms whose learning rates are all known."""
    return {
        mechanism
        for mechanism, budgets in BUDGETS.items()
        if all((mechanism, budget, strategy) in betas for budget in budgets for strategy in PROXY_BETAS)
    }


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What the rules choose at one place on one seed, by the private statistics and by the exact ones."""

    noise_power: float
    exact: Mapping[str, float]
    private: Mapping[str, Any]
    strategies: Mapping[str, str]
    """By rule and kind of statistics: `printed, private`, `printed, exact`, ..."""


def choose_at(place: Place, seed: int) -> Chosen:
    """The choice without the training that would follow. The exact statistics are a non-private diagnostic of the simulation."""
    cell = place.cell("auto", 1.0)
    table = read_table(EXAMPLES / cell.file, (*cell.changes, f"seed={seed}"))
    experiment_here = experiment(table)
    resolved = resolve(experiment_here)
    setup = prepare(resolved, folder=(EXAMPLES / cell.file).parent, progress=lambda done, total: None)
    seen: list[float] = []
    strategies, private, power = {}, {}, 0.0
    exact: dict[str, float] = {}
    sizes = setup.loaded.sizes
    for coefficient in RULES:
        tuning = dataclasses.replace(validated(Auto, {"epsilon": 2.5}, where="tuning"), coefficient=coefficient)
        seen.clear()
        facts = noise_facts(resolved, setup.tariff, sizes)
        with closing(Simulator(setup)) as clients:
            federation = FederationServer(
                roster=setup.federated.roster,
                space=setup.space,
                tariff=setup.tariff,
                door=Door(
                    Ledger(clients=len(sizes), delta=DELTA, neighbours="replace-one"),
                    SeededNoise(stream_id("noise", seed)),
                ),
                transport=clients.transport,
            )
            with _glass(seen):
                start = setup.space.read(setup.net)
                private = tuning.decide(setup.whole, facts, partial(_ask, federation, start))
        strategies[f"{coefficient}, private"] = private["strategy"]
        shares = [rows / sum(sizes) for rows in sizes]
        exact = {name: float(np.dot(shares, seen[k::2])) for k, name in enumerate(("G1²", "G2²"))}
        rule = make_rule(setup.whole, facts, coefficient)
        power = rule.noise_power
        strategies[f"{coefficient}, exact"] = "FT" if rule.prefers_full(Statistics.named(exact)) else "HT"
    return Chosen(noise_power=power, exact=exact, private=private, strategies=strategies)


def _ask(federation: FederationServer, start: Tensor, survey: Survey) -> Mapping[str, Sequence[float]]:
    return ask_clients(federation, survey, start)


@contextmanager
def _glass(seen: list[float]) -> Iterator[None]:
    """Keep what goes through clients' doors, client by client, for the researcher at the simulator."""
    right = Permit.release

    def release(permit: Permit, value: Bounded, part: str = UPDATE) -> Released[Tensor]:
        seen.append(float(unwrap(value)))
        return right(permit, value, part)

    Permit.release = release  # type: ignore[method-assign]
    try:
        yield
    finally:
        Permit.release = right  # type: ignore[method-assign]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one place gave: every strategy, and what the rules chose seed by seed."""

    place: Place
    results: Mapping[str, Result]
    chosen: Sequence[Chosen]

    @property
    def winner(self) -> str:
        return max(self.results, key=lambda name: self.results[name].mean)

    @property
    def better_end(self) -> str:
        return max(("HT", "FT"), key=lambda name: self.results[name].mean)

    def accuracy(self, rule: str) -> float:
        """Of what the rule chose, on average over seeds."""
        return statistics.mean(
            self.results[each.strategies[rule]].accuracies[seed] for seed, each in enumerate(self.chosen)
        )


def rows(out: Path, seeds: Sequence[int]) -> list[Row]:
    betas = best_betas(out)
    found = results(cells(betas), seeds, out)
    table = []
    for place in places(_tried(betas)):
        here = {name: found[f"{place} {name}"] for name in STRATEGIES if f"{place} {name}" in found}
        if len(here) == len(STRATEGIES):
            sys.stderr.write(f"choosing at {place}\n")
            table.append(Row(place=place, results=here, chosen=[choose_at(place, seed) for seed in seeds]))
    return table


def report(table: Sequence[Row]) -> str:
    accuracies = markdown(
        ["set-up", *STRATEGIES, "best"],
        [[str(row.place), *(str(row.results[name]) for name in STRATEGIES), row.winner] for row in table],
    )
    names = [f"{coefficient}, {kind}" for kind in ("exact", "private") for coefficient in RULES]
    choices = markdown(
        ["set-up", "P", "2(G1² + G2²)", *names, "better of HT, FT"],
        [
            [
                str(row.place),
                f"{statistics.mean(each.noise_power for each in row.chosen):.3g}",
                f"{statistics.mean(2 * sum(each.exact.values()) for each in row.chosen):.3g}",
                *(_choices(row, name) for name in names),
                row.better_end,
            ]
            for row in table
        ],
    )
    return f"{accuracies}\n\n{choices}\n\n" + "\n".join(_verdict(table, name) for name in names) + f"\n{_gain(table)}\n"


def _choices(row: Row, rule: str) -> str:
    """What was chosen on each seed, and what it lost against the better of HT and FT, in points."""
    lost = 100 * (row.results[row.better_end].mean - row.accuracy(rule))
    return f"{' '.join(each.strategies[rule] for each in row.chosen)} ({lost:+.1f})".replace("+-", "-")


def _verdict(table: Sequence[Row], rule: str) -> str:
    hits = [
        (
            row.results[each.strategies[rule]].accuracies[seed],
            *(row.results[name].accuracies[seed] for name in ("HT", "FT")),
        )
        for row in table
        for seed, each in enumerate(row.chosen)
    ]
    ends = sum(reached == max(both) for reached, *both in hits)
    overall = sum(all(each.strategies[rule] == row.winner for each in row.chosen) for row in table)
    missed = [100 * (max(both) - reached) for reached, *both in hits if reached < max(both)]
    lost = f"{statistics.mean(missed):.1f} points on average, {max(missed):.1f} at most" if missed else "nothing"
    return (
        f"- {rule}: the better of HT and FT in {ends} of {len(hits)} cases, the best of all six on every seed at {overall} of "
        f"{len(table)} set-ups; where it misses HT or FT, it loses {lost}."
    )


def _gain(table: Sequence[Row]) -> str:
    gains = {row.place: (100 * (row.results[row.winner].mean - row.results["ST"].mean), row.winner) for row in table}
    most, least = max(gains, key=lambda place: gains[place]), min(gains, key=lambda place: gains[place])
    return (
        f"- The best strategy gains {gains[least][0]:.1f} ({least}) to {gains[most][0]:.1f} points ({most}) over ST, "
        f"{statistics.mean(gain for gain, _ in gains.values()):.1f} on average."
    )


def draw(table: Sequence[Row], path: Path) -> None:
    """Accuracy by budget and by rounds, one panel for each mechanism, with the spread over seeds."""
    figure, panels = plt.subplots(2, 2, figsize=(9, 6.5), sharey=True)
    fashion = [row for row in table if row.place.source == "fashion_mnist"]
    for panels_of_row, by in zip(panels, ("budget", "rounds"), strict=True):
        for panel, mechanism in zip(panels_of_row, BUDGETS, strict=True):
            kept = [row for row in fashion if row.place.mechanism == mechanism]
            kept = [row for row in kept if row.place.rounds == ROUNDS or by == "rounds"]
            kept = [row for row in kept if row.place.budget == MIDDLE[mechanism] or by == "budget"]
            _panel(panel, sorted(kept, key=lambda row: float(getattr(row.place, by))), by)
            fixed = f"T = {ROUNDS}" if by == "budget" else f"ε = {MIDDLE[mechanism]:g}"
            panel.set_title(f"{mechanism}, {fixed}", fontsize=9)
    panels[0][0].legend(fontsize=7, loc="lower center", ncols=3)
    figure.supylabel("accuracy, %", fontsize=9)
    figure.tight_layout()
    figure.savefig(path)


def _panel(panel: Axes, kept: Sequence[Row], by: str) -> None:
    for name in STRATEGIES:
        panel.errorbar(
            [getattr(row.place, by) for row in kept],
            [100 * row.results[name].mean for row in kept],
            yerr=[100 * row.results[name].spread for row in kept],
            marker="o",
            markersize=3,
            capsize=2,
            linewidth=1,
            label=name,
        )
    ticks = [getattr(row.place, by) for row in kept]
    panel.set_xscale("log")
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.minorticks_off()
    panel.set_xlabel("ε of the paper with the same noise" if by == "budget" else "rounds T", fontsize=8)


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
        run_all(
            [cell for cell in cells(betas) if any(part in cell.name for part in wanted)], options.seeds, options.out
        )


if __name__ == "__main__":
    main()
