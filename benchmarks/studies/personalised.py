"""The personalised family: `python -m benchmarks.studies.personalised --out DIR [--seeds 1 2 3] [--part NAME ...] [--report]`.

The images are drawn and shrunk once, into DIR, so that a run does not spend its time on reading them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch

import sordino
from benchmarks.studies.study import EXAMPLES, Cell, markdown, run_all
from sordino.data.source import SourceSettings, load
from sordino.engine.record import read_summary

FILE = "personalised/small-study.toml"
ROWS, TESTED, SIDE = 5000, 2000, 16
LOCAL = "epochs=2,batch_size=100,learning_rate={rate}"
HEAD = "head_epochs=8,head_batch_size=100,head_learning_rate={head_rate}"
SPARSE = "share={S},layers={k},norm_weight={λ}"
CHOSEN = {"rate": "0.02", "head_rate": "0.1", "clip": "0.01", "S": "0.05", "k": "4", "λ": "0.2"}
"""Steps and clip from the public proxy; S, k and λ are the paper's."""

METHODS = ("dp-fedavg", "dp-fedavg-fb", "ppsgd", "pmtl-ft", "centaur", "dp-pfeddsu")
EPSILONS = ("0.5", "1", "2")
CLASSES = ("2", "5", "10")
PRIVACY = 'delta=1e-3,noise="distributed",sampler="everyone"'
PARTS = ("main", "floor", "ablation", "forms", "sweeps", "clips")
NO_MOVE = "1e-9"
"""A clip at which the extractor stays where it started: what heads alone reach."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """Cells over one small set of images."""

    images: Path

    def cell(
        self, name: str, method: str, *, s: str = "5", epsilon: str = "1", extra: str = "", **changed: str
    ) -> Cell:
        values = {**CHOSEN, **changed}
        settings = [f'name="{method}"', LOCAL, *([] if method == "dp-fedavg" else [HEAD])]
        if method == "dp-pfeddsu":
            settings += [SPARSE, *([] if "head_extractor" in extra else ['head_extractor="masked"'])]
        table = ",".join(settings).format(**values) + (f",{extra}" if extra else "")
        fixed = {"none": self.noise_at_one, "inf": 0.0}
        promise = f"noise_multiplier={fixed[epsilon]}" if epsilon in fixed else f"epsilon={epsilon}"
        return Cell(
            name=name,
            file=FILE,
            changes=(
                f"method={{{table}}}",
                f"privacy={{{promise},clip_norm={values['clip']},{PRIVACY}}}",
                f"data.partition.classes_per_client={s}",
                f'data.source="{self.images}"',
                "data.options={}",
            ),
        )

    @cached_property
    def noise_at_one(self) -> float:
        """The multiplier with which a covered mask has ε = 1."""
        return sordino.plan(EXAMPLES / FILE, f'data.source="{self.images}"', "data.options={}").tariff.noise_multiplier

    def main(self) -> list[Cell]:
        return [
            self.cell(f"{method} s={s} ε={epsilon}", method, s=s, epsilon=epsilon)
            for epsilon in EPSILONS
            for s in CLASSES
            for method in METHODS
        ]

    def floor(self) -> list[Cell]:
        """What heads reach over an extractor that never moves, and what sharing brings where nothing is noised."""
        alone = [self.cell(f"heads alone s={s}", "centaur", s=s, clip=NO_MOVE) for s in CLASSES]
        return alone + [self.cell(f"no noise s={s}", "centaur", s=s, epsilon="inf", clip="1.0") for s in CLASSES]

    def ablation(self) -> list[Cell]:
        return [self.cell(f"masks alone s={s}", "dp-pfeddsu", s=s, **{"λ": "0.0"}) for s in CLASSES]

    def sweeps(self) -> list[Cell]:
        values = {"S": ("0.01", "0.1", "0.3", "0.5", "0.9"), "k": ("1", "2", "3"), "λ": ("0.1", "0.5", "1.0", "5.0")}
        return [self.cell(f"{key}={v}", "dp-pfeddsu", **{key: v}) for key, tried in values.items() for v in tried]

    def forms(self) -> list[Cell]:
        """Other masks; `local` has no finite ε, so it gets the noise that would give ε = 1 if its support were covered."""
        masks = [
            self.cell(f"mask={mask} s={s}", "dp-pfeddsu", s=s, epsilon=epsilon, extra=f'mask="{mask}"')
            for s in CLASSES
            for mask, epsilon in (("local", "none"), ("local-dense-noise", "1"))
        ]
        others = {
            "steps move kept": 'mask="local-dense-noise",straight_through="kept"',
            "steps move larger": 'mask="local-dense-noise",straight_through="larger"',
            "regrowth 0.3": "regrowth=0.3",
            "heads on dense extractor": 'head_extractor="dense"',
        }
        return masks + [self.cell(name, "dp-pfeddsu", extra=extra) for name, extra in others.items()]

    def clips(self) -> list[Cell]:
        """Clips above the paper's 0.01, with heads on the dense extractor, so that the masks' own loss stays out."""
        extra = {"centaur": "", "dp-pfeddsu": 'head_extractor="dense"'}
        return [
            self.cell(f"{method} C={clip}", method, clip=clip, extra=extra[method])
            for clip in ("0.1", "1.0")
            for method in extra
        ]

    def part(self, name: str) -> list[Cell]:
        cells: list[Cell] = getattr(self, name)()
        return cells


@dataclass(frozen=True, kw_only=True)
class OwnMix:
    """What clients see in their own mix of labels, over seeds."""

    means: Sequence[float]
    worst: float
    late: float
    bytes_up: float
    epsilon: float

    def __str__(self) -> str:
        spread = statistics.stdev(self.means) if len(self.means) > 1 else 0.0
        return f"{100 * statistics.mean(self.means):.1f} ± {100 * spread:.1f}"


def own_mix(cell: Cell, seeds: Sequence[int], out: Path) -> OwnMix | None:
    places = [cell.place(seed, out) for seed in seeds]
    if not all((place / "summary.json").exists() for place in places):
        return None
    summaries = [read_summary(place) for place in places]
    clients: list[Mapping[str, Any]] = [one["non_private_diagnostics"]["non_private_clients"] for one in summaries]
    return OwnMix(
        means=[one["mean"] for one in clients],
        worst=statistics.mean(one["worst_tenth"] for one in clients),
        late=statistics.mean(one["newcomers"]["mean"] for one in clients),
        bytes_up=statistics.mean(one["bytes_up"] / one["clients"] / one["rounds"] for one in summaries),
        epsilon=max(float(one["epsilon"]["public"]["epsilon"]) for one in summaries),
    )


def draw_images(path: Path, source: str) -> None:
    """A few thousand rows of a data set, shrunk, drawn once."""
    if path.exists():
        return
    found = load(SourceSettings(source=source, visibility="private", limit=ROWS, resize=SIDE), seed=0)
    tested = found.test.take(torch.from_numpy(np.random.default_rng(0).permutation(len(found.test))[:TESTED]))
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {
        name: array
        for part, rows in (("train", found.train), ("test", tested))
        for name, array in ((f"x_{part}", rows.inputs.permute(0, 2, 3, 1).numpy()), (f"y_{part}", rows.labels.numpy()))
    }
    np.savez(path, allow_pickle=False, **arrays)


def report(study: Study, seeds: Sequence[int], out: Path) -> str:
    rows = []
    for part in PARTS:
        for cell in study.part(part):
            if (found := own_mix(cell, seeds, out)) is not None:
                shares = (f"{100 * one:.1f}" for one in (found.worst, found.late))
                rows.append([cell.name, str(found), *shares, f"{found.bytes_up / 1000:.1f}", f"{found.epsilon:.3f}"])
    return markdown(["cell", "own mix, %", "worst tenth, %", "late, %", "kB up", "ε public"], rows)


def draw(study: Study, seeds: Sequence[int], out: Path, path: Path) -> None:
    """Own-mix accuracy over ε, one panel for each number of classes, with the heads alone as a line."""
    plt.rcParams["svg.fonttype"] = "none"
    figure, panels = plt.subplots(1, len(CLASSES), figsize=(9, 3), sharey=False)
    cells = {cell.name: cell for part in ("main", "floor") for cell in study.part(part)}
    for panel, s in zip(panels, CLASSES, strict=True):
        for method in METHODS:
            found = [own_mix(cells[f"{method} s={s} ε={epsilon}"], seeds, out) for epsilon in EPSILONS]
            means = [statistics.mean(one.means) if one else float("nan") for one in found]
            spreads = [statistics.stdev(one.means) if one and len(one.means) > 1 else 0.0 for one in found]
            panel.errorbar([float(epsilon) for epsilon in EPSILONS], means, spreads, label=method, capsize=2)
        if alone := own_mix(cells[f"heads alone s={s}"], seeds, out):
            panel.axhline(statistics.mean(alone.means), color="black", linestyle=":", label="heads alone")
        panel.set(title=f"{s} classes per client", xlabel="ε (public view)", xscale="log")
    panels[0].set_ylabel("accuracy in own mix")
    panels[-1].legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--part", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--only", default="", help="only cells whose name contains this")
    parser.add_argument("--report", action="store_true", help="only print the table of what is there")
    parser.add_argument("--figure", type=Path, help="also draw own-mix accuracy over ε into this file")
    given = parser.parse_args()
    images = (given.out / "images.npz").resolve()
    draw_images(images, "cifar10")
    study = Study(images=images)
    if not given.report:
        cells = [cell for part in given.part for cell in study.part(part) if given.only in cell.name]
        run_all(cells, given.seeds, given.out)
    if given.figure is not None:
        draw(study, given.seeds, given.out, given.figure)
    sys.stdout.write(report(study, given.seeds, given.out) + "\n")


if __name__ == "__main__":
    main()
