"""docs/deployment.md followed: in `make test` what needs no server; with SORDINO_WHOLE_PAGES=1 all of it, on real processes."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pages import ROOT, WHOLE, commands, done

PAGE = "docs/deployment.md"
STATE = "~/.local/state/sordino/bergen"
SET_UP = [
    "python examples/hospital/make_data.py trial",
    "cp examples/hospital/nodes.toml trial/",
    "cd trial",
    "sordino provision consortium --server 127.0.0.1 --port 9092 --node bergen --node porto --node turku",
]
SERVE, RUN, WATCH = "sordino serve consortium", "sordino run nodes.toml", "sordino watch runs/nodes"
PREFLIGHT = "sordino preflight consortium/kits/bergen --data sites/Bergen.csv --experiment nodes.toml"
NODE, LEDGER = (
    "sordino node consortium/kits/bergen --data sites/Bergen.csv",
    "sordino node consortium/kits/bergen --ledger",
)
VERIFY, RECONCILE = "sordino show runs/nodes --verify", f"sordino reconcile runs/nodes {STATE}"
BACK_UP, LOSE, RESTORE = f"cp -a {STATE} bergen-backup", f"rm -rf {STATE}", f"cp -a bergen-backup {STATE}"
ROTATE, REMOVE = ("sordino provision consortium --rotate bergen", "sordino provision consortium --remove turku")
RENEW, ROSTER = "sordino provision consortium --renew", "sordino provision consortium"
OWN_KEY = [
    "ssh-keygen -t ecdsa -b 384 -N '' -f node.key",
    "sordino provision consortium --node wien --public-key node.key.pub",
]
ADD, RESUME = "sordino provision consortium --node oslo", "sordino run nodes.toml --resume"
WHERE = "sordino node KIT --where"
WALKED = [
    *SET_UP, SERVE, RUN, WATCH, PREFLIGHT, NODE, LEDGER, VERIFY, RECONCILE, BACK_UP, LOSE, RESTORE, ROTATE, REMOVE, RENEW, ROSTER,
    *OWN_KEY, ADD, RESUME, WHERE,
]  # fmt: skip
"""Every command of the page; `make ...` and the like are listed elsewhere."""


@pytest.fixture
def trial(tmp_path, monkeypatch):
    """An empty folder with the examples, and a home of its own, because nodes keep their state there."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_STATE_HOME", "SORDINO_STATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples" / "hospital", "examples/hospital", ignore=shutil.ignore_patterns("*.csv"))
    return tmp_path


def test_the_walk_has_only_commands_of_the_page():
    assert set(WALKED) <= set(commands(PAGE))


def do(command, code=0):
    """In this process."""
    found, printed = done(command.replace("~", os.environ["HOME"]))
    assert found == code, f"{command}\n{printed}"
    return printed


def test_what_needs_no_server_is_done_as_the_page_says(trial):
    for command in SET_UP:
        do(command)
    found = do(PREFLIGHT, code=1)
    assert "cannot be reached" in found and "Not ready: 1 of 10 checks failed." in found
    assert do(WHERE.replace("KIT", "consortium/kits/bergen")).strip() == f"{trial}/home/.local/state/sordino/bergen"
    for command in (*OWN_KEY, ADD):
        do(command)
    assert "node.key" not in {path.name for path in Path("consortium/kits/wien").iterdir()}
    before = Path("consortium/kits/bergen/node.pub").read_bytes()
    do(ROTATE)
    assert Path("consortium/kits/bergen/node.pub").read_bytes() != before
    do(RENEW)
    do(REMOVE)
    roster = do(ROSTER)
    assert re.search(r"turku[^\n]+\d{4}-\d\d-\d\d [\d:]+ +│ \d{4}", roster) and "oslo" in roster


class Terminals:
    """Shells side by side: what stays open is written to files, and ended in good order."""

    def __init__(self):
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.env = {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}
        self.open = {}

    def do(self, command, code=0):
        """Until it ends."""
        shown = subprocess.run(["bash", "-c", command], env=self.env, capture_output=True, text=True, check=False)
        assert shown.returncode == code, f"{command}\n{shown.stdout}{shown.stderr}"
        return shown.stdout + shown.stderr

    def start(self, name, command):
        """In a terminal of this name, which stays open."""
        with Path(f"{name}.txt").open("w") as file:
            self.open[name] = subprocess.Popen(
                shlex.split(command), env=self.env, stdout=file, stderr=subprocess.STDOUT
            )

    def until(self, name, words, seconds=120.0):
        """Until a terminal shows these words."""
        end = time.monotonic() + seconds
        while words not in (text := Path(f"{name}.txt").read_text()):
            assert time.monotonic() < end and self.open[name].poll() is None, f"{name} does not say {words!r}:\n{text}"
            time.sleep(0.2)

    def end(self, name):
        """As Ctrl-C or systemd does it; returns the exit code."""
        process = self.open.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(60)

    def close(self):
        for name in reversed(list(self.open)):
            self.end(name)


@pytest.fixture
def terminals(trial):
    made = Terminals()
    yield made
    made.close()


def of(command, name):
    """The same at another node."""
    return command.replace("bergen", name).replace("Bergen", name.capitalize())


def online(terminals, count):
    """Until the server has said last that so many are there."""
    end = time.monotonic() + 180
    while True:
        said = re.findall(r"(\d) of (\d) are here", Path("server.txt").read_text())
        if said and int(said[-1][0]) == count:
            return
        assert time.monotonic() < end, Path("server.txt").read_text()
        time.sleep(0.2)


@pytest.mark.skipif(not WHOLE, reason="minutes on real processes: `python -m torture pages` does it")
def test_the_whole_page_is_done_on_real_processes(terminals):
    do_here = [command for command in SET_UP if not command.startswith("cd ")]
    for command in do_here[:-1]:
        terminals.do(command)
    os.chdir("trial")
    terminals.do(do_here[-1])
    terminals.start("server", SERVE)
    terminals.until("server", "Serving consortium for 3 nodes")
    for name in ("bergen", "porto", "turku"):
        assert "Ready: nothing stands in the way." in terminals.do(of(PREFLIGHT, name))
        terminals.start(name, of(NODE, name))
    online(terminals, 3)

    run_and_watch(terminals)
    assert "The summary tells" in " ".join(terminals.do(VERIFY).split())
    for name in ("bergen", "porto", "turku"):
        assert "nodes" in terminals.do(of(LEDGER, name))
        assert "Both ledgers agree" in terminals.do(of(RECONCILE, name))

    restore_a_copy(terminals)
    another_run_that_is_resumed(terminals)
    change_who_belongs(terminals)


def run_and_watch(terminals):
    terminals.start("run", RUN)
    end = time.monotonic() + 120
    while not Path("runs/nodes/ledger.jsonl").exists() and time.monotonic() < end:
        time.sleep(0.2)
    assert "30" in terminals.do(WATCH)
    assert terminals.open.pop("run").wait(120) == 0, Path("run.txt").read_text()


def restore_a_copy(terminals):
    terminals.end("bergen")
    terminals.do(BACK_UP)
    before = terminals.do(LEDGER)
    terminals.do(LOSE)
    assert before != terminals.do(LEDGER)
    terminals.do(RESTORE)
    assert terminals.do(LEDGER) == before
    assert "Ready: nothing stands in the way." in terminals.do(PREFLIGHT)
    assert "Both ledgers agree" in terminals.do(RECONCILE)
    terminals.start("bergen", NODE)
    online(terminals, 3)


def another_run_that_is_resumed(terminals):
    """Stopped by its operator, it goes on; then the copy, which is older than it, does not know it."""
    Path("runs/nodes").rename("runs/first")
    Path("nodes.toml").write_text("seed = 2\n" + Path("nodes.toml").read_text())
    terminals.start("run", RUN)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        ledger = Path("runs/nodes/ledger.jsonl")
        if ledger.exists() and len(ledger.read_bytes().splitlines()) > 5:
            break
        time.sleep(0.1)
    terminals.open["run"].send_signal(signal.SIGINT)
    assert terminals.open.pop("run").wait(60) != 0
    terminals.do(RESUME)
    assert "Both ledgers agree" in terminals.do(RECONCILE)
    terminals.end("bergen")
    newest = terminals.do(LEDGER)
    terminals.do(LOSE)
    terminals.do(RESTORE)
    assert "knows nothing of the run" in terminals.do(RECONCILE, code=2)
    assert terminals.do(LEDGER) != newest


def change_who_belongs(terminals):
    """A new key lets bergen in again with the same state; one that is struck off goes; a new certificate needs no new kits."""
    terminals.do(ROTATE)
    terminals.start("bergen", NODE)
    online(terminals, 3)
    terminals.do(REMOVE)
    terminals.until("server", "of 2 are here")
    terminals.end("server")
    terminals.do(RENEW)
    terminals.start("server", SERVE)
    online(terminals, 2)
    assert "turku" in terminals.do(ROSTER)
    for command in (*OWN_KEY, ADD):
        terminals.do(command)
    assert terminals.do(WHERE.replace("KIT", "consortium/kits/bergen")).strip() == str(Path(STATE).expanduser())
