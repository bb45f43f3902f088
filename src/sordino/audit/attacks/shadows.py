"""Shadow models: the same kind of model on rows drawn by lot, trained all at once where they are small and dense."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.data.examples import Examples
from sordino.engine.simulate.stacked import dense_layers, run_stacked
from sordino.methods.context import ClientContext
from sordino.methods.local_sgd import LocalSgd
from sordino.models import FlatSpace, Net

Floats = NDArray[np.float64]
CHUNK, AT_ONCE = 1024, 32
LEAST_SPREAD = 1e-3
SMALLEST_BATCH, LARGEST_BATCH = 32, 128


@dataclass(frozen=True, eq=False)
class Shadows:
    """For every shadow model and row: whether the row was trained on, and the model's confidence in its label."""

    inside: NDArray[np.bool_]
    confidence: Floats

    def scores(self, seen: Floats) -> Floats:
        """LiRA (arXiv:2112.03570): how much likelier each row's confidence is under models that knew it than under others."""
        found = np.zeros(len(seen))
        for which, sign in ((self.inside, 1.0), (~self.inside, -1.0)):
            count = np.maximum(1, which.sum(0))
            mean = np.where(which, self.confidence, 0).sum(0) / count
            spread = np.sqrt(np.where(which, (self.confidence - mean) ** 2, 0).sum() / which.sum()) + LEAST_SPREAD
            found += sign * (-((seen - mean) ** 2) / (2 * spread**2) - np.log(spread))
        return found


def confidence(net: Net, rows: Examples) -> Floats:
    """The logit of the probability that a model gives each row's own label."""
    net.eval()
    parts = []
    with torch.no_grad():
        for some in torch.arange(len(rows)).split(CHUNK):
            taken = rows.take(some)
            logits = net(taken.features("cpu")).double()
            own = logits.gather(1, taken.labels[:, None])[:, 0]
            others = logits.scatter(1, taken.labels[:, None], -torch.inf).logsumexp(1)
            parts.append(own - others)
    return torch.cat(parts).numpy()


def train_shadows(
    make: Callable[[int], Net],
    rows: Examples,
    *,
    count: int,
    share: float,
    epochs: int,
    seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Shadows:
    """Train `count` models, each on a `share` of `rows` drawn by lot; `make` builds one from a seed.

    The share is that of the members among all rows, so that shadow models know as many rows as the model that is attacked.
    """
    rng = np.random.default_rng([seed, 5])
    inside = np.zeros((count, len(rows)), dtype=bool)
    for place in range(count):
        inside[place, rng.permutation(len(rows))[: max(1, round(share * len(rows)))]] = True
    job = _job(epochs, int(inside[0].sum()))
    found = np.zeros(inside.shape)
    for begin in range(0, count, AT_ONCE):
        some = range(begin, min(count, begin + AT_ONCE))
        nets = [make(seed + place) for place in some]
        own = [rows.take(torch.from_numpy(np.flatnonzero(inside[place]))) for place in some]
        for place, net, model in zip(some, nets, _trained(job, nets, own), strict=True):
            FlatSpace(net).write(net, model)
            found[place] = confidence(net, rows)
        progress(some[-1] + 1, count)
    return Shadows(inside=inside, confidence=found)


def _job(epochs: int, rows: int) -> LocalSgd:
    """Plain training; batches grow with the rows, and the rate with their root, because many small steps of many models take long."""
    batch = min(LARGEST_BATCH, max(SMALLEST_BATCH, rows // 32))
    rate = 0.1 * math.sqrt(batch / SMALLEST_BATCH)
    return LocalSgd(epochs=epochs, batch_size=batch, learning_rate=rate, momentum=0.5)


def _trained(job: LocalSgd, nets: list[Net], own: list[Examples]) -> list[Tensor]:
    space = FlatSpace(nets[0])
    starts = [space.read(net) for net in nets]
    contexts = [
        ClientContext(
            net=net.train(), space=space, client=k, round=0, size=len(own[k]), seed=k, device=torch.device("cpu")
        )
        for k, net in enumerate(nets)
    ]
    if dense_layers(nets[0]) is not None:
        updates = run_stacked(job, starts, own, contexts)
    else:
        updates = [job.run(starts[k], own[k], contexts[k]) for k in range(len(nets))]
    return [start + update for start, update in zip(starts, updates, strict=True)]
