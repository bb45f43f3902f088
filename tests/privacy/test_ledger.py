"""The ledger: written before drawing, refusing over budget, honest after a crash."""

import json
import math
from collections import Counter

import pytest

from sordino.core import SordinoError
from sordino.privacy.accounting import spent
from sordino.privacy.event_kinds import GaussianDpEvent, NonPrivateDpEvent, PoissonSampledDpEvent
from sordino.privacy.ledger import Budget, Ledger, Line, OverBudget, read_lines
from sordino.privacy.pricing import Charge

Z4 = GaussianDpEvent(4.0)


def line(round_number=0, participants=(0, 1), events=None, period=1, residue=0):
    events = events or {
        "public": ("pool", PoissonSampledDpEvent(0.1, Z4)),
        "server": ("participants", Z4),
        "client": ("pool", NonPrivateDpEvent()),
    }
    charges = tuple(
        Charge(view=view, whom=whom, event=event, because=f"{view} test") for view, (whom, event) in events.items()
    )
    return Line(
        round=round_number,
        label="update",
        unit="client",
        owner="server",
        mechanism="gaussian",
        norm="l2",
        clip_bound=1.0,
        noise_multiplier=4.0,
        releases=1,
        period=period,
        residue=residue,
        participants=participants,
        charges=charges,
    )


def ledger(tmp_path=None, budget=None, clients=4, **more):
    path = tmp_path / "ledger.jsonl" if tmp_path else None
    return Ledger(clients=clients, delta=1e-5, neighbours="zero-out", budget=budget, path=path, **more)


def test_each_view_and_each_client_pays_its_own_bill():
    book = ledger()
    for t in range(5):
        book.charge(line(t, participants=(0, 1) if t < 2 else (0,)))
    report = book.report()
    price = lambda events: spent(events, delta=1e-5, neighbours="zero-out", precise=True).epsilon  # noqa: E731
    assert report["public"].worst.epsilon == price({PoissonSampledDpEvent(0.1, Z4): 5})
    assert report["server"].per_client == {0: price({Z4: 5}), 1: price({Z4: 2}), 2: 0.0, 3: 0.0}
    assert report["server"].worst_client == 0
    assert math.isinf(report["client"].worst.epsilon)
    assert report["public"].because == "public test"


def test_pools_pay_only_for_their_own_turns():
    book = ledger()
    events = {"public": ("pool", Z4), "server": ("participants", Z4), "client": ("pool", Z4)}
    for t in range(3):
        book.charge(line(t, participants=(), events=events, period=2, residue=t % 2))
    per_client = book.report()["public"].per_client
    assert per_client[0] == per_client[2] > per_client[1] == per_client[3] > 0


def test_a_large_roster_is_not_listed_one_by_one():
    book = ledger(clients=100_000)
    book.charge(line(participants=(5,)))
    assert set(book.report()["server"].per_client) == {5, 0}


def test_a_release_past_the_budget_is_refused_and_nothing_is_written(tmp_path):
    limit = spent({Z4: 2}, delta=1e-5, neighbours="zero-out", precise=True).epsilon
    book = ledger(tmp_path, Budget(view="server", epsilon=limit * 1.001))
    book.charge(line(0))
    book.charge(line(1))
    before = book.path.read_bytes()
    with pytest.raises(OverBudget, match="past its budget"):
        book.charge(line(2))
    assert book.path.read_bytes() == before
    assert len(book.lines) == 2
    book.charge(line(3, participants=(2, 3)))


def test_budgets_differ_by_client():
    limit = spent({Z4: 1}, delta=1e-5, neighbours="zero-out", precise=True).epsilon
    book = ledger(budget=Budget(view="server", epsilon=100.0, per_client={1: limit * 1.001}))
    charges = line().charges
    assert book.affords(1, charges)
    book.charge(line())
    assert not book.affords(1, charges)
    assert book.affords(0, charges)


def test_a_planned_run_is_priced_once(monkeypatch):
    event = PoissonSampledDpEvent(0.1, Z4)
    limit = spent({event: 50}, delta=1e-5, neighbours="zero-out", precise=True).epsilon
    book = ledger(budget=Budget(view="public", epsilon=limit), planned=[Counter({event: 50})])
    monkeypatch.setattr("sordino.privacy.ledger.spent", lambda *args, **kwargs: pytest.fail("priced again"))
    for t in range(50):
        book.charge(line(t))


def test_lines_come_back_from_disk_as_they_were(tmp_path):
    book = ledger(tmp_path)
    book.charge(line(0))
    book.charge(line(1, participants=()))
    assert read_lines(book.path) == book.lines
    json.loads(book.path.read_text().splitlines()[0])


def test_a_line_cut_short_by_a_crash_is_dropped(tmp_path):
    book = ledger(tmp_path)
    book.charge(line(0))
    with book.path.open("a") as file:
        file.write('{"round": 1, "lab')
    again = ledger(tmp_path)
    again.open(keep=1, replay=True)
    assert len(again.lines) == 1
    again.charge(line(1))
    assert [found.round for found in read_lines(book.path)] == [0, 1]


def test_a_replayed_round_is_charged_once_and_must_be_the_same(tmp_path):
    book = ledger(tmp_path)
    for t in range(3):
        book.charge(line(t))
    again = ledger(tmp_path)
    again.open(keep=1, replay=True)
    again.charge(line(1))
    again.charge(line(2))
    again.charge(line(3))
    assert [found.round for found in read_lines(book.path)] == [0, 1, 2, 3]
    other = ledger(tmp_path)
    other.open(keep=1, replay=True)
    with pytest.raises(SordinoError, match="charged something else"):
        other.charge(line(1, participants=(3,)))


def test_secure_noise_is_drawn_anew_and_so_charged_anew(tmp_path):
    book = ledger(tmp_path)
    for t in range(2):
        book.charge(line(t))
    again = ledger(tmp_path)
    again.open(keep=1, replay=False)
    again.charge(line(1))
    assert [found.round for found in again.lines] == [0, 1, 1]


def test_a_ledger_that_lost_lines_is_refused(tmp_path):
    book = ledger(tmp_path)
    book.charge(line(0))
    with pytest.raises(SordinoError, match="1 whole lines but the checkpoint counts 2"):
        ledger(tmp_path).open(keep=2, replay=True)


def test_a_damaged_ledger_is_refused(tmp_path):
    (tmp_path / "ledger.jsonl").write_text("not json\n")
    with pytest.raises(SordinoError, match="cannot be read"):
        ledger(tmp_path).open(keep=0, replay=True)


def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    book = ledger(tmp_path)
    book.charge(line(0))
    before = book.path.read_bytes()

    def refuse(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(SordinoError, match="no room left"):
        book.charge(line(1))
    assert book.path.read_bytes() == before
    assert len(book.lines) == 1
