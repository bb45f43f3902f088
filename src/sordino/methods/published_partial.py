"""BL-PF as Reprogrammable-FL's public code runs it: a frozen source whose batch statistics move on private rows, without noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import one_hot

from sordino.core import SordinoError, Unit
from sordino.data.examples import Examples
from sordino.methods.method import METHODS, Broadcast, ClientContext, Federation, Method, State
from sordino.methods.model_average import mean_by_size
from sordino.models import FlatSpace, Net
from sordino.models.moved_statistics import features_of_singles
from sordino.privacy.pricing import Uses
from sordino.settings import LARGEST_SCALE, AtLeastOne, Positive, Scale

CHUNK = 64


@METHODS.register("bl-pf-as-published")
@dataclass(frozen=True, kw_only=True)
class PublishedPartial(Method):
    """A new last layer by noisy steps over a source whose BatchNorm is in training mode in the first round, as in the public code.

    Every row of the first batch passes alone, is normalised by its own statistics, and moves the stored ones by a tenth. After a
    batch they are those of a handful of rows. The clipped and noised gradients of the head are as in DP-SGD.

    Formal guarantee: none. The moved statistics are sent as they are. What they do to each channel is carried by the scale and
    shift of the normalisation, so choose tuning = "full"; nothing else of the source moves.
    """

    batch_size: AtLeastOne = 256
    """How many rows of a client are in a batch, on average."""
    learning_rate: Positive = 0.15
    clip_norm: Scale = 1.0
    """Of the head's gradient, example by example."""
    noise_multiplier: Annotated[float, Field(ge=0, le=LARGEST_SCALE)] = 1.1
    """Of the noise on the head's gradient; [privacy] has no say here."""

    unit: ClassVar[Unit] = "client"
    uses: ClassVar[Uses] = "each"
    protected: ClassVar[bool] = False

    @property
    def uncovered(self) -> str:
        return (
            "what is sent is charged to no ε: a source's batch statistics, where it has some, move on private rows in the first round and "
            "go without noise"
        )

    @property
    def job(self) -> PublishedPartial:
        return self

    def check(self, net: Net, shared: FlatSpace) -> None:
        if not isinstance(net.head, nn.Linear) or net.head.out_features < 2:
            raise SordinoError(
                "bl-pf-as-published trains a linear last layer and moves statistics below it, but got a model without one; choose a source "
                "such as 'efficientnet_lite0', and tuning = 'full'."
            )
        names = set().union(*net.parts().values())
        if set(shared.names) != names:
            raise SordinoError(
                f"bl-pf-as-published sends the whole model, since scales and shifts below the head carry the moved statistics, but this "
                f"tuning shares {len(shared.names)} of its {len(names)} tensors; set tuning = 'full'."
            )

    def workload(self, examples: int) -> tuple[int, int]:
        return min(self.batch_size, examples), 1

    def round(self, number: int, state: State, federation: Federation) -> State:
        uploads = federation.collect_each(number, Broadcast.of(state["model"]), self.job)
        return {**state, "model": state["model"] + mean_by_size(uploads, federation)} if uploads else state

    def run(self, start: Tensor, examples: Examples, context: ClientContext) -> Tensor:
        net, space, head = context.net, context.space, context.net.head
        assert isinstance(head, nn.Linear)
        space.write(net, start)
        batches = context.generator("batches")
        rows = torch.rand(len(examples), generator=batches) < self.batch_size / len(examples)
        batch = examples.take(rows.nonzero()[:, 0])
        net.eval()
        with torch.no_grad():
            self._step(head, self._features(net, batch, context), batch.labels.to(context.device), context)
        net.train()
        return space.read(net) - start

    def _features(self, net: Net, batch: Examples, context: ClientContext) -> Tensor:
        inputs = batch.features(context.device)
        if not len(inputs):
            return inputs.new_zeros(0, net.get_parameter("head.weight").shape[1])
        if context.round == 0:
            return features_of_singles(net.body, inputs.split(CHUNK))
        return torch.cat([net.body(part) for part in inputs.split(CHUNK)])

    def _step(self, head: nn.Linear, features: Tensor, labels: Tensor, context: ClientContext) -> None:
        """One noisy step of the head on the sum of clipped gradients."""
        wrong = head(features).softmax(1) - one_hot(labels, head.out_features)
        with_bias = torch.cat([features, features.new_ones(len(features), 1)], 1)
        norms = wrong.norm(dim=1) * with_bias.norm(dim=1)
        total = (wrong * (self.clip_norm / norms.clamp(min=self.clip_norm))[:, None]).T @ with_bias
        noise = torch.randn(total.shape, generator=context.generator("published noise")).to(total)
        move = (total + self.noise_multiplier * self.clip_norm * noise) * (self.learning_rate / self.batch_size)
        head.weight.sub_(move[:, :-1])
        if head.bias is not None:
            head.bias.sub_(move[:, -1])
