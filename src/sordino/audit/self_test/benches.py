"""Small experiments on which twins are tried, and audits that need no experiment."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sordino.audit.auditing import audit_experiment
from sordino.audit.gaussian_dp import epsilon_lower_bound_by_repeats
from sordino.audit.planting.canary_model import MODEL, TUNING
from sordino.audit.watched import watched_federation
from sordino.core import Private, SordinoError
from sordino.data.columns import Number
from sordino.data.examples import IDENTITY, Examples
from sordino.engine.asking import ask_clients
from sordino.engine.bought_survey import BoughtSurvey
from sordino.engine.resolved import resolve
from sordino.engine.run import run_experiment
from sordino.engine.verify import verify
from sordino.experiment import Experiment, experiment
from sordino.methods.context import ClientContext
from sordino.methods.noisy_sgd import NoisySgd
from sordino.models import FlatSpace, Net, build
from sordino.privacy.clipping import Clip, bound_update
from sordino.privacy.door import Door
from sordino.privacy.event_kinds import NonPrivateDpEvent
from sordino.privacy.ledger import Ledger
from sordino.privacy.line import Line
from sordino.privacy.noise import SeededNoise
from sordino.privacy.pricing import Charge
from sordino.privacy.streams import stream_id
from sordino.tuning.gradient_statistics import GradientSurvey
from sordino.tuning.survey import Survey

CONFIDENCE = 0.9995
"""Of each bench: that nothing alarms on the real parts; fifteen together alarm by chance once in a hundred times."""
CLIP, CLIENTS, REPEATS = 0.5, 250, 500
STRANGERS = "sordino.audit.self_test.strangers"
Alarms = list[str]
Bench = Callable[[], Alarms]


def _table(method: Any = "dp-fedavg", *, clients: int = CLIENTS, rounds: int = 4, **changes: Any) -> Experiment:
    privacy = {"noise_multiplier": 2.0, "delta": 1e-5, "clip_norm": CLIP, "sampler": "everyone"}
    table = {
        "name": "self-test",
        "seed": 11,
        "rounds": rounds,
        "data": {"source": "digits", "clients": clients, "test": "public-split"},
        "model": {"name": "mlp", "hidden": [12, 8]},
        "method": method,
        **changes,
        "privacy": {**privacy, **changes.get("privacy", {})},
    }
    return experiment(table)


def last_model_alone() -> Alarms:
    """Canaries in random directions, in a model with many more numbers than there are canaries."""
    given = _table(rounds=2, model={"name": "mlp", "hidden": [64, 32]}, privacy={"noise_multiplier": 4.0})
    found = audit_experiment(given, views=(), runs=1, confidence=CONFIDENCE, final_model=True).final_model
    return [] if found is None or found.holds else ["last model"]


def audited(made: Callable[[], Experiment], runs: int = 1) -> Bench:
    """The alarms of the audit of an experiment, each by the name of what alarmed; one that is refused is an alarm too."""

    def bench() -> Alarms:
        try:
            found = audit_experiment(made(), runs=runs, confidence=CONFIDENCE)
        except SordinoError:
            return ["refused"]
        beaten = ["canaries"] if not all(verdict.holds for verdict in found.verdicts) else []
        return beaten + sorted({check.name for check in found.checks if not check.holds})

    return bench


COINS = {"sampler": "poisson", "expected_cohort": 75}
STEPS = {"name": "dp-sgd", "batch_size": 150, "local_steps": 2}
SPARSE = {"name": "dp-pfeddsu", "layers": 1, "share": 0.5, "head_epochs": 1, "mask": "global"}

GEP = {
    "name": "gep",
    "public": {"source": "mnist5k", "visibility": "public"},
    "anchors": 64,
}

EXPERIMENTS: dict[str, Callable[[], Experiment]] = {
    "central": _table,
    "central, by coins": lambda: _table(rounds=12, privacy=COINS),
    "distributed, by coins": lambda: _table(rounds=12, privacy={**COINS, "noise": "distributed"}),
    "local": lambda: _table(privacy={"noise": "local"}),
    "local, laplace": lambda: _table(privacy={"noise": "local", "mechanism": "laplace"}),
    "steps on examples": lambda: _table(STEPS, clients=2),
    "one step, large rate": lambda: _table({**STEPS, "batch_size": 300, "local_steps": 1}, clients=2),
    "steps, gep": lambda: _table(
        {"name": "dp-sgd", "batch_size": "full"}, clients=24, rounds=3, privacy={"mechanism": GEP}
    ),
    "turns, banded": lambda: _table(rounds=9, privacy={"mechanism": "banded", "participation_cap": 3}),
    "groups clipped apart": lambda: _table(
        {"name": "dp-sgd", "batch_size": "full"},
        clients=2,
        rounds=1,
        model={"name": MODEL, "maps": 2},
        tuning={"name": TUNING, "groups": 2},
        privacy={"noise_multiplier": 0.7},
    ),
    "sparse updates": lambda: _table(SPARSE, rounds=2, privacy={"noise": "distributed"}),
    "sparse updates, local mask": lambda: _table(
        {**SPARSE, "mask": "local"}, rounds=2, privacy={"noise": "local", "noise_multiplier": 1.0}
    ),
    "stranger: raw mean": lambda: _table(f"{STRANGERS}:RawMean", clients=20),
    "stranger: raw momentum": lambda: _table(f"{STRANGERS}:RawMomentum", clients=20),
    "stranger: each as sum": lambda: _table(f"{STRANGERS}:EachAsSum", privacy={"noise": "distributed"}),
    "stranger: state in buffers": lambda: _table(clients=20, model=f"{STRANGERS}:counting"),
}
RUNS = {"groups clipped apart": 10, "central": 2, "steps on examples": 2}
"""Benches on which one run tells too little: √2 is a small factor, and a tenth of the noise a smaller one."""
BROKEN_BY_THEMSELVES = (
    "stranger: raw mean",
    "stranger: raw momentum",
    "stranger: each as sum",
    "stranger: state in buffers",
    "sparse updates, local mask",
)
"""What promises nothing, or is a twin already: left out where real parts are tried."""


def not_finite() -> Alarms:
    """A contribution of NaN or of infinity must not show in what is released."""
    free = Charge(view="public", whom="pool", event=NonPrivateDpEvent(), because="priced by nobody")
    door = Door(Ledger(clients=1, delta=1e-6, neighbours="zero-out"), SeededNoise(3))
    line = Line(
        round=0,
        label="update",
        unit="client",
        owner="server",
        mechanism="gaussian",
        norm="l2",
        clip_bound=CLIP,
        noise_multiplier=1.0,
        releases=1,
        charges=(free,),
    )
    for broken in (float("nan"), float("inf")):
        bounded = bound_update(Private(torch.tensor([1.0, broken])), Clip(bound=CLIP, norm="l2"), like=torch.zeros(2))
        if not door.open(line).release(bounded).value.isfinite().all():
            return ["not finite"]
    return []


def statistics() -> Alarms:
    """A released statistic of clients' gradients, with and without one row."""
    return ["repeats of a statistic"] if proven_of_statistic(REPEATS, CONFIDENCE) > 1.0 else []


class _MeasuredOnce(GradientSurvey):
    """The same rows at the same model have the same statistic each time; only its noise is drawn afresh."""

    def measure(self, model: Tensor, examples: Examples, context: ClientContext) -> dict[str, float]:
        found: dict[int, dict[str, float]] = vars(self).setdefault("_found", {})
        if len(examples) not in found:
            found[len(examples)] = super().measure(model, examples, context)
        return found[len(examples)]


def proven_of_statistic(repeats: int, confidence: float) -> float:
    """ε of the squared mean of clipped gradients of fifty rows that all pull the same way, with and without one of them; 1 is claimed."""
    rows = 50
    net = build("logistic", shape=(2,), classes=2, seed=1, bias=False)
    survey = _MeasuredOnce(
        names=["G2²"],
        noise_multiplier=1.0,
        steps=NoisySgd(batch_size="full"),
        clip=Clip(bound=CLIP, norm="l2"),
        largest_gradient=CLIP,
        probe_radius=1.0,
        head=FlatSpace(net).names,
        chunk=rows,
    )
    table, inputs = _table({"name": "dp-sgd", "batch_size": "full"}, clients=1), torch.full((rows, 2), 20.0)
    return _proven(survey, "G2²", table, inputs, net=net, repeats=repeats, confidence=confidence)


def _proven(
    survey: Survey,
    name: str,
    table: Experiment,
    inputs: Tensor,
    *,
    net: Net,
    repeats: int = REPEATS,
    confidence: float = CONFIDENCE,
) -> float:
    """The ε that repeats of one number prove, of a client with these rows and without the first; all are of class 1."""

    def sample(some: Tensor) -> list[float]:
        alike = Examples(inputs=some, labels=torch.ones(len(some), dtype=torch.int64), normalisation=IDENTITY)
        with watched_federation(
            table,
            resolve(table).method,
            [Private(alike)],
            sizes=[len(inputs)],
            features=2,
            watch=lambda *seen: None,
            source=lambda client: SeededNoise(stream_id(4, client)),
            net=net,
        ) as federation:
            start = federation.space.read(net)
            return [ask_clients(federation, survey, start)[name][0] for _ in range(repeats)]

    return epsilon_lower_bound_by_repeats(sample(inputs[1:]), sample(inputs), delta=0.0, confidence=confidence)


def bought_means() -> Alarms:
    """How many of fifty rows have a value in a column whose mean is bought, with and without one of them."""
    return _bought("filled", torch.ones(50, 2), Number(low=0.0, high=1.0, missing="bought"))


def bought_spreads() -> Alarms:
    """The squares of fifty rows in a column whose spread is bought, with and without the one that lies far outside its bounds."""
    rows = torch.zeros(50, 2)
    rows[0] = 3.0
    return _bought("squares", rows, Number(low=0.0, high=1.0, scaling="bought"))


def _bought(what: str, rows: Tensor, column: Number) -> Alarms:
    survey = BoughtSurvey(columns={"a": column}, places={"a": 0}, noise_multiplier=1.0)
    table = _table({"name": "dp-sgd", "batch_size": "full"}, clients=1)
    proven = _proven(survey, f"{what} of a", table, rows, net=build("logistic", shape=(2,), classes=2, seed=1))
    return ["repeats of a bought number"] if proven > 1.0 else []


def edited_ledger() -> Alarms:
    """A line of a finished run's ledger that somebody made cheaper must be found by `sordino show --verify`."""
    with tempfile.TemporaryDirectory(prefix="sordino-self-test-") as folder:
        out = Path(folder) / "run"
        run_experiment(_table(clients=20, rounds=2), out)
        ledger = out / "ledger.jsonl"
        ledger.write_text(ledger.read_text().replace('"noise_multiplier": 2.0', '"noise_multiplier": 4.0', 1))
        if '"noise_multiplier": 4.0' not in ledger.read_text():
            ledger.write_text(ledger.read_text().replace('"noise_multiplier":2.0', '"noise_multiplier":4.0', 1))
        try:
            verify(out)
        except SordinoError:
            return ["verification"]
    return []


BENCHES: dict[str, Bench] = {
    **{name: audited(made, RUNS.get(name, 1)) for name, made in EXPERIMENTS.items()},
    "last model alone": last_model_alone,
    "not finite": not_finite,
    "statistics": statistics,
    "bought means": bought_means,
    "bought spreads": bought_spreads,
    "edited ledger": edited_ledger,
}
