"""Run folders with planted figures, written by the code that writes every run's record."""

import dataclasses
import itertools

from sordino.engine.record import Release, RunRecord, read_summary
from sordino.engine.record_keys import read_summary_file
from sordino.engine.resolved import resolve
from sordino.experiment import experiment
from sordino.report.comparison.runs import Run, read_run


@dataclasses.dataclass(frozen=True, kw_only=True)
class Planter:
    """Plants copies of one real run below a folder, with other settings and figures."""

    folder: object
    table: dict
    """The real run's settings."""
    summary: dict
    """The real run's summary."""
    numbers: object = dataclasses.field(default_factory=itertools.count)

    def plant(self, *, method, seed, accuracy, epsilon=2.0, own_mix=None, changes=None, **facts) -> Run:
        secure = facts.pop("secure", False)
        table = {**self.table, "seed": seed, "method": {"name": method}, **(changes or {})}
        table["privacy"] = {**self.table["privacy"], "noise_source": "secure" if secure else "seeded"}
        table["privacy"]["noise_multiplier"] = None if epsilon == float("inf") else 1 / epsilon
        record = RunRecord(self.folder / f"run-{next(self.numbers)}")
        record.folder.mkdir(parents=True)
        record.begin(resolve(experiment(table)), {"schedule": "workers", "folder": str(self.folder)})
        views = {view: {**entry, "epsilon": epsilon} for view, entry in self.summary["epsilon"].items()}
        own = {} if own_mix is None else {"non_private_clients": {"mean": own_mix}}
        summary = {
            **self.summary,
            "method": method,
            "accuracy": accuracy,
            "epsilon": views,
            "non_private_diagnostics": own,
            **facts,
        }
        release = Release(summary=_published(summary), metrics=[]) if secure else None
        record.finish(
            {}, {**summary, "accuracy": 0.123} if secure else summary, release=release, provenance={}, prediction={}
        )
        return read_run(record.folder)


def _published(summary):
    kept_back = ("seconds", "bytes_up", "bytes_down", "non_private_diagnostics")
    return {key: value for key, value in summary.items() if key not in kept_back}


def planter(folder, table, run_folder):
    summary = {key: value for key, value in read_summary(run_folder).items() if key not in ("schema", "model_sha256")}
    assert read_summary_file(run_folder / "summary.json")["accuracy"] == summary["accuracy"]
    return Planter(folder=folder, table=table, summary=summary)
