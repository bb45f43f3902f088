"""A run: round by round, with its record, resumable to the same bits. The engine decides where the clients are."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from sordino.core import SordinoError
from sordino.data.beside import relative_to
from sordino.engine.asking import ask_clients
from sordino.engine.bought_statistics import BOUGHT, buy_statistics, with_bought
from sordino.engine.effort import Effort
from sordino.engine.engines import gather, make_engine, settle
from sordino.engine.federation import GO_ON, FederationServer, TooFew
from sordino.engine.logged import LOG, logged
from sordino.engine.messages import Missing
from sordino.engine.moment import Moment, Watcher
from sordino.engine.moved_clips import MovedClips
from sordino.engine.noise_memory import memory_entries, take_memory
from sordino.engine.noise_sources import server_noise
from sordino.engine.record import EVALUATED_EVERY, LEFT_TO_TORCH, Checkpoint, RunRecord
from sordino.engine.resolved import resolve
from sordino.engine.results import leave_results
from sordino.engine.run_facts import noise_facts
from sordino.engine.run_ledger import make_ledger, reopen
from sordino.engine.scoring import scores
from sordino.engine.setup import Setup, in_phase, prepare
from sordino.engine.simulate.allocator import tune_allocator
from sordino.engine.state_check import next_state
from sordino.engine.summary import summarise
from sordino.engine.tariff import Multipliers
from sordino.engine.traffic import Traffic
from sordino.experiment import EvaluationRounds, Experiment
from sordino.experiment import experiment as checked
from sordino.files import make_folder
from sordino.methods.method import State
from sordino.nodes.log import JsonLog
from sordino.outside import look_beside
from sordino.privacy.door import Door
from sordino.privacy.ledger import OverBudget
from sordino.tuning import Phase

MOST_REPEATS = 5
"""How often a round that too few answered is played in a row before the run stops."""


def run_experiment(
    experiment: Experiment,
    out: Path,
    *,
    resume: bool = False,
    finish: bool = False,
    folder: Path | None = None,
    planned: Multipliers | None = None,
    watch: Watcher = lambda moment: None,
) -> dict[str, Any]:
    """Run an experiment into a run record; returns its summary.

    `resume` goes on where the record stands; `finish` makes model and summary of the rounds that are done, and trains no more. Where a
    plan of the same experiment has worked out the noise, it may be handed on as `planned`; a run that goes on has its own settled.
    """
    tune_allocator()
    record = RunRecord(out)
    begin = folder or Path.cwd()
    look_beside(begin)
    with ExitStack() as closing:
        closing.enter_context(relative_to(begin))
        is_new = not out.exists()
        if not is_new:
            closing.enter_context(record.locked())
        settled = record.settled(experiment, resume=resume or finish)
        resolved = resolve(experiment)
        federated = gather(resolved, settled)
        closing.callback(federated.close)
        setup = prepare(
            resolved,
            federated=federated,
            folder=begin,
            progress=lambda done, total: watch(Moment("pre-training", done, total)),
            describing=lambda done, total: watch(Moment("features", done, total)),
            settled=planned if settled is None else Multipliers.from_json(settled),
            left_to_torch=None if settled is None else settled.get(LEFT_TO_TORCH, {}),
        )
        if is_new:
            make_folder(out)
            closing.callback(record.remove_empty)
            closing.enter_context(record.locked())
            closing.callback(record.give_up)
            record.settled(experiment, resume=False)  # nobody else has begun here in the meantime
        run = Run(setup, record, closing, settled=settled, folder=begin, finish=finish, watch=watch)
        return run.run()


def finish(out: Path, *, watch: Watcher = lambda moment: None) -> dict[str, Any]:
    """Make model and summary of the rounds that a run in this folder has completed; returns its summary."""
    record = RunRecord(out)
    found, checkpoint = record.read_experiment(), record.load_checkpoint()
    if checkpoint is None or not checkpoint.rounds_done:
        raise SordinoError(
            f"{out} has no completed round to make a model of; continue it with `sordino run ... --resume`."
        )
    return run_experiment(
        checked(found["experiment"]), out, finish=True, folder=Path(found["facts"]["folder"]), watch=watch
    )


class Run:
    """A run that has begun: its ledger, its clients, and the state that it stands in."""

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
        first = setup.space.read(setup.net)
        data_digest = setup.loaded.digest()
        self.effort = _effort(setup)
        facts = settled or {
            **settle(setup, first),
            **setup.tariff.multipliers.to_json(),
            LEFT_TO_TORCH: setup.left_to_torch,
            EVALUATED_EVERY: self.effort.evaluations.every,
            "data_digest": data_digest,
            "folder": str(folder),
            **setup.loaded.facts(),
        }
        self.schedule = facts["schedule"]
        self._log = JsonLog(None if setup.experiment.engine.name == "simulate" else record.folder / LOG)
        checkpoint = record.load_checkpoint()
        self.ledger = make_ledger(setup, record, facts, data_digest)
        self.clients = make_engine(setup, schedule=self.schedule, folder=record.personal, run=self.ledger.run)
        closing.callback(self.clients.close)
        if settled is None:
            self.ledger.create()
            record.begin(setup.resolved, facts)
        else:
            reopen(self.ledger, checkpoint, replay=setup.resolved.simulated and not finish)
        record.keep_metrics_before(checkpoint.rounds_done if checkpoint else 0)
        kept: State = dict(checkpoint.state) if checkpoint else {"model": first}
        self._clips = MovedClips.taken_from(kept)
        self._door = Door(self.ledger, server_noise(setup.experiment))
        self._door.memory.update(take_memory(kept))
        bought = kept.pop(BOUGHT, None)
        self.state = {key: value.to(setup.device) for key, value in kept.items()}
        self.next_round = self._saved = checkpoint.rounds_done if checkpoint else 0
        self.seconds = checkpoint.seconds if checkpoint else 0.0
        self._traffic = Traffic(checkpoint.bytes_up, checkpoint.bytes_down) if checkpoint else Traffic()
        self._missing: list[Missing] = []
        self.choice = checkpoint.choice if checkpoint else None
        every = facts.get(EVALUATED_EVERY, self.effort.evaluations.every)
        self.evaluations = EvaluationRounds(rounds=setup.experiment.rounds, every=every)
        self.federation = self._federation()
        self._bought = self._fill(bought)
        self._enter(fresh=checkpoint is None)
        if self.next_round:
            self.clients.recall(record.personal_file(self.next_round))
        if checkpoint is None and (self.choice is not None or self._bought is not None):
            self.save(0)

    def _fill(self, bought: torch.Tensor | None) -> torch.Tensor | None:
        """Go on with rows filled and scaled by what the checkpoint has, or what is bought now; as they are where nothing is asked."""
        if not self.setup.loaded.source.bought:
            return None
        bought = buy_statistics(self.setup, self.federation) if bought is None else bought
        self.setup = with_bought(self.setup, bought)
        self._move_to(self.setup.phases[0])
        return bought

    def _enter(self, *, fresh: bool) -> None:
        """Settle the phases where the tuning leaves that to the data, and take up the one the run stands in."""
        before = self.setup.phases[0]
        self.choice = self.choice or self._decide()
        if self.choice is not None:
            self.watch(Moment("choosing", 1, 1, note=self.choice["sentence"]))
            tuning, rounds = self.setup.resolved.tuning, self.setup.experiment.rounds
            phases = tuning.chosen_phases(self.setup.whole, rounds, self.choice)
            self.setup = dataclasses.replace(self.setup, phases=phases)
        now = self.setup.phase(max(0, self.next_round - 1))
        if now != before:
            self._move_to(now)
        if fresh:
            self.state = {"model": self.setup.space.read(self.setup.net)}

    def _decide(self) -> dict[str, Any] | None:
        setup = self.setup
        facts = noise_facts(setup.resolved, setup.tariff, setup.loaded.sizes)
        model = setup.space.read(setup.net)
        return setup.resolved.tuning.decide(
            setup.whole, facts, lambda survey: ask_clients(self.federation, survey, model)
        )

    def _federation(self) -> FederationServer:
        setup = self.setup
        diagnosed = self.record.save_diagnostics if setup.resolved.simulated else _keep_nothing
        return FederationServer(
            roster=setup.federated.roster,
            space=setup.space,
            tariff=setup.tariff,
            door=self._door,
            transport=logged(self.clients.transport, self._log, setup.federated.roster.name),
            keeps_state=setup.method.keeps_state,
            keep_diagnostics=diagnosed,
            clips=self._clips,
            traffic=self._traffic,
            missing=self._missing,
            minimum_cohort=setup.experiment.engine.minimum_cohort,
        )

    def run(self) -> dict[str, Any]:
        """Train what is left of the rounds, unless only the end is wanted, and sum up."""
        rounds, ended = self.setup.experiment.rounds, ""
        nodes, name = self.setup.federated.roster.clients, self.setup.experiment.name
        self._log.write("begun", run=self.ledger.run, name=name, rounds=rounds, nodes=nodes, done=self.next_round)
        if self.effort.fact:
            self.watch(Moment("training", self.next_round, rounds, note=f"Evaluation is {self.effort.fact}."))
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
            self.save(number)
            self._switch(self.setup.phase(number))
        self.state = self.next_state(number)
        self.next_round = number + 1
        metrics = self._evaluate_if_paid(number) if number in self.evaluations else {}
        self.seconds += time.perf_counter() - begin
        if self.next_round % experiment.engine.checkpoint_every == 0 or self.next_round == experiment.rounds:
            self.save(self.next_round)
        done, rounds, view = self.next_round, experiment.rounds, experiment.privacy.view
        accuracy, epsilon = metrics.get("accuracy"), metrics.get("epsilon")
        self._log.write("round", done=done, rounds=rounds, view=view, accuracy=accuracy, epsilon=epsilon)
        self.watch(Moment("training", done, rounds, accuracy, epsilon))

    def next_state(self, number: int) -> State:
        """The state after this round. One that too few answered is played again, or left out; each time was charged."""
        too_few = self.setup.experiment.engine.too_few
        for again in range(MOST_REPEATS):
            try:
                return next_state(self.setup.method, number, self.state, self.federation.for_round(number))
            except TooFew as refused:
                if too_few == "stop" or (too_few == "repeat" and again + 1 == MOST_REPEATS):
                    raise
                done = "is left out, charged as planned" if too_few == "skip" else "is played again, and charged again"
                note = f"{str(refused).removesuffix(GO_ON)}The round {done}."
                self.watch(Moment("training", number, self.setup.experiment.rounds, note=note))
                self._log.write("too_few", round=number, because=note)
                if too_few == "skip":
                    break
        return self.state

    def _stop(self, why: str) -> str:
        """End before the last round, with the model as it stands; what has been paid for is not lost."""
        done, rounds = self.next_round, self.setup.experiment.rounds
        self.save(done)
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

    def _move_to(self, phase: Phase) -> None:
        self.take(in_phase(self.setup, phase, lambda done, total: self.watch(Moment("features", done, total))))

    def take(self, setup: Setup) -> None:
        """Go on with the model, coordinates and data of this setup."""
        self.setup = setup
        self.clients.enter(setup)
        self.federation = self._federation()

    def _evaluate_if_paid(self, number: int) -> dict[str, Any]:
        """The metrics of a round, or none where a charged evaluation would pass the budget."""
        try:
            return self.evaluate(number)
        except OverBudget as refused:
            self.watch(Moment("training", self.next_round, self.setup.experiment.rounds, note=str(refused)))
            return {}

    def evaluate(self, number: int) -> dict[str, Any]:
        """Scores, which are free on public test rows and charged on others, and then ε so far."""
        view = self.setup.experiment.privacy.view
        found = scores(self.setup, self.federation, self.state["model"], round_number=number)
        metrics: dict[str, Any] = {
            "round": number,
            **found,
            "view": view,
            "epsilon": self.ledger.worst(view).epsilon,
            **self.setup.method.public_figures(self.state),
        }
        if self.setup.resolved.simulated:
            metrics.update(self.clients.figures(number, self.state))
        self.record.append_metrics(metrics)
        return metrics

    def save(self, rounds_done: int) -> None:
        if self._saved == rounds_done > 0:
            return
        traffic = self._traffic
        self.clients.keep(self.record.personal_file(rounds_done))
        self.record.save_checkpoint(
            Checkpoint(
                rounds_done=rounds_done,
                ledger_lines=len(self.ledger.lines),
                ledger_head=self.ledger.head,
                seconds=self.seconds,
                bytes_up=traffic.up,
                bytes_down=traffic.down,
                state={
                    **self.state,
                    **({} if self._bought is None else {BOUGHT: self._bought}),
                    **self._clips.to_state(),
                    **memory_entries(self._door.memory),
                },
                choice=self.choice,
            )
        )
        self.record.forget_personal_files(except_for=rounds_done)
        self._saved = rounds_done

    def _diagnostics(self) -> dict[str, Any]:
        last = self.record.read_metrics()[-1:]
        return {
            "folders": [self.record.diagnostics.name] if self.record.diagnostics.exists() else [],
            "non_finite_contributions_since_start_or_resume": self._door.zeroed + self.clients.zeroed,
            **{key: row[key] for row in last for key in row if key.startswith("non_private_")},
        }

    def _finish(self, ended: str) -> dict[str, Any]:
        setup, ledger = self.setup, self.ledger
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
            missing=self._missing,
            diagnostics=self._diagnostics() if setup.resolved.simulated else {},
        )
        leave_results(setup, self.record, summary, metrics=metrics, ledger=ledger, state=self.state)
        self._log.write("ended", rounds=self.next_round, because=ended or "all rounds are done")
        return summary


def _effort(setup: Setup) -> Effort:
    source = setup.loaded.source
    return Effort(
        resolved=setup.resolved,
        net=setup.whole,
        phase=setup.phases[-1],
        shape=source.shape,
        tokens=source.kind == "text",
        sizes=setup.loaded.sizes,
        cohort=setup.tariff.sampler.expected_cohort,
        test_rows=source.n_test,
    )


def _keep_nothing(round_number: int, tensors: Mapping[str, torch.Tensor]) -> None:
    return
