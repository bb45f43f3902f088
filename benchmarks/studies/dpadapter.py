"""The DPAdapter study: robustness of public starts, a sweep over the radius, and private training from each start.

`python -m benchmarks.studies.dpadapter --out DIR` runs every part; a stopped study goes on where it was. Each part writes
one JSON file into DIR; at the end the tables of docs/studies/dpadapter.md are printed. With `--part` and `--seeds` several
processes can share the work before that.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.studies.study import markdown
from sordino.core import SordinoError
from sordino.engine.pretraining import pretrain
from sordino.engine.robustness import measure, open_subject
from sordino.experiment import Table, experiment
from sordino.files import to_json, write_whole
from sordino.sweeps.grid import Sweep
from sordino.sweeps.running import run_sweep

PUBLIC: Table = {"source": "emnist47", "visibility": "public", "limit": 4000, "test_limit": 4000}
TRAINING: Table = {"data": PUBLIC, "epochs": 10, "batch_size": 50, "keep_head": False}
RADII = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)
NOISE = (0.0, 0.05, 0.1, 0.15, 0.2)
SEEDS = (1, 2, 3)

BASE: Table = {
    "seed": 1,
    "rounds": 20,
    "data": {"source": "mnist", "options": {"resize": 14, "limit": 6000}},
    "model": {"name": "mlp", "hidden": [64, 64]},
    "privacy": {"delta": 1e-5, "clip_norm": 1.0},
    "engine": {"workers": 1, "evaluate_every": 100, "checkpoint_every": 100, "schedule": "workers"},
}
POOLED: Table = {"name": "dp-sgd", "where": "one-place", "local_steps": 5, "batch_size": 256}
MECHANISMS: dict[str, Any] = {
    "dp-sgd": "gaussian",
    "adaptive-clip": {"name": "adaptive-clip"},
    "gep": {"name": "gep", "public": PUBLIC, "anchors": 64, "basis": 8, "groups": 3},
    "noise-schedule": {"name": "noise-schedule", "decay": 0.05, "every": 2},
}
STARTS = ("scratch", "standard", "sam", "dpadapter")
RATES = (0.5, 1.0, 2.0)


def start_table(kind: str, radius: float, seed: int) -> Table:
    """A start of the family; radius 0 is ordinary training."""
    if kind == "scratch":
        return {"name": "scratch"}
    if kind == "standard":
        return {**TRAINING, "name": kind, "seed": seed}
    large = {"perturbation_batch": 300} if kind == "dpadapter" else {}
    return {**TRAINING, **large, "name": kind, "perturbation_radius": radius, "warmup_epochs": 2, "seed": seed}


def radius_sweep(out: Path, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Clean and robust accuracy on the public test split, for both kinds of perturbation and every radius."""
    rows = []
    for kind in ("sam", "dpadapter"):
        for radius in RADII:
            found = []
            for seed in seeds:
                folder = out / "starts" / f"{kind}-{radius:g}-{seed}"
                if not (folder / "pretrain.json").exists():
                    table = {**BASE, "method": POOLED, "start": start_table(kind, radius, seed)}
                    pretrain(experiment(table), folder, folder=out, progress=lambda done, total: None)
                result = measure(open_subject(folder), noise=NOISE, draws=3, seed=seed)
                means = {f"{noise:g}": statistics.mean(values) for noise, values in result.accuracies.items()}
                found.append({**means, "rho random": result.rho_random, "rho ascent": result.rho_ascent})
            rows.append({"start": kind, "radius": radius, "seeds": found})
            say(f"radius sweep: {kind} {radius:g} done")
    return rows


def chosen_radii(rows: list[dict[str, Any]]) -> dict[str, float]:
    """By public data alone: the most robust radius whose clean accuracy is within two points of ordinary training."""
    chosen = {"scratch": 0.0, "standard": 0.0}
    for kind in ("sam", "dpadapter"):
        own = [row for row in rows if row["start"] == kind]
        plain = mean(own[0], "0")
        near = [row for row in own if mean(row, "0") >= plain - 0.02]
        chosen[kind] = max(near, key=lambda row: mean(row, "0.1"))["radius"]
    return chosen


def chosen_rates(out: Path) -> dict[str, float]:
    """A learning rate for each mechanism, from scratch on another public set that stands in for the private one."""
    best = {}
    stand_in = {"source": "fashion_mnist", "visibility": "public", "options": {"resize": 14, "limit": 6000}}
    for name, mechanism in MECHANISMS.items():
        table = {**BASE, "data": stand_in, "method": POOLED, "seed": 90}
        table["privacy"] = {**BASE["privacy"], "mechanism": mechanism, "epsilon": 4.0}
        axes = {"method.learning_rate": [str(rate) for rate in RATES]}
        rows = sweep(table, axes, out / "rates" / name, seeds=1)
        best[name] = float(max(rows, key=lambda row: row["accuracy"])["settings"]["method.learning_rate"])
    return best


def grid(out: Path, seeds: Sequence[int], radii: dict[str, float], rates: dict[str, float]) -> list[dict[str, Any]]:
    """Every start, mechanism and ε, with seeds of its own for the start too."""
    rows = []
    for name, mechanism in MECHANISMS.items():
        for start, radius in radii.items():
            accuracies: dict[str, list[float]] = {"1": [], "4": []}
            for seed in seeds:
                table = {**BASE, "seed": seed, "start": start_table(start, radius, seed)}
                table["method"] = {**POOLED, "learning_rate": rates[name]}
                table["privacy"] = {**BASE["privacy"], "mechanism": mechanism}
                for row in sweep(
                    table, {"privacy.epsilon": ["1", "4"]}, out / "grid" / f"{name}-{start}-{seed}", seeds=1
                ):
                    accuracies[row["settings"]["privacy.epsilon"]] += row["accuracies"]
            rows += [{"mechanism": name, "start": start, "epsilon": e, "accuracies": a} for e, a in accuracies.items()]
            say(f"grid: {name} from {start} done")
    return rows


def federated(out: Path, seeds: Sequence[int], radii: dict[str, float]) -> list[dict[str, Any]]:
    """DP-FedAvg over clients, and DP-SGD inside clients, from each start."""
    cases: dict[str, Table] = {
        "dp-fedavg": {
            "data": {
                **BASE["data"],
                "clients": 200,
                "partition": {"name": "dirichlet", "alpha": 1.0, "min_examples": 5},
            },
            "method": {"name": "dp-fedavg", "epochs": 2, "batch_size": 10, "learning_rate": 0.1},
            "privacy": {"delta": 1e-3, "clip_norm": 0.5, "expected_cohort": 50, "noise": "central", "epsilon": 4.0},
            "rounds": 40,
        },
        "dp-sgd in clients": {
            "data": {**BASE["data"], "clients": 5},
            "method": {"name": "dp-sgd", "where": "clients", "local_steps": 5, "batch_size": 128, "learning_rate": 0.5},
            "privacy": {"delta": 1e-5, "clip_norm": 1.0, "sampler": "everyone", "view": "server", "epsilon": 4.0},
            "rounds": 30,
        },
    }
    rows = []
    for name, case in cases.items():
        for start, radius in radii.items():
            accuracies = []
            for seed in seeds:
                table = {**BASE, **case, "seed": seed, "start": start_table(start, radius, seed)}
                accuracies += sweep(table, {}, out / "federated" / f"{name}-{start}-{seed}", seeds=1)[0]["accuracies"]
            rows.append({"method": name, "start": start, "accuracies": accuracies})
            say(f"federated: {name} from {start} done")
    return rows


def sweep(table: Table, axes: dict[str, list[str]], out: Path, *, seeds: int) -> list[dict[str, Any]]:
    results = run_sweep(Sweep(table=table, axes=axes, seeds=seeds), out, folder=out)
    if results.problems:
        raise SordinoError(results.problems[0].sentence)
    return list(results.rows)


def mean(row: dict[str, Any], key: str) -> float:
    return statistics.mean(float(seed[key]) for seed in row["seeds"])


def kept(path: Path, make: Callable[[], Any]) -> Any:
    """What the file holds; made and written where there is none."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, to_json(make(), indent=1).encode())
    return json.loads(path.read_text(encoding="utf-8"))


def work(out: Path, part: str, seeds: Sequence[int]) -> None:
    """One part for some of the seeds; what was done stays in its folder and is found by the whole study."""
    if part == "radius":
        radius_sweep(out, seeds)
        return
    radii = chosen_radii(_read(out / "radius.json"))
    if part == "grid":
        grid(out, seeds, radii, json.loads((out / "rates.json").read_text(encoding="utf-8")))
    if part == "federated":
        federated(out, seeds, radii)


def tables(out: Path) -> Iterator[str]:
    """The study's tables in Markdown."""
    swept = [
        [
            row["start"],
            f"{row['radius']:g}",
            *(_cell([seed[f"{noise:g}"] for seed in row["seeds"]]) for noise in NOISE),
            *(f"{mean(row, f'rho {way}'):.3g}" for way in ("random", "ascent")),
        ]
        for row in _read(out / "radius.json")
    ]
    yield markdown(["start", "γ", "clean", *(f"s = {noise:g}" for noise in NOISE[1:]), "ρ random", "ρ ascent"], swept)
    cells = {(row["mechanism"], row["epsilon"], row["start"]): row["accuracies"] for row in _read(out / "grid.json")}
    keys = [(name, epsilon) for name in MECHANISMS for epsilon in ("1", "4")]
    yield markdown(
        ["mechanism", "ε", *STARTS], ([*key, *(_cell(cells[(*key, start)]) for start in STARTS)] for key in keys)
    )
    shared = {(row["method"], row["start"]): row["accuracies"] for row in _read(out / "federated.json")}
    names = dict.fromkeys(name for name, _ in shared)
    yield markdown(["method", *STARTS], ([name, *(_cell(shared[name, start]) for start in STARTS)] for name in names))


def draw(out: Path) -> None:
    """Clean and robust accuracy over the radius, for both kinds of perturbation."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    rows = _read(out / "radius.json")
    for axis, kind in zip(axes, ("sam", "dpadapter"), strict=True):
        own = [row for row in rows if row["start"] == kind]
        places = range(len(own))
        for noise in NOISE:
            found = [[100 * seed[f"{noise:g}"] for seed in row["seeds"]] for row in own]
            means, spreads = [statistics.mean(one) for one in found], [statistics.stdev(one) for one in found]
            axis.errorbar(places, means, yerr=spreads, marker="o", capsize=3, label=f"s = {noise:g}")
        axis.set(title=kind, xlabel="radius γ", xticks=list(places), xticklabels=[f"{row['radius']:g}" for row in own])
    axes[0].set_ylabel("accuracy on public test images, %")
    axes[1].legend(title="noise on parameters", fontsize=8)
    figure.tight_layout()
    figure.savefig(out / "dpadapter-radius.svg")


def _read(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return rows


def _cell(values: list[float]) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{100 * statistics.mean(values):.1f} ± {100 * spread:.1f}"


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", choices=("radius", "rates", "grid", "federated"), help="one part alone")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    arguments = parser.parse_args()
    out = arguments.out
    if arguments.part == "rates":
        kept(out / "rates.json", lambda: chosen_rates(out))
    elif arguments.part is not None:
        work(out, arguments.part, arguments.seeds)
    else:
        radii = chosen_radii(kept(out / "radius.json", lambda: radius_sweep(out, SEEDS)))
        rates = kept(out / "rates.json", lambda: chosen_rates(out))
        kept(out / "grid.json", lambda: grid(out, SEEDS, radii, rates))
        kept(out / "federated.json", lambda: federated(out, SEEDS, radii))
        say(f"radii {radii}, learning rates {rates}")
        sys.stdout.write("\n\n".join(tables(out)) + "\n")
        draw(out)


if __name__ == "__main__":
    main()
