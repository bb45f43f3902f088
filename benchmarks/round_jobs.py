"""The client rounds that every engine is timed on: the same models, data shapes, steps and learning rate for all."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.models import Net, build

BATCH = 64
CLASSES = 10
LEARNING_RATE = 0.05
L2_CLIP_NORM = 1.0
NOISE_MULTIPLIER = 1.0


@dataclass(frozen=True, kw_only=True)
class RoundJob:
    """`clients` that each make `steps` of SGD on batches of 64, after which their updates are clipped, summed and noised."""

    name: str
    input_shape: tuple[int, ...]
    clients: int
    steps: int

    @property
    def examples(self) -> int:
        """Rows per client: as many as its steps consume, each row once."""
        return self.steps * BATCH

    def pixels(self, client: int) -> tuple[Tensor, Tensor]:
        """Made-up bytes and labels of one client."""
        generator = torch.Generator().manual_seed(client)
        inputs = torch.randint(256, (self.examples, *self.input_shape), generator=generator, dtype=torch.uint8)
        return inputs, torch.randint(CLASSES, (self.examples,), generator=generator)

    def features(self, client: int) -> tuple[Tensor, Tensor]:
        """The same, ready for a model."""
        inputs, labels = self.pixels(client)
        return inputs.float().div_(127.5).sub_(1.0), labels

    def model(self) -> Net:
        return build(self.name, shape=self.input_shape, classes=CLASSES, seed=0)


ROUND_JOBS = {
    job.name: job
    for job in (
        RoundJob(name="mlp", input_shape=(784,), clients=100, steps=5),
        RoundJob(name="lenet5", input_shape=(3, 32, 32), clients=20, steps=3),
        RoundJob(name="resnet20", input_shape=(3, 32, 32), clients=10, steps=2),
    )
}
