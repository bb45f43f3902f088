"""What an auditor sees in the ledgers of a server and of a client: agreement, or the first place where they differ."""

import json

import pytest

from sordino.core import SordinoError
from sordino.engine.client.lifetime import LifetimeLedger
from sordino.engine.reconcile import reconcile
from sordino.privacy.ledger import Ledger
from tests.engine.test_guard import Scene


@pytest.fixture
def scene(tiny, tmp_path):
    table = tiny(
        rounds=3,
        data={"clients": 3, "partition": {"name": "iid"}, "options": {"limit": 120}, "test": "public-split"},
        privacy={"sampler": "everyone", "expected_cohort": None, "noise": "local", "noise_source": "secure"},
    )
    return Scene(table, tmp_path, server=tmp_path / "server.jsonl")


def test_ledgers_of_a_run_agree_also_where_a_turn_stayed_empty_or_was_repeated(scene):
    guard = scene.guard()
    guard.admit(scene.request(0))
    scene.request(1)
    scene.server._attempt = 1
    guard.admit(scene.request(1))
    guard.admit(scene.request(2))
    found = reconcile(scene.server.path, scene.path)
    assert (found["releases"], found["empty_turns"]) == (3, 1)
    told = found["epsilon"]["server"]
    assert told["left"] == pytest.approx(told["client"]), "three turns were planned and used"
    assert told["server"] > told["left"], "four were charged, and one of them stayed empty"
    assert found["client_head"] == LifetimeLedger(scene.path).head


def test_a_release_that_the_server_did_not_charge_is_found_out(scene):
    guard = scene.guard()
    guard.admit(scene.request(0))
    rows = scene.server.path.read_bytes()
    guard.admit(scene.request(1))
    scene.server.path.write_bytes(rows)
    with pytest.raises(SordinoError, match=r"a release for line 1 \(round 1, attempt 0\) that is no line"):
        reconcile(scene.server.path, scene.path)


def test_a_price_that_was_rewritten_is_found_out(scene, tmp_path):
    """The server makes a new ledger of the same run, whole and chained, in which everything is cheaper."""
    scene.guard().admit(scene.request(0))
    cheaper = Ledger(clients=3, delta=1e-3, neighbours="zero-out", path=tmp_path / "cheaper.jsonl")
    row = json.loads(
        json.dumps(scene.server.lines[0].to_json()).replace('"noise_multiplier": 1.0', '"noise_multiplier": 9.0')
    )
    cheaper.charge(type(scene.server.lines[0]).from_json(row))
    with pytest.raises(SordinoError, match="different prices for line 0"):
        reconcile(cheaper.path, scene.path)


def test_a_ledger_of_somebody_else_is_named(scene, tmp_path):
    scene.guard()
    other = Ledger(clients=4, delta=1e-3, neighbours="zero-out", path=tmp_path / "other.jsonl")
    other.create()
    with pytest.raises(SordinoError, match="knows nothing of the run"):
        reconcile(other.path, scene.path)
    with pytest.raises(SordinoError, match="but there is none"):
        reconcile(other.path, tmp_path / "nowhere.jsonl")
