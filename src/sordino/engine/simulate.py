"""The simulator: a whole federation in one process, round by round, resumable to the same bits."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sordino.core import SordinoError
from sordino.data.public import digest
from sordino.engine.allocator import tune_allocator
from sordino.engine.choice import choose_tuning
from sordino.engine.client_tests import client_figures
from sordino.engine.federation import SimulatedFederation, Traffic
from sordino.engine.moved_clips import MovedClips
from sordino.engine.personal_store import PersonalStore
from sordino.engine.record import Checkpoint, RunRecord, facts_digest
from sordino.engine.release import make_release
from sordino.engine.schedule import Workers, choose, refuse_unstackable
from sordino.engine.scoring import scores
from sordino.engine.setup import Setup, in_phase, make_tuning, prepare, source_settings
from sordino.engine.summary import summarise
from sordino.engine.tariff import Multipliers, budget_of
from sordino.experiment import Experiment
from sordino.experiment import experiment as checked
from sordino.files import make_folder
from sordino.methods.method import State
from sordino.methods.personal import Personalised
from sordino.models.weights import user_state_dict
from sordino.outside import look_beside
from sordino.pretrain.provenance import keep_identity, provenance
from sordino.privacy.door import Door
from sordino.privacy.ledger import Ledger, OverBudget
from sordino.privacy.noise import NoiseSource, SecureNoise, SeededNoise
from sordino.privacy.streams import stream_id
from sordino.tuning import Phase, bridge_of
from sordino.tuning.auto import Auto
from sordino.tuning.unified import head_then_all


@dataclass(frozen=True)
class Moment:
    """What an onlooker at the terminal is told after each round."""

    stage: str
    done: int
    total: int
    accuracy: float | None = None
    epsilon: float | None = None
    note: str = ""
    """A sentence to keep on the screen."""


Watcher = Callable[[Moment], None]


def simulate(
    experiment: Experiment,
    out: Path,
    *,
    resume: bool = False,
    finish: bool = False,
    folder: Path | None = None,
    watch: Watcher = lambda moment: None,
) -> dict[str, Any]:
    """Run an experiment into a run record; returns its summary.

    `resume` goes on where the record stands; `finish` makes model and summary of the rounds that are done, and trains no more.
    """
    tune_allocator()
    record = RunRecord(out)
    begin = folder or Path.cwd()
    look_beside(begin)
    with ExitStack() as closing:
        is_new = not out.exists()
        if not is_new:
            closing.enter_context(record.locked())
        settled = record.settled(experiment, resume=resume or finish)
        setup = prepare(
            experiment,
            folder=begin,
            progress=lambda done, total: watch(Moment("pre-training", done, total)),
            describing=lambda done, total: watch(Moment("features", done, total)),
            settled=None if settled is None else Multipliers.from_json(settled),
        )
        if is_new:
            make_folder(out)
            closing.callback(record.remove_empty)
            closing.enter_context(record.locked())
            closing.callback(record.give_up)
            record.settled(experiment, resume=False)  # nobody else has begun here in the meantime
        run = _Simulation(setup, record, closing, settled=settled, folder=begin, finish=finish, watch=watch)
        return run.run()


def finish(out: Path, *, watch: Watcher = lambda moment: None) -> dict[str, Any]:
    """Make model and summary of the rounds that a run in this folder has completed; returns its summary."""
    record = RunRecord(out)
    found, checkpoint = record.read_experiment(), record.load_checkpoint()
    if checkpoint is None or not checkpoint.rounds_done:
        raise SordinoError(
            f"{out} has no completed round to make a model of; continue it with `sordino run ... --resume`."
        )
    return simulate(checked(found["experiment"]), out, finish=True, folder=Path(found["facts"]["folder"]), watch=watch)


class _Simulation:
    def __init__(
        self,
        setup: Setup,
        record: RunRecord,
        closing: ExitStack,
        *,
        settled: dict[str, Any] | None,
        folder: Path,
        finish: bool,
        watch: Watcher,
    ) -> None:
        self.setup, self.record, self.watch = setup, record, watch
        self._finish_now = finish
        self._closing = closing
        self.workers = self._make_workers()
        first = setup.space.read(setup.net)
        data_digest = setup.loaded.digest()
        facts = settled or {
            **_settle(setup, self.workers, first),
            "data_digest": data_digest,
            "folder": str(folder),
        }
        checkpoint = record.load_checkpoint()
        self.ledger = _make_ledger(setup, record, facts, data_digest)
        if settled is None:
            self.ledger.create()
            record.begin(setup.experiment, facts)
        else:
            _reopen(self.ledger, checkpoint, replay=_is_simulation(setup.experiment) and not finish)
        record.keep_metrics_before(checkpoint.rounds_done if checkpoint else 0)
        kept: State = dict(checkpoint.state) if checkpoint else {"model": first}
        self._clips = MovedClips.taken_from(kept)
        self.state = {key: value.to(setup.device) for key, value in kept.items()}
        self.next_round = self._saved = checkpoint.rounds_done if checkpoint else 0
        self.seconds = checkpoint.seconds if checkpoint else 0.0
        self.schedule = facts["schedule"]
        self._door = Door(self.ledger, _noise_source(setup.experiment))
        self._traffic = Traffic(checkpoint.bytes_up, checkpoint.bytes_down) if checkpoint else Traffic()
        self.choice = checkpoint.choice if checkpoint else None
        self._enter(fresh=checkpoint is None)
        self.personal = _personal_store(self.setup)
        if self.personal is not None and self.next_round:
            self.personal.load(record.personal_file(self.next_round))
        self.federation = self._federation()
        if checkpoint is None and self.choice is not None:
            self._save(0)

    def _enter(self, *, fresh: bool) -> None:
        """Settle the phases where the tuning leaves that to the data, and take up the one the run stands in."""
        tuning, before = make_tuning(self.setup.experiment), self.setup.phases[0]
        if isinstance(tuning, Auto):
            self.choice = self.choice or choose_tuning(self.setup, tuning, self._door, self.workers)
            self.watch(Moment("choosing", 1, 1, note=self.choice["sentence"]))
            rounds = self.setup.experiment.rounds
            phases = head_then_all(self.setup.whole, first=self.choice["head_rounds"], rounds=rounds)
            self.setup = dataclasses.replace(self.setup, phases=phases)
        now = self.setup.phase(max(0, self.next_round - 1))
        if now != before:
            self._move_to(now)
        if fresh:
            self.state = {"model": self.setup.space.read(self.setup.net)}

    def _make_workers(self) -> Workers:
        engine = self.setup.experiment.engine
        workers = Workers(
            self.setup.net,
            self.setup.space,
            seed=self.setup.experiment.seed,
            device=self.setup.device,
            workers=engine.workers,
        )
        self._closing.callback(workers.close)
        return workers

    def _federation(self) -> SimulatedFederation:
        setup = self.setup
        return SimulatedFederation(
            sizes=setup.federated.sizes,
            expected_cohort=setup.tariff.sampler.expected_cohort,
            space=setup.space,
            data=setup.federated.client,
            tariff=setup.tariff,
            door=self._door,
            workers=self.workers,
            schedule=self.schedule,
            keep_diagnostics=self.record.save_diagnostics
            if _is_simulation(setup.experiment)
            else lambda number, tensors: None,
            personal=self.personal,
            anchors=setup.anchors,
            clips=self._clips,
            traffic=self._traffic,
        )

    def run(self) -> dict[str, Any]:
        """Train what is left of the rounds, unless only the end is wanted, and sum up."""
        rounds, ended = self.setup.experiment.rounds, ""
        if self._finish_now and self.next_round < rounds:
            ended = self._stop("somebody asked for it with `sordino finish`")
        while not ended and self.next_round < rounds:
            try:
                self._round(self.next_round)
            except OverBudget as refused:
                if not self.next_round:
                    raise
                self.watch(Moment("training", self.next_round, rounds, note=str(refused)))
                ended = self._stop("the budget was spent (a round that is cut off is charged again)")
        return self._finish(ended)

    def _round(self, number: int) -> None:
        experiment = self.setup.experiment
        begin = time.perf_counter()
        if number and self.setup.phase(number) != self.setup.phase(number - 1):
            self._save(number)
            self._switch(self.setup.phase(number))
        self.state = self.setup.method.round(number, self.state, self.federation.for_round(number))
        self.next_round = number + 1
        metrics = self._evaluate_if_paid(number) if number in experiment.evaluation_rounds else {}
        self.seconds += time.perf_counter() - begin
        if self.next_round % experiment.engine.checkpoint_every == 0 or self.next_round == experiment.rounds:
            self._save(self.next_round)
        self.watch(
            Moment("training", self.next_round, experiment.rounds, metrics.get("accuracy"), metrics.get("epsilon"))
        )

    def _stop(self, why: str) -> str:
        """End before the last round, with the model as it stands; what has been paid for is not lost."""
        done, rounds = self.next_round, self.setup.experiment.rounds
        self._save(done)
        if not any(row["round"] == done - 1 for row in self.record.read_metrics()):
            self._evaluate_if_paid(done - 1)
        note = f"Training ended after {done} of {rounds} rounds, because {why}."
        self.watch(Moment("training", done, rounds, note=note))
        return note

    def _switch(self, phase: Phase) -> None:
        """Go on in another phase from the model reached so far; whatever else was kept belongs to the old coordinates."""
        self.setup.space.write(self.setup.net, self.state["model"])
        self._move_to(phase)
        self.state = {"model": self.setup.space.read(self.setup.net)}
        self.personal = _personal_store(self.setup)
        self.federation = self._federation()

    def _move_to(self, phase: Phase) -> None:
        self.workers.close()
        self.setup = in_phase(self.setup, phase, lambda done, total: self.watch(Moment("features", done, total)))
        self.workers = self._make_workers()

    def _evaluate_if_paid(self, number: int) -> dict[str, Any]:
        """The metrics of a round, or none where a charged evaluation would pass the budget."""
        try:
            return self._evaluate(number)
        except OverBudget as refused:
            self.watch(Moment("training", self.next_round, self.setup.experiment.rounds, note=str(refused)))
            return {}

    def _evaluate(self, number: int) -> dict[str, Any]:
        """Scores, which are free on public test rows and charged on others, and then ε so far."""
        view = self.setup.experiment.privacy.view
        found = scores(
            self.setup,
            self.state["model"],
            round_number=number,
            door=self._door,
            workers=self.workers,
            traffic=self._traffic,
        )
        metrics: dict[str, Any] = {
            "round": number,
            **found,
            "view": view,
            "epsilon": self.ledger.worst(view).epsilon,
            **self._public_figures(),
        }
        if _is_simulation(self.setup.experiment):
            metrics.update(client_figures(self.setup, self.workers, number, self.state, self.personal))
        self.record.append_metrics(metrics)
        return metrics

    def _save(self, rounds_done: int) -> None:
        if self._saved == rounds_done > 0:
            return
        traffic = self._traffic
        if self.personal is not None:
            self.personal.save(self.record.personal_file(rounds_done))
        self.record.save_checkpoint(
            Checkpoint(
                rounds_done=rounds_done,
                ledger_lines=len(self.ledger.lines),
                ledger_head=self.ledger.head,
                seconds=self.seconds,
                bytes_up=traffic.up,
                bytes_down=traffic.down,
                state={**self.state, **self._clips.to_state()},
                choice=self.choice,
            )
        )
        self.record.forget_personal_files(except_for=rounds_done)
        self._saved = rounds_done

    def _public_figures(self) -> dict[str, float]:
        method = self.setup.method
        return method.public_figures(self.state) if isinstance(method, Personalised) else {}

    def _diagnostics(self) -> dict[str, Any]:
        last = self.record.read_metrics()[-1:]
        return {
            "folders": [self.record.diagnostics.name] if self.record.diagnostics.exists() else [],
            "non_finite_contributions_since_start_or_resume": self._door.zeroed,
            **{key: row[key] for row in last for key in row if key == "non_private_clients"},
        }

    def _finish(self, ended: str) -> dict[str, Any]:
        setup, ledger = self.setup, self.ledger
        experiment = setup.experiment
        setup.space.write(setup.net, self.state["model"])
        metrics = self.record.read_metrics()
        summary = summarise(
            setup,
            metrics=metrics,
            ledger=ledger,
            rounds=self.next_round,
            ended=ended,
            seconds=self.seconds,
            traffic=self._traffic,
            choice=self.choice or {},
            schedule=self.schedule,
            diagnostics=self._diagnostics() if _is_simulation(experiment) else {},
        )
        release = None
        if not _is_simulation(experiment):
            release = make_release(
                summary,
                metrics,
                tariff=setup.tariff,
                ledger=ledger,
                privacy=experiment.privacy,
                public_figures=self._public_figures(),
            )
        data = source_settings(experiment)
        keep_identity(self.record.folder, data, digest(setup.loaded.source.train))
        public = (summary if release is None else release.summary)["epsilon"]["public"]
        origin = provenance(
            data, unit=summary["unit"], epsilon=public["epsilon"], delta=public["delta"], ancestors=setup.lineage
        )
        saved = bridge_of(make_tuning(experiment)).merged(setup.whole)
        self.record.finish(user_state_dict(saved), summary, release=release, provenance=origin)
        return summary


def _personal_store(setup: Setup) -> PersonalStore | None:
    if not isinstance(setup.method, Personalised) or not setup.method.keeps_state:
        return None
    first = setup.method.first_personal(setup.net).to(setup.device)
    return PersonalStore(clients=setup.federated.partition.clients, first=first)


def _is_simulation(experiment: Experiment) -> bool:
    """Numbers outside the guarantee are kept for simulations alone, never beside a release."""
    return experiment.privacy.noise_source == "seeded"


def _settle(setup: Setup, workers: Workers, start: torch.Tensor) -> dict[str, Any]:
    """What is decided once, when a run first begins; a resumed run reads it from the record."""
    asked = setup.experiment.engine.schedule
    seconds: dict[str, float] = {}
    name = "workers" if asked == "auto" else asked
    if asked == "stacked":
        refuse_unstackable(workers, setup.method.job)
    if asked == "auto" and len(setup.phases) == 1:
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
    return {
        "schedule": name,
        "trial_seconds": seconds,
        **setup.tariff.multipliers.to_json(),
    }


def _make_ledger(setup: Setup, record: RunRecord, facts: dict[str, Any], data_digest: str) -> Ledger:
    """The run's ledger, bound to its settings, to the data at hand and to what was settled."""
    privacy = setup.experiment.privacy
    budget = budget_of(privacy) if setup.tariff.protected else None
    bills = setup.tariff.worst_bills(privacy.view).values() if budget else ()
    return Ledger(
        clients=setup.federated.partition.clients,
        delta=privacy.delta,
        neighbours=privacy.neighbours,
        budget=budget,
        path=record.ledger,
        planned=bills,
        about={
            "settings_fingerprint": setup.experiment.fingerprint(),
            "data_digest": data_digest,
            "facts_digest": facts_digest(facts),
        },
    )


def _reopen(ledger: Ledger, checkpoint: Checkpoint | None, *, replay: bool) -> None:
    if checkpoint is None:
        ledger.open(keep=0, replay=replay)
    else:
        ledger.open(keep=checkpoint.ledger_lines, replay=replay, head=checkpoint.ledger_head)


def _noise_source(experiment: Experiment) -> NoiseSource:
    if experiment.privacy.noise_source == "secure":
        return SecureNoise()
    return SeededNoise(stream_id("noise", experiment.seed))
