"""Exported models answer as the model does, and the card says what it promises."""

import json

import numpy as np
import pytest
import torch

import sordino
from sordino.core import SordinoError
from sordino.predict.export import write_export

IMAGES = {"mlp": {}, "cnn": {"model": {"name": "cnn", "features": 8}, "rounds": 1}}


@pytest.fixture(scope="module", params=IMAGES)
def run(request, tmp_path_factory, tiny):
    folder = tmp_path_factory.mktemp(request.param) / "run"
    sordino.run(tiny(**IMAGES[request.param]), out=folder)
    return folder


def images() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (7, 8, 8), np.uint8)


def test_torchscript_needs_no_sordino_and_answers_alike(run, tmp_path):
    assert write_export(run, tmp_path / "out", "torchscript") == ["model.pt", "prediction.json", "README.md"]
    script = torch.jit.load(tmp_path / "out" / "model.pt")
    found = script(torch.from_numpy(images())[:, None].float())
    assert found.detach().numpy() == pytest.approx(sordino.load(run).predict_proba(images()), abs=1e-5)


def test_an_export_in_safetensors_is_loaded_like_a_run(run, tmp_path):
    write_export(run, tmp_path / "out", "safetensors")
    again = sordino.load(tmp_path / "out")
    assert np.array_equal(again.predict_proba(images()), sordino.load(run).predict_proba(images()))


def test_onnx_answers_alike(run, tmp_path):
    pytest.importorskip("onnx")
    session = pytest.importorskip("onnxruntime").InferenceSession
    write_export(run, tmp_path / "out", "onnx")
    inputs = images()[:, None].astype(np.float32)
    (found,) = session(tmp_path / "out" / "model.onnx").run(None, {"inputs": inputs})
    assert found == pytest.approx(sordino.load(run).predict_proba(images()), abs=1e-5)


def test_a_number_is_exported_in_its_own_unit(tmp_path):
    inputs = np.random.default_rng(1).random((120, 2), np.float32)
    target = {"kind": "number", "low": 5, "high": 45}
    data = sordino.Data((inputs, 5 + 40 * inputs[:, 0]), target=target, test="public-split")
    privacy = {"noise_multiplier": 1.0, "delta": 1e-2, "view": "server"}
    sordino.Experiment(data=data, model="logistic", method="dp-sgd", rounds=2, privacy=privacy).run(
        out=tmp_path / "run"
    )
    expected = sordino.load(tmp_path / "run").predict(inputs)
    assert np.ptp(expected) > 1
    write_export(tmp_path / "run", tmp_path / "script", "torchscript")
    script = torch.jit.load(tmp_path / "script" / "model.pt")
    assert script(torch.from_numpy(inputs)).detach().numpy() == pytest.approx(expected, abs=1e-4)
    pytest.importorskip("onnx")
    session = pytest.importorskip("onnxruntime").InferenceSession
    write_export(tmp_path / "run", tmp_path / "onnx", "onnx")
    (found,) = session(tmp_path / "onnx" / "model.onnx").run(["prediction"], {"inputs": inputs})
    assert found == pytest.approx(expected, abs=1e-4)


def test_the_card_has_the_head_that_hubs_read_and_epsilon_of_every_view(run, tmp_path):
    write_export(run, tmp_path / "out", "torchscript")
    text = (tmp_path / "out" / "README.md").read_text()
    _, head, body = text.split("---\n", 2)
    facts = {key: json.loads(value) for key, value in (line.split(": ", 1) for line in head.splitlines())}
    summary = json.loads((run / "summary.json").read_text())
    assert facts["library_name"] == "sordino" and facts["pipeline_tag"] == "image-classification"
    metrics = {one["type"]: one["value"] for one in facts["model-index"][0]["results"][0]["metrics"]}
    assert metrics["accuracy"] == summary["accuracy"] and metrics["f1"] == summary["f1"]
    for view in ("public", "client"):
        entry = summary["epsilon"][view]
        assert f"{float(entry['epsilon']):.3f} | {entry['delta']:g} | {entry['because']}" in body
    assert "| server (the server, which sees every upload) | inf |" in body
    assert "differ in all rows of one client" in body
    assert "**A simulation.**" in body
    for heading in ("Privacy", "How good it is", "Data", "Use", "Intended use and limits"):
        assert f"## {heading}" in body


def test_the_card_of_a_release_tells_nothing_of_the_cohort(tiny, tmp_path):
    data = {"test": "public-split"}
    sordino.run(tiny(data=data, privacy={"noise_source": "secure"}), out=tmp_path / "run")
    write_export(tmp_path / "run", tmp_path / "out", "safetensors")
    text = (tmp_path / "out" / "README.md").read_text()
    assert "simulation" not in text
    published = json.loads((tmp_path / "run" / "release" / "summary.json").read_text())
    assert f"{published['epsilon']['public']['epsilon']:.3f}" in text
    assert "seconds" not in text and "ledger" not in text


def test_an_export_does_not_mix_with_other_files(run, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(SordinoError, match="holds other files, and an export needs a folder of its own"):
        write_export(run, tmp_path, "safetensors")
