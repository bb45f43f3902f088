"""The process of the command: it leaves at once, with the right exit code, and with nothing cut off."""

import os
import signal
import subprocess
import sys
import time

import pytest

PREPARED = """
import atexit, os, sys, threading, time
import sordino.__main__ as process

class Kept:
    def __del__(self, write=os.write):
        write(2, b"torn down")

kept = Kept()

def command():
    {body}

process.command = command
{before}
process.main()
"""
LONG = "x" * 100_000


def call(body, before="", stdout=subprocess.PIPE):
    """A process whose command does `body`; it tells on standard error when it was taken apart at its end."""
    command = [sys.executable, "-c", PREPARED.format(body=body, before=before)]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=buffered, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("body", "code"), {"pass": 0, "sys.exit()": 0, "sys.exit(0)": 0, "sys.exit(2)": 2, "sys.exit(130)": 130}.items()
)
def test_it_leaves_at_once_with_the_command_s_exit_code(body, code):
    result = call(body)
    assert (result.returncode, result.stderr) == (code, "")


def test_all_output_arrives_in_a_pipe():
    result = call("sys.stdout.write('x' * 100_000); sys.stderr.write('y' * 100_000)")
    assert (result.stdout, result.stderr) == (LONG, LONG.replace("x", "y"))


def test_what_was_promised_for_the_end_is_done():
    assert call("atexit.register(print, 'done')").stdout == "done\n"


SLOW_WAYS = {
    "a thread at work": ("threading.Thread(target=lambda: (time.sleep(0.2), print('done'))).start(); sys.exit(3)", ""),
    "a profiler": ("print('done'); sys.exit(3)", "sys.setprofile(lambda *_: None)"),
    "a debugger": ("print('done'); sys.exit(3)", "sys.settrace(lambda *_: None)"),
}


@pytest.mark.parametrize("reason", SLOW_WAYS)
def test_it_takes_its_time_for(reason):
    result = call(*SLOW_WAYS[reason])
    assert (result.returncode, result.stdout, result.stderr) == (3, "done\n", "torn down")


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


def test_ctrl_c_stops_a_run_that_can_go_on(tmp_path):
    (tmp_path / "one.toml").write_text(EXPERIMENT)
    # Where the tests themselves run in the background, children would inherit that Ctrl-C is ignored.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from sordino.__main__ import main; main()"
    command = [sys.executable, "-c", code, "run", "one.toml", "--out", "run", "--json"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not (tmp_path / "run" / "checkpoint.safetensors").exists() and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, output) == (130, "")
    assert errors == "sordino: stopped; a run keeps its completed rounds and its ledger, and goes on with --resume.\n"
