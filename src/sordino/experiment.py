"""The experiment: one frozen, validated description of a run, read from one TOML file."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from sordino.core import Neighbours, SordinoError, View, Visibility
from sordino.sentences import shown
from sordino.settings import LARGEST_SCALE, Scale, not_toml, validated

LONGEST_NAME = 200
"""Bytes of a run's name: file systems take 255."""

MOST_ROUNDS = 10**9
"""Beyond, the rounding of each round's price adds up to more than the price."""

Table = dict[str, Any]


def _member(value: object) -> object:
    """A bare name is short for a table with a name."""
    return {"name": value} if isinstance(value, str) else value


def _folder_name(name: str) -> str:
    if not name.strip() or name in {".", ".."} or "/" in name or "\\" in name or not name.isprintable():
        raise ValueError("should be usable as the name of a folder: printable, not '.' or '..', and without / and \\")
    if len(name.encode()) > LONGEST_NAME:
        raise ValueError(f"should have at most {LONGEST_NAME} bytes, because it names a folder")
    return name


def _plain_name(name: str) -> str:
    if not name.strip() or "\0" in name:
        raise ValueError("should be a name or a path")
    return name


MemberTable = Annotated[Table, BeforeValidator(_member)]
"""A member of an axis and its settings: a table with a name, or the name alone."""
MEMBERS = frozenset({"model", "start", "tuning", "method", "partition", "mechanism"})
FolderName = Annotated[str, AfterValidator(_folder_name)]
PlainName = Annotated[str, AfterValidator(_plain_name)]


class Section(BaseModel):
    """A part of the file in which every key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ClientSplit(Section):
    """Which shares of its own rows each client keeps from training, in a simulation."""

    validation: float = Field(default=0.1, ge=0, lt=1)
    """On which settings may be chosen."""
    test: float = Field(default=0.1, ge=0, lt=1)
    """On which a client is tested."""

    @model_validator(mode="after")
    def _something_of_each(self) -> ClientSplit:
        if not 0 < self.validation + self.test < 1:
            raise SordinoError(
                f"[data] client_split should leave rows to train on and keep some from it, but got validation = {self.validation:g} "
                f"and test = {self.test:g}; give shares whose sum is above 0 and below 1."
            )
        return self


class DataSection(Section):
    """Whose data are trained on, and how they are spread over clients."""

    source: PlainName
    """A name such as 'digits', or a path, which begins at the experiment file."""
    visibility: Visibility = "private"
    """Whether the rows may be known to all."""
    clients: int = Field(default=1, ge=1)
    """How many clients rows are dealt out to; a client column says it itself."""
    partition: MemberTable = Field(default_factory=lambda: {"name": "iid"})
    """How rows are dealt out; "column" where options name a client_column and nothing is said here."""
    late_clients: int = Field(default=0, ge=0)
    """How many of the clients, the last ones, join only when training is over."""
    client_test_rows: int | None = Field(default=None, ge=0, le=100_000)
    """Test rows drawn for each client in its own mix of labels; 200 for personalised methods and none for others."""
    test: str | Table | None = None
    """On which rows the model is evaluated, where the source has no test split of its own: "public-split" (rows set aside,
    declared public), { source = "..." } (other rows, declared public) or { name = "charged", epsilon = ..., fraction = ... }
    (rows that clients hold out, which stay private)."""
    client_split: ClientSplit | None = None
    """Shares of its own rows that each client keeps from training, to validate and test on: a diagnostic of simulations."""
    options: Table = Field(default_factory=dict)
    """Settings of the source itself: resize, channels, label_column, limit, ..."""

    @model_validator(mode="before")
    @classmethod
    def _by_the_client_column(cls, table: Any) -> Any:
        """Whoever names the column of clients means it, unless something else is said."""
        options = table.get("options") if isinstance(table, dict) else None
        named = isinstance(options, dict) and options.get("client_column") is not None
        return {"partition": {"name": "column"}, **table} if named else table

    @property
    def evaluation_is_charged(self) -> bool:
        return isinstance(self.test, dict) and self.test.get("name") == "charged"

    @field_validator("test", mode="before")
    @classmethod
    def _one_way_to_evaluate(cls, value: Any) -> Any:
        if value is None or value == "public-split" or (isinstance(value, dict) and {"source", "name"} & set(value)):
            return value
        raise SordinoError(
            '[data] test should be "public-split", a table with the source of public test rows, or { name = "charged", '
            f"epsilon = 0.5 }}, but got {value!r}; choose one of them."
        )

    @model_validator(mode="after")
    def _somebody_trains(self) -> DataSection:
        if self.late_clients and self.late_clients >= self.clients:
            raise SordinoError(
                f"[data] late_clients = {self.late_clients} leaves none of the {self.clients} clients to train; lower it."
            )
        return self


class PrivacySection(Section):
    """What is promised, to whom, and where the noise is drawn."""

    epsilon: float | None = Field(default=None, gt=0)
    """The target for the whole run, in the promised view; the noise is worked out for it."""
    noise_multiplier: float | None = Field(default=None, ge=0, le=LARGEST_SCALE)
    """The deviation of the noise over the clip norm, in place of a target."""
    delta: float = Field(default=1e-5, ge=0, lt=1)
    """The chance that is left over; below one over the number of units."""
    view: View = "public"
    """Whose eyes the promise is about."""
    neighbours: Neighbours = "zero-out"
    """What may change unnoticed: a unit that contributes nothing, or something else."""
    mechanism: str | Table = "gaussian"
    """A name, or a table with a name and settings."""
    clip_norm: Scale = 1.0
    """The largest norm of one unit's contribution."""
    noise: Literal["central", "distributed", "local"] = "central"
    """Where noise is drawn on uploads: by the server, by clients in shares, or by each client whole."""
    sampler: PlainName = "poisson"
    """How the clients of a round are drawn."""
    expected_cohort: float | None = Field(default=None, gt=0)
    """How many clients a round draws, on average; everyone where it is left out."""
    participation_cap: int | None = Field(default=None, ge=1)
    """How often a client may take part at most."""
    colluders: int = Field(default=1, ge=0)
    """How many clients of a cohort may put their knowledge together, in the client view."""
    client_epsilon: tuple[float, ...] | Literal["equal"] | None = None
    """A budget for each client, in their order; "equal" gives each the noise that spends `epsilon`, where they would pay unequally."""
    noise_source: Literal["seeded", "secure"] = "seeded"
    """Repeatable noise for simulations, or noise that nobody can repeat, for a release."""
    spare_rounds: int = Field(default=0, ge=0, le=MOST_ROUNDS)
    """Rounds that the noise pays for besides the planned ones: with secure noise, a round that a crash cuts off is charged again."""

    @field_validator("client_epsilon")
    @classmethod
    def _positive(cls, value: tuple[float, ...] | str | None) -> tuple[float, ...] | str | None:
        if isinstance(value, tuple) and min(value, default=1.0) <= 0:
            raise ValueError("needs every client's ε above zero")
        return value

    @property
    def mechanism_table(self) -> Table:
        return {"name": self.mechanism} if isinstance(self.mechanism, str) else self.mechanism

    def client_budgets(self, clients: int) -> tuple[float, ...] | None:
        """The ε of each client, where they have budgets of their own."""
        if self.client_epsilon == "equal":
            return None if self.epsilon is None else (self.epsilon,) * clients
        return self.client_epsilon or None

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> PrivacySection:
        if self.client_epsilon == "equal" and self.epsilon is None:
            raise SordinoError(
                "[privacy] client_epsilon = 'equal' shares out epsilon, but got none; set [privacy] epsilon."
            )
        if self.epsilon is not None and self.noise_multiplier is not None and self.client_epsilon is None:
            raise SordinoError(
                "[privacy] takes epsilon or noise_multiplier, but got both; "
                "keep the one you mean and let `sordino plan` work out the other."
            )
        return self


class ClientsSection(Section):
    """How simulated clients behave."""

    dropout: float = Field(default=0.0, ge=0, lt=1)
    """How likely a client that was asked does not answer in a round."""
    slow: float = Field(default=0.0, ge=0, lt=1)
    """The share of clients that are too slow for every second round."""


class EngineSection(Section):
    """How the work is done; nothing here changes what is promised."""

    name: Literal["simulate", "process", "flower"] = "simulate"
    """Where clients are: in this process, each in a process of its own with its own rows, noise, limits and ledger, or at real
    nodes over Flower."""
    federation: str | None = Field(default=None, min_length=1)
    """With real nodes: the folder that `sordino provision` made, beside the experiment; `federation` where nothing is said."""
    minimum_cohort: int = Field(default=1, ge=1)
    """How many clients must answer for a round to count."""
    too_few: Literal["stop", "repeat", "skip"] = "stop"
    """What becomes of a round that fewer answer: the run stops, the round is played again and charged again, or it is left out."""
    client_seconds: float = Field(default=600.0, gt=0, le=1e6)
    """How long a client in another process may take for one request before its seat counts as empty."""
    device: PlainName = "cpu"
    """Where tensors are: 'cpu', or a GPU such as 'cuda:0'."""
    schedule: Literal["auto", "workers", "stacked"] = "auto"
    """Clients one by one on workers, or stacked into one computation; the faster one where it is left out."""
    workers: int = Field(default=0, ge=0, le=1024)
    """Single-thread workers; 0 means one per core. Where several clients share them their number changes no bit. A client alone, and a
    start, is trained on as many threads as there are workers, and its last bits depend on how many."""
    evaluate_every: int = Field(default=0, ge=0)
    """Rounds between evaluations; 0 means about twenty in all, fewer where they would cost more than a quarter of the training, or
    one at the end where evaluation is charged."""
    training_loss: bool = False
    """Whether evaluations also tell the loss of clients' models on the rows that they train on: a diagnostic of simulations,
    which no ε covers."""
    checkpoint_every: int = Field(default=1, ge=1)
    """Rounds between two checkpoints."""
    physical_batch: int | None = Field(default=None, ge=1)
    """Rows whose gradients are in memory at once; changes no result."""
    keep_features: bool = False
    """Whether the outputs of a frozen body stay on disk, beside the data sets, for the next run."""


@dataclass(frozen=True, kw_only=True)
class EvaluationRounds:
    """The rounds after which a model is evaluated: every so-manieth, and the last."""

    rounds: int
    every: int

    def __contains__(self, number: int) -> bool:
        return (number + 1) % self.every == 0 or number == self.rounds - 1

    def __len__(self) -> int:
        return (self.rounds + self.every - 1) // self.every


class Experiment(Section):
    """Everything a run depends on."""

    name: FolderName = "experiment"
    """Also the name of the run's folder, runs/NAME."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Of everything that is drawn, except secure noise."""
    rounds: int = Field(ge=1, le=MOST_ROUNDS)
    """How often the server asks clients and makes a new model."""
    data: DataSection
    """See [data]."""
    model: MemberTable
    """What is trained: a name, or a table with name and settings."""
    start: MemberTable = Field(default_factory=lambda: {"name": "scratch"})
    """Where the first weights come from."""
    tuning: MemberTable = Field(default_factory=lambda: {"name": "full"})
    """Which parameters are trained."""
    method: MemberTable
    """What clients compute and what the server makes of it."""
    privacy: PrivacySection = PrivacySection()
    """See [privacy]."""
    clients: ClientsSection = ClientsSection()
    """See [clients]."""
    engine: EngineSection = EngineSection()
    """See [engine]."""

    @property
    def evaluation_rounds(self) -> EvaluationRounds:
        """Where evaluation is charged, one after the last round, unless more are asked for."""
        few = self.rounds if self.data.evaluation_is_charged else max(1, self.rounds // 20)
        return EvaluationRounds(rounds=self.rounds, every=self.engine.evaluate_every or few)

    def fingerprint(self) -> str:
        """What identifies a run: everything that can change its numbers."""
        relevant = self.model_dump(
            mode="json",
            exclude={
                "name": True,
                "engine": {"name", "federation", "client_seconds", "workers", "checkpoint_every", "keep_features"},
            },
        )
        return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()[:16]


ELSEWHERE = {
    "data.options": (
        "categories",
        "class_names",
        "classes",
        "client_column",
        "columns",
        "decimal",
        "label_column",
        "length",
        "limit",
        "na",
        "resize",
        "separator",
        "target",
        "text_column",
        "thousands",
        "tokenizer",
        "vocabulary",
    ),
    "method": ("batch_size", "epochs", "learning_rate", "local_steps", "momentum"),
    "model": ("hidden",),
}
"""Settings of parts and sources that people look for in a section of the file, by where they belong."""
_SECTIONS: dict[str, type[Section]] = {
    "": Experiment,
    "data": DataSection,
    "privacy": PrivacySection,
    "clients": ClientsSection,
    "engine": EngineSection,
}


def experiment(table: Mapping[str, Any]) -> Experiment:
    """Check a table of settings."""
    if table.get("case"):
        raise SordinoError(
            "[[case]] tables are settings that `sordino sweep` tries beside each other, but got them where one run is described; use "
            "`sordino sweep`, or leave them out with --set case=[]."
        )
    one = {key: value for key, value in table.items() if key != "case"}
    _refuse_misplaced(one)
    return validated(Experiment, one, where="")


def _refuse_misplaced(table: Mapping[str, Any]) -> None:
    """Refuse a setting of one section in another, by the name of its own."""
    homes = {key: where for where, kind in _SECTIONS.items() for key in kind.model_fields}
    homes |= {key: where for where, keys in ELSEWHERE.items() for key in keys}
    for where, kind in _SECTIONS.items():
        inside = table.get(where) if where else table
        for key in inside if isinstance(inside, Mapping) else ():
            if key not in kind.model_fields and key in homes:
                here = f"In [{where}]" if where else "At the top of the file"
                home = f"into [{homes[key]}]" if homes[key] else "to the top of the file, above all sections"
                raise SordinoError(f"{here}, {key} has no place, because it belongs {home}; move it there.")


def read(path: Path, overrides: tuple[str, ...] = ()) -> Experiment:
    """Read and check an experiment file; `overrides` are `key.sub=value` with TOML values."""
    return experiment(read_table(path, overrides))


def read_table(path: Path, overrides: tuple[str, ...] = ()) -> Table:
    """An experiment file as it stands, with overrides, not yet checked."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SordinoError(
            f"An experiment file was expected at {shown(str(path))}, but it cannot be read ({error.strerror}); check the path."
        ) from error
    except (ValueError, RecursionError) as error:
        raise SordinoError(not_toml(path, error)) from error
    table.setdefault("name", path.stem)
    for setting in overrides:
        override(table, setting)
    return table


def override(table: Table, setting: str) -> None:
    """Apply one `key.sub=value` to a table in place, without touching tables it shares with others."""
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise SordinoError(
            f"--set takes key=value, but got {shown(setting)}; write for instance --set privacy.epsilon=2."
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text
    *sections, last = key.strip().split(".")
    for section in sections:
        inner = _member(table.get(section, {})) if section in MEMBERS else table.get(section, {})
        if not isinstance(inner, dict):
            raise SordinoError(
                f"--set {shown(setting)}: {shown(section)} is a value, not a section; drop what follows it."
            )
        table[section] = table = dict(inner)
    table[last] = value
