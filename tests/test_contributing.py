"""What is written for strangers is true: every snippet is run, and what it makes keeps the contract."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import sordino
from sordino.outside import look_beside
from sordino.testing import CHECKS, axis_of

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = re.findall(r"```(python|toml|bash)\n(.*?)```", PAGE, re.DOTALL)
FILES = {
    found[1]: text for kind, text in BLOCKS if kind != "bash" and (found := re.match(r"# (\w+\.(?:py|toml))\n", text))
}
COMMANDS = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]
MEMBERS = [name for line in COMMANDS for name in re.findall(r"--member (\S+)", line)]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with every file of the page."""
    folder = tmp_path_factory.mktemp("contributing")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        patch.chdir(folder)
        yield folder


def test_every_snippet_is_a_file_or_named_as_part_of_one():
    loose = [text for kind, text in BLOCKS if kind != "bash" and text not in FILES.values()]
    assert len(FILES) == 10
    assert [text.split("\n")[0].startswith("# in the pyproject.toml") for text in loose] == [True]
    assert {"sordino", "pytest", "python"} == {line.split()[0] for line in COMMANDS}


@pytest.mark.parametrize("name", MEMBERS)
def test_what_the_page_adds_keeps_the_contract(name, written):
    look_beside(written)
    for check in CHECKS[axis_of(name)]:
        check({"name": name})


def test_every_class_on_the_page_is_checked():
    classes = {
        f"{name.removesuffix('.py')}:{kind}"
        for name, text in FILES.items()
        for kind in re.findall(r"^class (\w+)", text, re.M)
    }
    assert classes <= set(MEMBERS)


def test_the_experiments_on_the_page_run(written):
    for line in (line for line in COMMANDS if line.startswith("python ")):
        subprocess.run([sys.executable, *line.split()[1:]], check=True)
    ran = [line.split()[2:] for line in COMMANDS if line.startswith("sordino run ")]
    assert {file for file, *_ in ran} == {name for name in FILES if name.endswith(".toml")}
    for file, *options in ran:
        given = dict(zip(options[::2], options[1::2], strict=True))
        changes = [given["--set"]] if "--set" in given else []
        assert sordino.run(written / file, *changes, out=written / given.get("--out", f"runs/{file}"))["rounds"] >= 2


def test_the_extension_among_the_examples_runs_and_keeps_the_contract(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    example = ROOT / "examples" / "extensions" / "decaying.toml"
    planned = [
        sordino.plan(example, *more).to_json()["epsilon"]
        for more in ((), ("method={name='dp-fedavg', epochs=2, batch_size=10}",))
    ]
    assert planned[0] == planned[1]
    summary = sordino.run(example, "rounds=3", out=tmp_path / "run")
    assert summary["method"] == "decaying:Decaying"
    for check in CHECKS[axis_of("decaying:Decaying")]:
        check({"name": "decaying:Decaying", "decay": 0.5})
