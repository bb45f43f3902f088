"""What smoothing adds to a round of FedCEO at the paper's scale: ten clients of thirty local epochs, on data of the real shapes."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.effort import quick
from benchmarks.our_federation import federate
from sordino.data.examples import Examples, Normalisation
from sordino.methods.dp_fedavg import DpFedAvg
from sordino.methods.fedceo import FedCeo
from sordino.models import FlatSpace, Net, build

COPIES = 10
THRESHOLD = 20.0
NOISE_STD = 0.3


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A model, what one of its clients holds, and how many rounds are timed."""

    name: str
    shape: tuple[int, ...]
    classes: int
    rows_per_client: int
    rounds: int
    build: Callable[[], Net]


SETTINGS = (
    Setting(
        name="emnist mlp 784-64-47",
        shape=(1, 28, 28),
        classes=47,
        rows_per_client=1128,
        rounds=5,
        build=lambda: build(
            "mlp", shape=(1, 28, 28), classes=47, vocabulary=0, seed=0, hidden=[64], bias=False, dropout=0.5
        ),
    ),
    Setting(
        name="cifar-10 lenet-5",
        shape=(3, 32, 32),
        classes=10,
        rows_per_client=500,
        rounds=1,
        build=lambda: build("lenet5", shape=(3, 32, 32), classes=10, vocabulary=0, seed=0),
    ),
)


def measure() -> list[dict[str, object]]:
    """One row per model: seconds of a round without smoothing, of one smoothing and its record, and the share of the second in both."""
    return [_row(setting) for setting in SETTINGS]


def _row(setting: Setting) -> dict[str, object]:
    epochs = 1 if quick() else 30

    def data(client: int) -> Examples:
        generator = torch.Generator().manual_seed(client)
        inputs = torch.randint(256, (setting.rows_per_client, *setting.shape), generator=generator, dtype=torch.uint8)
        labels = torch.randint(setting.classes, (setting.rows_per_client,), generator=generator)
        return Examples(inputs=inputs, labels=labels, normalisation=Normalisation())

    net = setting.build()
    running = federate(net, data, clients=COPIES, method=DpFedAvg(epochs=epochs, batch_size=64, learning_rate=0.1))
    round_seconds = statistics.median(_seconds(running.do_round) for _ in range(setting.rounds))
    smoothing_seconds = statistics.median(_seconds(_smoothing(net)) for _ in range(5))
    return {
        "benchmark": "smoothing_share",
        "model": setting.name,
        "round s": round_seconds,
        "smoothing s": smoothing_seconds,
        "share of a smoothed round": smoothing_seconds / (smoothing_seconds + round_seconds),
        "note": f"schedule: {running.schedule}",
    }


def _smoothing(net: Net) -> Callable[[], object]:
    space = FlatSpace(net)
    model = space.read(net)
    copies = model + NOISE_STD * torch.randn(COPIES, model.numel(), generator=torch.Generator().manual_seed(0))
    return lambda: FedCeo().smooth_models(copies, THRESHOLD, space)


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
