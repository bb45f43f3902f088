"""Callbacks for TensorBoard and MLflow write what a run reached, where those packages are installed."""

import sys

import pytest

import sordino
from sordino.core import SordinoError
from sordino.engine.record import RunRecord


def run(tiny, folder, callback):
    sordino.Experiment(**tiny(rounds=2, engine={"evaluate_every": 1})).run(out=folder, on_round=callback)


def test_tensorboard_reads_what_was_written(tiny, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(tiny, tmp_path / "run", sordino.TensorBoard(tmp_path / "logs"))
    found = EventAccumulator(str(tmp_path / "logs")).Reload()
    rows = RunRecord(tmp_path / "run").read_metrics()
    for name in ("accuracy", "epsilon"):
        seen = [(event.step, event.value) for event in found.Scalars(name)]
        assert seen == [(row["round"] + 1, pytest.approx(row[name], rel=1e-5)) for row in rows]


def test_mlflow_reads_what_was_logged(tiny, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file://{tmp_path / 'mlruns'}")
    with mlflow.start_run() as active:
        run(tiny, tmp_path / "run", sordino.MLflow())
    seen = mlflow.tracking.MlflowClient().get_metric_history(active.info.run_id, "epsilon")
    assert [one.step for one in seen] == [1, 2] and seen[0].value < seen[1].value


def test_a_package_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(SordinoError, match=r"pip install 'sordino\[mlflow\]'"):
        sordino.MLflow()
    with pytest.raises(SordinoError, match=r"pip install 'sordino\[tensorboard\]'"):
        sordino.TensorBoard(tmp_path / "logs")
