"""The simulator: a whole federation in one process, round by round, resumable to the same bits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sordino.engine.allocator import tune_allocator
from sordino.engine.evaluate import accuracy
from sordino.engine.federation import SimulatedFederation, Traffic
from sordino.engine.moved_clips import MovedClips
from sordino.engine.record import Checkpoint, RunRecord
from sordino.engine.schedule import Workers, choose
from sordino.engine.setup import Setup, prepare
from sordino.engine.summary import epsilon_by_view, summarise
from sordino.engine.tariff import budget_of
from sordino.experiment import Experiment
from sordino.methods.method import State
from sordino.privacy.door import Door
from sordino.privacy.ledger import Ledger
from sordino.privacy.noise import NoiseSource, SecureNoise, SeededNoise
from sordino.privacy.streams import stream_id


@dataclass(frozen=True)
class Moment:
    """What an onlooker at the terminal is told after each round."""

    stage: str
    done: int
    total: int
    accuracy: float | None = None
    epsilon: float | None = None


Watcher = Callable[[Moment], None]


def simulate(
    experiment: Experiment,
    out: Path,
    *,
    resume: bool = False,
    folder: Path | None = None,
    watch: Watcher = lambda moment: None,
) -> dict[str, Any]:
    """Run an experiment into a run record; returns its summary."""
    tune_allocator()
    setup = prepare(
        experiment, folder=folder or Path.cwd(), progress=lambda done, total: watch(Moment("pre-training", done, total))
    )
    workers = Workers(
        setup.net, setup.space, seed=experiment.seed, device=setup.device, workers=experiment.engine.workers
    )
    try:
        return _Simulation(setup, RunRecord(out), workers, resume, watch).run()
    finally:
        workers.close()


class _Simulation:
    def __init__(self, setup: Setup, record: RunRecord, workers: Workers, resume: bool, watch: Watcher) -> None:
        self.setup, self.record, self.watch = setup, record, watch
        experiment = setup.experiment
        first = setup.space.read(setup.net)
        facts = record.begin(
            experiment, resume=resume, facts=_settle(setup, workers, first) if not record.experiment.exists() else {}
        )
        checkpoint = record.load_checkpoint()
        self.ledger = _open_ledger(setup, record, checkpoint)
        record.keep_metrics_before(checkpoint.rounds_done if checkpoint else 0)
        self.state: State = dict(checkpoint.state) if checkpoint else {"model": first}
        clips = MovedClips.taken_from(self.state)
        self.state = {key: value.to(setup.device) for key, value in self.state.items()}
        self.next_round = checkpoint.rounds_done if checkpoint else 0
        self.seconds = checkpoint.seconds if checkpoint else 0.0
        self.schedule = facts["schedule"]
        sampler = setup.tariff.sampler
        self.federation = SimulatedFederation(
            sizes=setup.federated.sizes,
            expected_cohort=sampler.expected_cohort,
            space=setup.space,
            data=setup.federated.client,
            tariff=setup.tariff,
            door=Door(self.ledger, _noise_source(experiment)),
            workers=workers,
            schedule=self.schedule,
            keep_diagnostics=record.save_diagnostics if _is_simulation(experiment) else lambda number, tensors: None,
            anchors=setup.anchors,
            clips=clips,
            traffic=Traffic(checkpoint.bytes_up, checkpoint.bytes_down) if checkpoint else Traffic(),
        )

    def run(self) -> dict[str, Any]:
        experiment = self.setup.experiment
        for number in range(self.next_round, experiment.rounds):
            begin = time.perf_counter()
            self.state = self.setup.method.round(number, self.state, self.federation)
            metrics = self._evaluate(number) if number in experiment.evaluation_rounds else {}
            self.seconds += time.perf_counter() - begin
            if (number + 1) % experiment.engine.checkpoint_every == 0 or number + 1 == experiment.rounds:
                self._save(number + 1)
            self.watch(
                Moment("training", number + 1, experiment.rounds, metrics.get("accuracy"), metrics.get("epsilon"))
            )
        return self._finish()

    def _evaluate(self, number: int) -> dict[str, Any]:
        """Accuracy on the public test split, which is free, and ε so far."""
        self.setup.space.write(self.setup.net, self.state["model"])
        view = self.setup.experiment.privacy.view
        metrics = {
            "round": number,
            "accuracy": accuracy(self.setup.net, self.setup.federated.source.test, self.setup.device),
            "view": view,
            "epsilon": self.ledger.worst(view).epsilon,
        }
        self.record.append_metrics(metrics)
        return metrics

    def _save(self, rounds_done: int) -> None:
        traffic = self.federation.traffic
        self.record.save_checkpoint(
            Checkpoint(
                rounds_done=rounds_done,
                ledger_lines=len(self.ledger.lines),
                seconds=self.seconds,
                bytes_up=traffic.up,
                bytes_down=traffic.down,
                state={**self.state, **self.federation.clips.to_state()},
            )
        )

    def _diagnostics(self) -> dict[str, Any]:
        return {
            "folders": [self.record.diagnostics.name] if self.record.diagnostics.exists() else [],
            "non_finite_contributions_since_start_or_resume": self.federation.door.zeroed,
        }

    def _finish(self) -> dict[str, Any]:
        setup = self.setup
        setup.space.write(setup.net, self.state["model"])
        summary = summarise(
            setup,
            accuracy=accuracy(setup.net, setup.federated.source.test, setup.device),
            epsilon=epsilon_by_view(self.ledger),
            seconds=self.seconds,
            traffic=self.federation.traffic,
            schedule=self.schedule,
            diagnostics=self._diagnostics() if _is_simulation(setup.experiment) else {},
        )
        self.record.finish(setup.whole.state_dict(), summary)
        return summary


def _is_simulation(experiment: Experiment) -> bool:
    """Numbers outside the guarantee are kept for simulations alone, never beside a release."""
    return experiment.privacy.noise_source == "seeded"


def _settle(setup: Setup, workers: Workers, start: torch.Tensor) -> dict[str, Any]:
    """What is decided once, when a run first begins."""
    asked = setup.experiment.engine.schedule
    seconds: dict[str, float] = {}
    name = asked
    if asked == "auto":
        sizes, source = setup.federated.sizes, setup.federated.source
        name, seconds = choose(
            setup.net,
            workers,
            setup.method.job,
            cohort=round(setup.tariff.sampler.expected_cohort),
            rows=sum(sizes) // len(sizes),
            shape=source.shape,
            start=start,
        )
    return {"schedule": name, "trial_seconds": seconds, "noise_multiplier": setup.tariff.noise_multiplier}


def _open_ledger(setup: Setup, record: RunRecord, checkpoint: Checkpoint | None) -> Ledger:
    privacy = setup.experiment.privacy
    budget = budget_of(privacy) if setup.tariff.protected else None
    bills = setup.tariff.worst_bills(privacy.view).values() if budget else ()
    ledger = Ledger(
        clients=setup.federated.partition.clients,
        delta=privacy.delta,
        neighbours=privacy.neighbours,
        budget=budget,
        path=record.ledger,
        planned=bills,
    )
    kept = checkpoint.ledger_lines if checkpoint else 0
    ledger.open(keep=kept, replay=privacy.noise_source == "seeded")
    return ledger


def _noise_source(experiment: Experiment) -> NoiseSource:
    if experiment.privacy.noise_source == "secure":
        return SecureNoise()
    return SeededNoise(stream_id("noise", experiment.seed))
