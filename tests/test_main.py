"""The process of the command: it leaves with the right exit code, and with nothing cut off."""

import os
import signal
import subprocess
import sys
import time

import pytest

from sordino.cli import stopped_sentence
from sordino.engine.record import RunRecord

PREPARED = """
import atexit, os, sys, threading, time
import sordino.__main__ as process

def command():
    {body}

process.command = command
{before}
process.main()
"""
LONG = "x" * 100_000


def call(body, before="", stdout=subprocess.PIPE):
    """A process whose command does `body`."""
    command = [sys.executable, "-c", PREPARED.format(body=body, before=before)]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=buffered, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("body", "code"), {"pass": 0, "sys.exit()": 0, "sys.exit(0)": 0, "sys.exit(2)": 2, "sys.exit(130)": 130}.items()
)
def test_it_leaves_with_the_command_s_exit_code(body, code):
    result = call(body)
    assert (result.returncode, result.stderr) == (code, "")


def test_all_output_arrives_in_a_pipe():
    result = call("sys.stdout.write('x' * 100_000); sys.stderr.write('y' * 100_000)")
    assert (result.stdout, result.stderr) == (LONG, LONG.replace("x", "y"))


def test_what_was_promised_for_the_end_is_done():
    assert call("atexit.register(print, 'done')").stdout == "done\n"


def test_an_exit_code_in_words_and_an_unexpected_error_are_left_to_python():
    words = call("sys.exit('words')")
    assert words.returncode == 1 and words.stderr.startswith("words")
    error = call("1 / 0")
    assert error.returncode == 1 and "ZeroDivisionError" in error.stderr


def test_a_reader_that_went_away_is_no_error_to_tell_of():
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = call("print('lost')", stdout=writing)
    finally:
        os.close(writing)
    assert (result.returncode, result.stderr) == (1, "")


EXPERIMENT = """
rounds = 100000
[data]
source = "digits"
clients = 6
[model]
name = "logistic"
[method]
name = "fedavg"
[engine]
workers = 2
"""


KEPT = "sordino: stopped; completed rounds and their ledger are kept. Go on with: sordino run one.toml --out run --json --resume\n"


def interrupted(folder, pauses, *settings):
    """A run that gets Ctrl-C after its first rounds, and again after each of these pauses."""
    (folder / "one.toml").write_text(EXPERIMENT)
    # Where the tests themselves run in the background, children would inherit that Ctrl-C is ignored.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from sordino.__main__ import main; main()"
    command = [sys.executable, "-c", code, "run", "one.toml", "--out", "run", "--json", *settings]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not (folder / "run" / "checkpoint.safetensors").exists() and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        for pause in pauses:
            time.sleep(pause)
            process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, output, errors


def test_ctrl_c_stops_a_run_that_can_go_on(tmp_path):
    assert interrupted(tmp_path, []) == (130, "", KEPT)


@pytest.mark.parametrize("pauses", [[0.001], [0.02, 0.001]])
def test_an_impatient_ctrl_c_stops_it_too_and_loses_nothing(tmp_path, pauses):
    """Signals that arrive together count once, so the sentence may come once or twice; a traceback never does."""
    code, output, errors = interrupted(tmp_path, pauses)
    assert (code, output) == (130, "")
    assert set(errors.splitlines(keepends=True)) == {KEPT}
    record = RunRecord(tmp_path / "run")
    reached = record.load_checkpoint()
    assert reached is not None and reached.rounds_done >= 1
    assert len(record.ledger.read_text().splitlines()) >= reached.ledger_lines


def test_ctrl_c_is_not_waited_for_where_shutting_down_takes_long():
    """The command's own end takes a minute here; the second Ctrl-C does not wait for it."""
    body = """
    try:
        os.kill(os.getpid(), 2)
        time.sleep(60)
    finally:
        os.kill(os.getpid(), 2)
        time.sleep(60)
"""
    started = time.monotonic()
    result = call(body, before="import signal; signal.signal(signal.SIGINT, signal.default_int_handler)")
    assert (result.returncode, result.stderr) == (130, "sordino: stopped.\n")
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("arguments", "advice"),
    {
        ("--no-color", "run", "a b.toml"): "Go on with: sordino --no-color run 'a b.toml' --resume\n",
        ("run", "a.toml", "--resume"): "Go on with: sordino run a.toml --resume\n",
        ("sweep", "a.toml", "--seeds", "2"): "Go on with: sordino sweep a.toml --seeds 2\n",
        ("show", "runs/a"): "sordino: stopped.\n",
    }.items(),
)
def test_what_stopped_says_how_to_go_on(arguments, advice):
    assert stopped_sentence(arguments).endswith(advice)
