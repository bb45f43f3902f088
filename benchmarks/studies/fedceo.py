"""FedCEO against UDP-FedAvg: `python -m benchmarks.studies.fedceo --out DIR [--seeds 1 2 3] [--part emnist|steps|cifar] [--report]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib.pyplot as plt

from benchmarks.studies.study import Cell, Result, markdown, results, run_all

SMOOTHING = {
    "steps": {"1": (80.0, 1.03, 5), "2": (0.03, 1.06, 5)},
    "emnist": {"1": (80.0, 1.03, 20), "1.5": (1.0, 1.04, 20), "2": (0.03, 1.06, 20)},
    "cifar": {"2": (0.6, 1.04, 10)},
}
"""λ, ϑ and I: in the paper's ranges, its own values where it prints them (z = 2)."""

LOCAL = {
    "emnist": "epochs=30,batch_size=64,learning_rate=0.1",
    "steps": "epochs=1",
    "cifar": "epochs=5,batch_size=64,learning_rate=0.1",
}
NOISY_STEPS = "local_steps=30,batch_size=64,learning_rate=0.1"
"""The form of the public code: DP-SGD inside each client, per example."""

HALVES = ("data.options.mean=[0.5]", "data.options.std=[0.5]")
"""How these tables were made; the authors take 0.1307 and 0.3081 for EMNIST, as benchmarks/studies/at_scale/fedceo.py does."""

SCALE = {
    "emnist": (*HALVES, "data.options.limit=3200", "rounds=300", "privacy.participation_cap=30"),
    "steps": (*HALVES, "data.options.limit=25600", "rounds=10", "privacy.participation_cap=1", "privacy.delta=1e-5"),
    "cifar": (
        "data.options.limit=3200",
        "data.options.test_limit=2000",
        "rounds=20",
        "privacy.participation_cap=2",
        "engine.evaluate_every=10",
    ),
}
FILES = {
    "emnist": "fedceo/emnist-mlp-iid-z1.toml",
    "steps": "fedceo/emnist-mlp-iid-z1.toml",
    "cifar": "fedceo/cifar10-lenet5-iid-z1.toml",
}


def cells(part: str) -> list[Cell]:
    noisy = [cell for noise in SMOOTHING[part] for cell in _cells_at(part, noise)]
    return noisy if part == "steps" else [_without_noise(part), *noisy]


def _without_noise(part: str) -> Cell:
    """What the same data and steps give with no privacy at all."""
    method = f'method={{name="fedavg",{LOCAL[part]}}}'
    return Cell(name=f"{part} z=0 fedavg none", file=FILES[part], changes=(method, "engine.workers=1", *SCALE[part]))


def _cells_at(part: str, noise: str) -> list[Cell]:
    strength, growth, interval = SMOOTHING[part][noise]
    smoothing = f"{LOCAL[part]},regularisation={strength},interval={interval}"
    plain = f'{{name="dp-fedavg",{LOCAL[part]}}}'
    if part == "steps":
        smoothing += f",noisy_steps={{{NOISY_STEPS}}}"
        plain = f'{{name="dp-sgd",{NOISY_STEPS}}}'
    methods = {
        "udp-fedavg": plain,
        "udp-fedavg-svt": f'{{name="udp-fedavg-svt",{smoothing},growth={growth}}}',
        "fedceo ϑ=1": f'{{name="fedceo",{smoothing},growth=1.0}}',
        "fedceo ϑ>1": f'{{name="fedceo",{smoothing},growth={growth}}}',
    }

    def cell(method: str, placement: str) -> Cell:
        return Cell(
            name=f"{part} z={noise} {method} {placement}",
            file=FILES[part],
            changes=(
                f"method={methods[method]}",
                f"privacy.noise_multiplier={noise}",
                f"privacy.noise={placement}",
                "engine.workers=1",
                "engine.checkpoint_every=100",
                *SCALE[part],
            ),
        )

    if part == "steps":
        del methods["fedceo ϑ=1"]
    shared = [cell(method, "distributed") for method in methods]
    return shared if part == "steps" else [*shared, cell("fedceo ϑ>1", "local")]


def report(part: str, found: dict[str, Result]) -> str:
    rows = []
    for cell in cells(part):
        if (result := found.get(cell.name)) is None:
            continue
        _, noise, *method, placement = cell.name.split(" ")
        epsilons = [f"{result.epsilon[view]:.3g}" for view in ("public", "server")]
        rows.append([noise[2:], " ".join(method), placement, str(result), *epsilons, f"{result.seconds:.0f}"])
    return markdown(["z", "method", "noise on uploads", "accuracy, %", "ε public", "ε server", "s"], rows)


def draw(part: str, found: dict[str, Result], path: Path) -> None:
    """Accuracy over z, one line per method and placement of the noise."""
    lines: dict[str, list[tuple[float, Result]]] = {}
    for name, result in found.items():
        _, noise, rest = name.split(" ", 2)
        if noise == "z=0":
            continue
        lines.setdefault(rest, []).append((float(noise[2:]), result))
    figure, axes = plt.subplots(figsize=(7, 4))
    for index, (name, points) in enumerate(sorted(lines.items())):
        shift = 0.012 * (index - len(lines) / 2)
        axes.errorbar(
            [noise + shift for noise, _ in points],
            [100 * result.mean for _, result in points],
            [100 * result.spread for _, result in points],
            marker="o",
            capsize=3,
            label=name,
        )
    axes.set(xlabel="noise multiplier z", ylabel="test accuracy, %", title=f"{part}: mean and spread of three seeds")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--part", choices=list(FILES), default="emnist")
    parser.add_argument("--report", action="store_true", help="only print the table and draw the figure")
    arguments = parser.parse_args()
    if not arguments.report:
        run_all(cells(arguments.part), arguments.seeds, arguments.out)
    found = results(cells(arguments.part), arguments.seeds, arguments.out)
    sys.stdout.write(report(arguments.part, found) + "\n")
    draw(arguments.part, found, arguments.out / f"fedceo-{arguments.part}.svg")


if __name__ == "__main__":
    main()
