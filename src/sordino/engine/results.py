"""What a run leaves when it ends: its model, its summary, where the model comes from, and how to predict with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sordino.data.public import digest
from sordino.engine.prediction_file import Prediction
from sordino.engine.record import RunRecord
from sordino.engine.release import make_release
from sordino.engine.setup import Setup
from sordino.methods.method import State
from sordino.models.weights import user_state_dict
from sordino.pretrain.provenance import keep_identity, provenance
from sordino.privacy.ledger import Ledger


def leave_results(
    setup: Setup,
    record: RunRecord,
    summary: dict[str, Any],
    *,
    metrics: Sequence[Mapping[str, Any]],
    ledger: Ledger,
    state: State,
) -> None:
    """Write the last files of a run, whose net holds the final model; with real nodes also what may be published (`release.py`)."""
    release = None
    if not setup.resolved.simulated:
        release = make_release(
            summary,
            metrics,
            tariff=setup.tariff,
            ledger=ledger,
            privacy=setup.experiment.privacy,
            public_figures=setup.method.public_figures(state),
        )
    data = setup.resolved.source
    keep_identity(record.folder, data, digest(setup.loaded.source.train))
    public = (summary if release is None else release.summary)["epsilon"]["public"]
    origin = provenance(
        data,
        unit=summary["unit"],
        epsilon=public["epsilon"],
        delta=public["delta"],
        source=setup.loaded.source,
        ancestors=setup.lineage,
    )
    record.finish(
        user_state_dict(setup.resolved.tuning.finish(setup.whole)),
        summary,
        release=release,
        provenance=origin,
        prediction=Prediction.of(setup).to_json(),
    )
