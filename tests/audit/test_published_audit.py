"""A verdict goes where it may go: into the run's folder, into a secure run's release if asked, and into `show` and `compare`."""

import json

import pytest
from typer.testing import CliRunner

import sordino
from sordino.audit import auditing
from sordino.cli import app
from sordino.engine import noise_sources
from sordino.files import to_json
from sordino.privacy.noise import SeededNoise


def command(*given):
    done = CliRunner().invoke(app, list(map(str, given)), env={"COLUMNS": "200"})
    return done.exit_code, " ".join((done.output + str(done.exception or "")).split())


@pytest.fixture(scope="module")
def runs(tiny, tmp_path_factory):
    top = tmp_path_factory.mktemp("published")
    shared = {"rounds": 2, "data": {"test": "public-split"}}
    sordino.run(tiny(**shared, privacy={"noise_source": "secure"}), out=top / "secure")
    sordino.run(tiny(**shared), out=top / "seeded")
    return top


@pytest.fixture(autouse=True)
def the_same_audit_every_time(monkeypatch):
    """An audit may alarm falsely, once in twenty at the most; so it has the same noise and as many runs here on any machine."""
    monkeypatch.setattr(auditing, "MOST_RUNS", 1)
    monkeypatch.setattr(noise_sources, "SecureNoise", lambda: SeededNoise(1))


def test_the_verdict_of_a_secure_run_is_published_and_tells_nothing_private(runs):
    code, output = command("audit", runs / "secure", "--budget", "1s", "--publish")
    assert code == 0 and "Nothing was proven that the ledger does not claim." in output
    beside, published = (runs / "secure" / place / "audit.json" for place in (".", "release"))
    assert beside.read_bytes() == published.read_bytes()
    content = json.loads(published.read_text())
    assert (
        content["holds"]
        and content["views"]["public"]["proven_epsilon"] <= content["views"]["public"]["claimed_epsilon"]
    )
    assert not {"participants", "coins", "scores", "sizes", "folder"} & set(_keys(content))


def _keys(value):
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    for one in value if isinstance(value, list) else ():
        yield from _keys(one)


def test_show_and_compare_tell_what_was_found(runs):
    """Of a secure run, compare reads the release alone: a verdict that was not published is not told."""
    command("audit", runs / "seeded", "--budget", "1s", "--view", "public")
    code, output = command("show", runs / "seeded")
    assert code == 0 and "ε proven" in output and "power" in output
    code, output = command("compare", runs / "seeded")
    assert code == 0 and "seed 3: audit holds (ε proven of ε claimed: public" in output
    broken = {"schema": 1, "kind": "audit", "name": "x", "holds": False, "views": {}}
    (runs / "secure" / "release" / "audit.json").unlink(missing_ok=True)
    (runs / "secure" / "audit.json").write_text(to_json(broken))
    assert "audit" not in command("compare", runs / "secure")[1]
    (runs / "secure" / "release" / "audit.json").write_text(to_json(broken))
    assert "seed 3: audit BROKEN" in command("compare", runs / "secure")[1]


def test_a_run_without_a_release_has_nowhere_to_publish(runs):
    code, output = command("audit", runs / "seeded", "--budget", "1s", "--view", "public", "--publish")
    assert code != 0 and "has no release to put the verdict into" in output
