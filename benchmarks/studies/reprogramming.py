"""Model reprogramming against three baselines, on a real source and on a small one.

`python -m benchmarks.studies.reprogramming --out DIR [--part real|small|rates] [--seeds 1 2 3] [--only MR ...] [--report]`

The small source is trained first, by `sordino pretrain examples/reprogramming/cifar10-small-source.toml --out DIR/source
--set model.name=cnn --set start.epochs=6`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt

from benchmarks.studies.study import Cell, Result, markdown, results, run_all
from sordino.engine.record import RunRecord, read_summary

FILES = {"MR": "mr", "BL-PF": "bl-pf", "BL-FF": "bl-ff", "BL-TS": "bl-ts"}
EPSILON = {"cifar10": 1.04, "blood": 1.96}
"""The ε that the paper prints, here as the ledger defends it."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One source model, and what is run on it."""

    frame: int
    image: int
    rates: dict[str, float]
    changes: tuple[str, ...]
    small_source: bool = False

    def cells(self, only: Sequence[str], out: Path) -> list[Cell]:
        return [self._cell(data, who, rate, out) for data in EPSILON for who, rate in self.rates.items() if who in only]

    def _cell(self, data: str, who: str, rate: float, out: Path) -> Cell:
        return Cell(
            name=f"{self.frame} {data} {who} {rate:g}",
            file=f"reprogramming/{data}-iid-{FILES[who]}.toml",
            changes=(
                *self.changes,
                *_fitted(who, self.frame, self.image),
                *(self._source(who, out) if self.small_source else ()),
                f"method.learning_rate={rate}",
                f"privacy={{epsilon={EPSILON[data]}, view='server', sampler='everyone'}}",
                "engine.workers=1",
            ),
        )

    def _source(self, who: str, out: Path) -> tuple[str, ...]:
        usual = ("model.name=cnn", "data.options.mean=[0.5]", "data.options.std=[0.5]")
        if who == "BL-TS":
            return usual
        start = f"start.path={(out / 'source' / 'weights.safetensors').resolve()}"
        return (*usual, start, *(("tuning.source_classes=100",) if who == "MR" else ()))


def _fitted(who: str, frame: int, image: int) -> tuple[str, ...]:
    if who == "MR":
        return (f"tuning.frame={frame}", f"tuning.image={image}")
    return (f"data.options.resize={frame}",)


REAL = (
    "rounds=15",
    "method.batch_size=64",
    "method.physical_batch=64",
    "data.options.limit=6000",
    "data.options.test_limit=1000",
    "engine.evaluate_every=5",
)
SMALL = (
    "rounds=20",
    "method.batch_size=128",
    "method.physical_batch=128",
    "data.options.limit=12000",
    "data.options.test_limit=1000",
    "engine.evaluate_every=4",
)
# The paper's rate of 0.15 for 100 rounds is 1.0 for 15 and 0.75 for 20: as far in all.
PARTS = {
    "real": Part(frame=64, image=56, rates=dict.fromkeys(FILES, 1.0), changes=REAL),
    "small": Part(frame=32, image=28, rates=dict.fromkeys(FILES, 0.75), changes=SMALL, small_source=True),
    "rates": Part(frame=32, image=28, rates={"MR": 3.0, "BL-PF": 3.0}, changes=SMALL, small_source=True),
}


def report(chosen: Sequence[Cell], found: dict[str, Result], seeds: Sequence[int], out: Path) -> str:
    rows = []
    for one in chosen:
        if (result := found.get(one.name)) is None:
            continue
        summaries = [read_summary(one.place(seed, out)) for seed in seeds]
        auroc, area = (
            statistics.mean(summary[field] for summary in summaries) for field in ("auroc", "accuracy_epsilon_area")
        )
        _, data, who, rate = one.name.split(" ")
        trained = f"{summaries[0]['trained_parameters']:,}"
        scores = [str(result), f"{auroc:.3f}", f"{area:.3f}"]
        noise = f"{summaries[0]['noise_multiplier']:.3f}"
        rows.append(
            [data, who, rate, trained, *scores, f"{result.epsilon['server']:.3f}", noise, f"{result.seconds:.0f}"]
        )
    return markdown(["data", "", "η", "trained", "accuracy, %", "AUROC", "area", "ε server", "z", "s"], rows)


def draw(chosen: Sequence[Cell], found: dict[str, Result], seeds: Sequence[int], out: Path, path: Path) -> None:
    """Accuracy over ε so far, mean of the seeds."""
    figure, axes = plt.subplots(1, len(EPSILON), figsize=(10, 4), sharey=True)
    colours = dict(zip(FILES, ("tab:red", "tab:blue", "tab:green", "tab:gray"), strict=True))
    for one in chosen:
        if one.name not in found:
            continue
        _, data, who, rate = one.name.split(" ")
        curves = [RunRecord(one.place(seed, out)).read_metrics() for seed in seeds]
        axes[list(EPSILON).index(data)].plot(
            [row["epsilon"] for row in curves[0]],
            [100 * statistics.mean(row["accuracy"] for row in same) for same in zip(*curves, strict=True)],
            color=colours[who],
            marker=".",
            label=f"{who}, η = {rate}",
        )
    for axis, data in zip(axes, EPSILON, strict=True):
        axis.set(xlabel="ε so far (server view)", ylabel="test accuracy, %", title=data)
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", choices=list(PARTS), default="small")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", choices=list(FILES), nargs="+", default=list(FILES))
    parser.add_argument("--report", action="store_true", help="only print the table and draw the figure")
    arguments = parser.parse_args()
    chosen = PARTS[arguments.part].cells(arguments.only, arguments.out)
    if not arguments.report:
        run_all(chosen, arguments.seeds, arguments.out)
    found = results(chosen, arguments.seeds, arguments.out)
    sys.stdout.write(report(chosen, found, arguments.seeds, arguments.out) + "\n")
    draw(chosen, found, arguments.seeds, arguments.out, arguments.out / f"reprogramming-{arguments.part}.svg")


if __name__ == "__main__":
    main()
