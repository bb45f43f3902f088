"""Methods as a stranger would write them, each with one fault: about its price, its clients, its batches or its work."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import torch

from sordino.methods.centaur import Centaur
from sordino.methods.dp_fedavg import DpFedAvg
from sordino.methods.dp_pfeddsu import DpPfedDsu
from sordino.methods.dp_sgd import DpSgd
from sordino.methods.method import Broadcast, Turn
from sordino.methods.noisy_sgd import NoisySgd

setting = dataclass(frozen=True, kw_only=True)


def moved(state, uploads):
    return {"model": state["model"] + sum(upload.value.value for upload in uploads) / max(1, len(uploads))}


# What they declare is not what they call.


@setting
class EachAsSum(DpFedAvg):
    """Priced for a sum, and uses uploads one by one."""

    def round(self, number, state, federation):
        return moved(state, federation.collect_each(number, Broadcast.of(state["model"]), self))


@setting
class SumAsEach(DpFedAvg):
    """Priced for uploads one by one, and uses their sum."""

    uses: ClassVar = "each"


@setting
class StepsAsClient(DpFedAvg):
    """Priced for clients, and releases steps on examples."""

    def round(self, number, state, federation):
        return moved(state, federation.collect_models(number, Broadcast.of(state["model"]), NoisySgd()))


@setting
class SumAsExample(DpSgd):
    """Priced for examples, and releases updates of clients."""

    def round(self, number, state, federation):
        total = federation.collect_sum(number, Broadcast.of(state["model"]), DpFedAvg())
        return {"model": state["model"] + total.value}


@setting
class EachAsExample(DpSgd):
    def round(self, number, state, federation):
        return moved(state, federation.collect_each(number, Broadcast.of(state["model"]), DpFedAvg()))


@setting
class UnitOfItsOwn(DpFedAvg):
    """Says that it hides examples, and has a job that hides clients."""

    unit: ClassVar = "example"


@setting
class InOnePlace(DpFedAvg):
    """Says that it hides one client, who is the server."""

    pooled: ClassVar = True


@setting
class BareSupport(DpPfedDsu):
    """Sends masks of private weights, and says that noise covers them."""

    mask: str = "local"
    layers: int = 1
    uncovered: ClassVar = ""


@setting
class KeepsInSecret(Centaur):
    """Its clients keep something, and it says that they do not."""

    keeps_state: ClassVar = False


@setting
class NoisyUpload(DpFedAvg):
    """Hands client-level verbs a job of noisy steps."""

    @property
    def job(self):
        return NoisySgd()


@setting
class MoreSteps(DpSgd):
    """Priced for its own steps, and hands over a job with more of them."""

    def round(self, number, state, federation):
        job = dataclasses.replace(self, local_steps=9)
        return moved(state, federation.collect_models(number, Broadcast.of(state["model"]), job))


@setting
class LargerBatches(DpSgd):
    """Priced for small batches, and hands over a job with larger ones."""

    batch_size: int = 2

    def round(self, number, state, federation):
        job = dataclasses.replace(self, batch_size="full")
        return moved(state, federation.collect_models(number, Broadcast.of(state["model"]), job))


@setting
class PlainSteps(DpSgd):
    """Hands over a job without noise of its own."""

    def round(self, number, state, federation):
        return moved(state, federation.collect_models(number, Broadcast.of(state["model"]), DpFedAvg()))


@setting
class OldCoins(DpFedAvg):
    """Every round draws the cohort of the first."""

    def round(self, number, state, federation):
        total = federation.collect_sum(0, Broadcast.of(state["model"]), self)
        return {"model": state["model"] + total.value}


@setting
class OneNumber(DpFedAvg):
    """One number for all coordinates: within the clip by itself, far outside it once it is spread out."""

    def run(self, start, examples, context):
        return torch.full((1,), 1e6)


@setting
class Peeking(DpFedAvg):
    def round(self, number, state, federation):
        federation.data(3)
        return super().round(number, state, federation)


@setting
class PartOfAStep(DpSgd):
    """One and a half steps: charged for 1.5, released twice."""

    @property
    def local_steps(self):
        return 1.5

    @local_steps.setter
    def local_steps(self, value):
        """There is nothing to set."""


@setting
class OneStepTooMany(DpSgd):
    def run(self, start, context, *, release):
        for _ in range(self.local_steps + 1):
            release.noisy_sum(start.value)
        return start


@setting
class OwnRows(DpSgd):
    """Goes for the rows behind the release."""

    def run(self, start, context, *, release):
        release.data.map(print)
        return start


@setting
class HookedSteps(DpSgd):
    """Listens in the model through which the rows pass."""

    def run(self, start, context, *, release):
        context.net.register_forward_hook(lambda module, rows, logits: SEEN.append(rows[0].mean()))
        return super().run(start, context, release=release)


@setting
class BareModel(DpSgd):
    def run(self, start, context, *, release):
        return start.value


# Clients that see each other, and a server that sees clients.

SEEN: list[torch.Tensor] = []


def mean_row(examples):
    return examples.features("cpu").float().mean()


@setting
class GlobalStash(DpFedAvg):
    """Every client adds what the one before it left in a global of the module."""

    def run(self, start, examples, context):
        update = super().run(start, examples, context)
        SEEN.append(mean_row(examples))
        return update + SEEN[-2:][0]


@setting
class SelfStash(DpFedAvg):
    """The same, left on the method itself, which is only frozen for those who ask nicely."""

    def run(self, start, examples, context):
        update = super().run(start, examples, context) + getattr(self, "seen", 0.0)
        object.__setattr__(self, "seen", mean_row(examples))
        return update


@setting
class StashInARound(DpFedAvg):
    """Nothing is seen in the first round; in the second every client knows all of them."""

    def run(self, start, examples, context):
        seen = getattr(self, "seen", {})
        object.__setattr__(self, "seen", {**seen, (context.round, context.client): mean_row(examples)})
        before = [value for (number, _), value in seen.items() if number < context.round]
        return super().run(start, examples, context) + sum(before)


@setting
class BufferStash(DpFedAvg):
    """A running mean in a buffer of the model, as batch norm has one: it travels with the worker."""

    def run(self, start, examples, context):
        net = context.net
        running = getattr(net, "running_mean", torch.zeros(()))
        net.register_buffer("running_mean", 0.9 * running + 0.1 * mean_row(examples))
        return super().run(start, examples, context) * (1 + net.running_mean)


@setting
class ForgottenHead(Centaur):
    """Trains the head that the model happens to have, which is that of the client before."""

    def turn(self, start, own, examples, context):
        self.tune_head(examples, context)
        return Turn(update=self.run(start, examples, context), personal=own)


@setting
class SeeingServer(DpFedAvg):
    """The server's step uses what its clients left on the method."""

    def run(self, start, examples, context):
        object.__setattr__(self, "seen", mean_row(examples))
        return super().run(start, examples, context)

    def round(self, number, state, federation):
        after = super().round(number, state, federation)
        return {"model": after["model"] + getattr(self, "seen", 0.0)}


@setting
class SeeingState(DpFedAvg):
    """The same, where what is kept differs and not the model."""

    def run(self, start, examples, context):
        object.__setattr__(self, "seen", mean_row(examples))
        return super().run(start, examples, context)

    def round(self, number, state, federation):
        after = super().round(number, state, federation)
        return {**after, "mean": self.seen} if hasattr(self, "seen") and number else after


# A server that keeps something besides its state, which no checkpoint holds, and states that no checkpoint can hold.


@setting
class KeepsByForce(DpFedAvg):
    """Momentum on the method itself, which is only frozen for those who ask nicely."""

    def server_step(self, state, total, cohort):
        object.__setattr__(self, "speed", 0.9 * getattr(self, "speed", 0.0) + total / cohort)
        return {**state, "model": state["model"] + self.speed}


@setting
class KeepsInANotebook(DpFedAvg):
    """Momentum in a setting that is a dict."""

    kept: dict = dataclasses.field(default_factory=dict)

    def server_step(self, state, total, cohort):
        self.kept["speed"] = 0.9 * self.kept.get("speed", 0.0) + total / cohort
        return {**state, "model": state["model"] + self.kept["speed"]}


@setting
class KeepsBehindTheScenes(DpFedAvg):
    """Half of the model after the first round, in the dict of the method's attributes."""

    def server_step(self, state, total, cohort):
        after = super().server_step(state, total, cohort)
        return {**after, "model": (self.__dict__.setdefault("first", after["model"]) + after["model"]) / 2}


@setting
class KeepsOpenly(DpFedAvg):
    def server_step(self, state, total, cohort):
        self.average = total
        return super().server_step(state, total, cohort)


@setting
class Counting(DpFedAvg):
    def server_step(self, state, total, cohort):
        return {**super().server_step(state, total, cohort), "count": state.get("count", 0) + 1}


@setting
class ModelAlone(DpFedAvg):
    def server_step(self, state, total, cohort):
        return state["model"] + total


@setting
class StillReleased(DpFedAvg):
    def round(self, number, state, federation):
        return {"model": federation.collect_sum(number, Broadcast.of(state["model"]), self)}


@setting
class Modelless(DpFedAvg):
    def server_step(self, state, total, cohort):
        return {"average": total}


@setting
class SpreadOut(DpFedAvg):
    def server_step(self, state, total, cohort):
        return {"model": total[None]}


# Work that stacking must not replace, and faults that no longer do harm.


@setting
class Proximal(DpFedAvg):
    """FedProx: every step is pulled back to where the turn began."""

    batch_size: int = 8
    pull: float = 5.0

    def gradients(self, parameters, examples, context):
        anchors = [parameter.detach().clone() for parameter in parameters]
        for gradients in super().gradients(parameters, examples, context):
            yield [
                gradient + self.pull * (parameter.detach() - anchor)
                for gradient, parameter, anchor in zip(gradients, parameters, anchors, strict=True)
            ]


@setting
class Decaying(DpFedAvg):
    """Another optimiser under the same work."""

    @property
    def optimiser(self):
        return dataclasses.replace(super().optimiser, weight_decay=2.0)


@setting
class Rescaled(DpFedAvg):
    """A client that uploads something else than plain SGD would."""

    def run(self, start, examples, context):
        return 1e-3 * mean_row(examples) * torch.ones_like(start)


@setting
class Zeros(DpFedAvg):
    """Does nothing at all, and so must learn nothing."""

    def run(self, start, examples, context):
        return torch.zeros_like(start)


@setting
class TwoFaced(DpSgd):
    """Says a small rate to whoever prices it, and another to itself: batches are drawn where the price is known."""

    batch_size: int = 2

    def run(self, start, context, *, release):
        object.__setattr__(self, "batch_size", "full")
        try:
            return super().run(start, context, release=release)
        finally:
            object.__setattr__(self, "batch_size", 2)


@setting
class TwiceARound(DpFedAvg):
    """Asks for two sums in a round, and pays for two."""

    def round(self, number, state, federation):
        return super().round(number, super().round(number, state, federation), federation)


@setting
class StepsTwiceARound(DpSgd):
    batch_size: int = 8

    def round(self, number, state, federation):
        return super().round(number, super().round(number, state, federation), federation)
