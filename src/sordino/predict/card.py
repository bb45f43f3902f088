"""The model card: a README.md in the form that model hubs read, made of public facts of the run alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sordino.core import VIEWS
from sordino.data.columns.words import missing_in_words, values_in_words
from sordino.engine.damaged import read_json_object
from sordino.files import to_json
from sordino.predict.predictor import Predictor

TASKS = {"image": "image-classification", "tabular": "tabular-classification", "text": "text-classification"}
FACTS = ("accuracy", "auroc", "f1", "balanced_accuracy", "auprc", "rmse", "mae", "r2", "loss", "calibration_error")
WHO = {
    "public": "somebody who sees every released model",
    "server": "the server, which sees every upload",
    "client": "another client, which knows its own noise",
}


def read_facts(place: Path) -> dict[str, Any]:
    """The summary beside a model, or nothing where an export holds none."""
    path = place / "summary.json"
    return read_json_object(path, {"epsilon": dict}, advice="restore it from a copy") if path.exists() else {}


def card(predictor: Predictor, facts: Mapping[str, Any], *, form: str, file: str) -> str:
    """The card of a model of which these facts are known."""
    parts = [_head(predictor, facts), f"# {predictor.name}", _about(predictor, facts)]
    if facts:
        parts += ["## Privacy", _privacy(facts), "## How good it is", _scores(predictor, facts)]
    parts += [
        "## Data",
        _inputs(predictor),
        "## Use",
        _use(predictor, form, file),
        "## Intended use and limits",
        _limits(predictor, facts),
    ]
    return "\n\n".join(parts) + "\n"


def _head(predictor: Predictor, facts: Mapping[str, Any]) -> str:
    """YAML that model hubs read; a JSON value is a YAML value."""
    task = TASKS[predictor.preparation.kind].replace(
        "classification", "regression" if predictor.target else "classification"
    )
    results = [{"type": name, "value": facts[name]} for name in FACTS if facts.get(name) is not None]
    head: dict[str, Any] = {
        "library_name": "sordino",
        "pipeline_tag": task,
        "tags": ["differential-privacy", "federated-learning", task],
    }
    if results:
        data = {"name": "public test rows", "type": predictor.preparation.kind}
        entry = {"task": {"type": task}, "dataset": data, "metrics": results}
        head["model-index"] = [{"name": predictor.name, "results": [entry]}]
    return "\n".join(["---", *(f"{key}: {to_json(value)}" for key, value in head.items()), "---"])


def _about(predictor: Predictor, facts: Mapping[str, Any]) -> str:
    classes = ", ".join(predictor.classes)
    how = (
        f" It was trained by {facts['clients']} clients that kept their rows, with the method `{facts['method']}` in "
        f"{facts['rounds']} rounds."
        if facts
        else ""
    )
    target = predictor.target
    if target is not None:
        return f"A model that predicts a number, {classes}, from {target.low:g} to {target.high:g}.{how}"
    return f"A classifier that tells apart: {classes}.{how}"


def _privacy(facts: Mapping[str, Any]) -> str:
    unit = "one row" if facts["unit"] == "example" else "all rows of one client"
    rows = [
        f"| {view} ({WHO[view]}) | {facts['epsilon'][view]['epsilon']:{'' if _is_text(facts, view) else '.3f'}} | "
        f"{facts['epsilon'][view]['delta']:g} | {facts['epsilon'][view]['because']} |"
        for view in VIEWS
    ]
    promised = (
        f"The run was planned for the view `{facts['view']}`. Neighbours (`{facts['neighbours']}`) differ in {unit}."
    )
    seeded = (
        "**A simulation.** Its noise is seeded and can be drawn again, so the figures below hold for a run with secure noise and not "
        "for this very model; do not publish it as private.\n\n"
        if facts.get("simulation")
        else ""
    )
    return f"{seeded}{promised}\n\n| who looks | ε | δ | why |\n|---|---|---|---|\n" + "\n".join(rows)


def _is_text(facts: Mapping[str, Any], view: str) -> bool:
    return isinstance(facts["epsilon"][view]["epsilon"], str)


def _scores(predictor: Predictor, facts: Mapping[str, Any]) -> str:
    told = [f"| {name.replace('_', ' ')} | {facts[name]:.4f} |" for name in FACTS if facts.get(name) is not None]
    if not told:
        return "Nothing was measured."
    rows = "rows that stayed private, with noise" if facts.get("accuracy_charged") else "public test rows"
    about = (
        " Accuracy is one minus the mean absolute error as a share of the declared range." if predictor.target else ""
    )
    table = f"Measured on {rows}.{about}\n\n| figure | value |\n|---|---|\n" + "\n".join(told)
    counts = facts.get("confusion")
    if not counts:
        return table
    head = f"| class | {' | '.join(predictor.classes)} |\n|---{'|---' * len(counts)}|"
    body = "\n".join(
        f"| {name} | {' | '.join(map(str, row))} |" for name, row in zip(predictor.classes, counts, strict=True)
    )
    return f"{table}\n\nRows of each class, and what they were called:\n\n{head}\n{body}"


def _inputs(predictor: Predictor) -> str:
    preparation = predictor.preparation
    if not preparation.columns:
        return f"{preparation.kind.capitalize()} data: {preparation.wanted}."
    rows = [
        f"| {name} | {table['kind']} | {values_in_words(table)} | {missing_in_words(table)} |"
        for name, table in preparation.columns.items()
    ]
    return (
        "A table with these columns.\n\n| column | kind | values | missing counts as |\n|---|---|---|---|\n"
        + "\n".join(rows)
    )


def _use(predictor: Predictor, form: str, file: str) -> str:
    if form == "safetensors":
        return '```python\nimport sordino\n\nsordino.load("this folder").predict(frame)\n```'
    load = {
        "torchscript": f'torch.jit.load("{file}")(inputs)',
        "onnx": f'onnxruntime.InferenceSession("{file}").run(None, {{"inputs": inputs}})',
    }[form]
    return (
        f"```python\n{load}\n```\n{file} needs no sordino. Its inputs are prepared rows, as `prediction.json` describes them; its outputs "
        f"are {_outputs(predictor)}."
    )


def _outputs(predictor: Predictor) -> str:
    names = ", ".join(predictor.classes)
    return f"the probabilities of {names}, in this order" if predictor.target is None else f"{names}, one number a row"


def _limits(predictor: Predictor, facts: Mapping[str, Any]) -> str:
    lines = [
        *([predictor.note] if predictor.note else []),
        "It is meant for rows like those it was trained on: the same columns, measured in the same way. It was not tested on others.",
        "Differential privacy bounds what the model tells of who it was trained on, and says nothing of how right or fair it is.",
        "It is no substitute for the judgement of a person who answers for the decision.",
        *facts.get("warnings", ()),
    ]
    return "\n".join(f"- {line}" for line in lines)
