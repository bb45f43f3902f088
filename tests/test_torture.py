"""The torture suite's own tools: what it measures with must be right itself."""

import math
import random
import subprocess
import sys
import tomllib

import pytest

from torture.faults import build_shim
from torture.mutators import STRANGE, Mutators
from torture.repricing import Facts, agree, reprice
from torture.shrink import smallest
from torture.toml import to_toml


def row(event, *, whom="pool", participants=(), residue=0, period=1, view="public"):
    charges = [{"view": view, "whom": whom, "event": event, "because": ""}]
    return {"round": 0, "participants": list(participants), "period": period, "residue": residue, "charges": charges}


def test_the_second_accountant_meets_a_known_value():
    event = {"kind": "poisson", "rate": 768 / 50_000, "event": {"kind": "gaussian", "noise_multiplier": 1.1}}
    priced = reprice([row(event)] * 100, Facts(clients=1, delta=1e-5, neighbours="zero-out"))
    assert priced["public"] == pytest.approx(0.862, abs=1e-3)
    assert priced["server"] == 0
    assert not agree(
        priced["public"], reprice([row(event)] * 99, Facts(clients=1, delta=1e-5, neighbours="zero-out"))["public"]
    )


def test_the_second_accountant_finds_the_client_who_paid_most():
    once, never = {"kind": "gaussian", "noise_multiplier": 2.0}, {"kind": "non-private"}
    facts = Facts(clients=4, delta=1e-3, neighbours="zero-out")
    rows = [
        row(once, whom="participants", participants=[2]),
        row(once, residue=0, period=2),
        row(once, residue=1, period=2),
    ]
    both = reprice([row(once), row(once)], facts)["public"]
    assert reprice(rows, facts)["public"] == pytest.approx(both)
    assert reprice([*rows, row(never, residue=3, period=4)], facts)["public"] == math.inf


@pytest.mark.parametrize("value", STRANGE)
def test_strange_values_are_written_as_toml(value):
    table = {"a": value, "s": {"b": value, "ε ": {"c": [value]}}}
    assert repr(tomllib.loads(to_toml(table))) == repr(table)


def test_the_same_seed_makes_the_same_mutant(tmp_path):
    base = {"rounds": 2, "data": {"source": "digits"}, "method": {"name": "dp-fedavg"}}
    mutators = Mutators([base], {"method": ["dp-fedavg", "fedavg"]}, tmp_path)
    made = [[mutators.mutant(n, random.Random(n)).content for n in range(60)] for _ in range(2)]
    assert made[0] == made[1]
    assert len(set(made[0])) > 30
    assert base == {"rounds": 2, "data": {"source": "digits"}, "method": {"name": "dp-fedavg"}}


def test_what_is_not_needed_for_a_failure_is_removed():
    table = {"rounds": 2, "data": {"source": "digits", "clients": -1}, "engine": {"workers": 1}}
    found = smallest(table, lambda tried: tried.get("data", {}).get("clients") == -1)
    assert found == {"data": {"clients": -1}}


def test_the_shim_fails_the_call_it_is_told_to(tmp_path):
    shim = build_shim(tmp_path)
    if shim is None:
        pytest.skip("no C compiler")
    below = tmp_path / "below"
    below.mkdir()
    script = f"""
import ctypes, os
ctypes.CDLL({str(shim)!r}).torture_arm({bytes(below)!r}, b"", 4, 28, b"h")
for name in ("one", "two"):
    with open({str(below)!r} + "/" + name, "wb", buffering=0) as file:
        try:
            file.write(b"0123456789")
        except OSError as error:
            print(name, error.errno)
    with open({str(tmp_path)!r} + "/elsewhere", "wb") as file:
        file.write(b"0123456789")
"""
    env = {"LD_PRELOAD": str(shim), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, check=False)
    assert done.stdout == "two 28\n", done.stderr
    assert (below / "one").read_bytes() == b"0123456789"
    assert (below / "two").read_bytes() == b"01234"
    assert (tmp_path / "elsewhere").read_bytes() == b"0123456789"
