"""Workers that do a part of the clients' work and reckon what all of it would take."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from sordino.engine.messages import Answer
from sordino.engine.simulate.workers import Place, Workers
from sordino.methods.context import ClientContext
from sordino.models import FlatSpace, Net

T = TypeVar("T")

SECONDS_OF_WARMING = 2.0
"""Work that took longer the first time is not done a second time to see how fast it is once it is warm."""


@dataclass
class Sampling:
    """How long a sample of clients may take, and what was seen of them since the last `begin`."""

    seconds_each: float
    """After so long, no more clients are asked for one thing; the first few are always done."""
    work: Callable[[int], float]
    """What a turn on so many rows amounts to; the time of turns is taken to grow with it."""
    seconds: float = 0.0
    """What the sample took."""
    reckoned: float = 0.0
    """What all would have taken."""
    left_out: int = 0
    """Turns that were not done."""

    def begin(self) -> None:
        self.seconds = self.reckoned = 0.0
        self.left_out = 0

    def without_sampling(self, seconds: float) -> float:
        """What something took that such work was part of, had all of it been done."""
        return seconds - self.seconds + self.reckoned


class SampledWorkers(Workers):
    """Each place that is left out answers what another one did."""

    def __init__(
        self, net: Net, space: FlatSpace, *, seed: int, device: torch.device, workers: int, sampling: Sampling
    ) -> None:
        super().__init__(net, space, seed=seed, device=device, workers=workers)
        self._sampling = sampling

    def each(self, places: Sequence[Place], work: Callable[[int, ClientContext], T]) -> list[T]:
        """A first wave, which may be slow because nothing is warm; then all, or as many waves more as there is time for."""
        sampling, order, begin = self._sampling, spread(len(places)), time.perf_counter()
        amounts = [sampling.work(place.size) if place.size else 1.0 for place in places]
        size = max(2, self._count)
        wave, found, tried = order[:size], dict[int, T](), list[tuple[float, float]]()
        while wave:
            seconds, done = self._timed(wave, places, work)
            found |= done
            tried.append((seconds, makespan([amounts[number] for number in wave], self._count)))
            spent = time.perf_counter() - begin
            whole = seconds * len(places) / len(wave)
            if len(wave) == len(places) or spent > (SECONDS_OF_WARMING if len(tried) == 1 else sampling.seconds_each):
                break
            wave = order if len(tried) == 1 and whole < sampling.seconds_each else order[len(found) :][:size]
        warm = tried[1:] or tried
        pace = sum(seconds for seconds, _ in warm) / sum(span for _, span in warm)
        sampling.seconds += time.perf_counter() - begin
        sampling.reckoned += pace * makespan(amounts, self._count)
        sampling.left_out += len(places) - len(found)
        usual = found[order[0]]
        return [found[k] if k in found else _as_if_at(place, usual) for k, place in enumerate(places)]

    def _timed(
        self, wave: Sequence[int], places: Sequence[Place], work: Callable[[int, ClientContext], T]
    ) -> tuple[float, dict[int, T]]:
        begin = time.perf_counter()
        done = super().each([places[number] for number in wave], _chosen(work, wave))
        return time.perf_counter() - begin, dict(zip(wave, done, strict=True))


def makespan(amounts: Iterable[float], threads: int) -> float:
    """The most work that falls to one thread where each takes the next turn as soon as it is free."""
    busy = [0.0] * threads
    for amount in amounts:
        busy[busy.index(min(busy))] += amount
    return max(busy)


def _chosen(work: Callable[[int, ClientContext], T], numbers: Sequence[int]) -> Callable[[int, ClientContext], T]:
    return lambda k, context: work(numbers[k], context)


def spread(count: int) -> list[int]:
    """All numbers below `count`, so that every beginning of the list is spread over all of them."""
    step = next(step for step in range(max(1, round(count * 0.618)), count + 2) if _coprime(step, count))
    return [(number * step) % count for number in range(count)]


def _coprime(one: int, other: int) -> bool:
    while other:
        one, other = other, one % other
    return one == 1


def _as_if_at(place: Place, done: T) -> T:
    if isinstance(done, Answer):
        return dataclasses.replace(done, client=place.client)
    return done
