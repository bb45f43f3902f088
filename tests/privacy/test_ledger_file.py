"""A ledger shows tampering: whatever is done to its rows is found when it is read."""

import json

import pytest
from test_ledger import ledger, line

from sordino.core import SordinoError
from sordino.privacy.ledger import Ledger
from sordino.privacy.ledger_file import read_book


def written(tmp_path, rounds=4):
    book = ledger(tmp_path)
    for number in range(rounds):
        book.charge(line(number))
    return book


def _edited(rows):
    row = json.loads(rows[2])
    row["noise_multiplier"] *= 100
    return [*rows[:2], json.dumps(row).encode(), *rows[3:]]


def _edited_number_by_number(rows):
    return [row.replace(b'"noise_multiplier": 4.0', b'"noise_multiplier": 400.0') for row in rows]


TAMPERINGS = {
    "edited": _edited,
    "edited without other changes": _edited_number_by_number,
    "removed": lambda rows: [*rows[:2], *rows[3:]],
    "moved": lambda rows: [*rows[:2], rows[3], rows[2], rows[4]],
    "doubled": lambda rows: [*rows, rows[-1]],
    "header removed": lambda rows: rows[1:],
    "header edited": lambda rows: [rows[0].replace(b'"delta": 1e-05', b'"delta": 0.001'), *rows[1:]],
}


@pytest.mark.parametrize("how", TAMPERINGS)
def test_a_changed_row_is_found(tmp_path, how):
    book = written(tmp_path)
    rows = book.path.read_bytes().splitlines()
    assert read_book(book.path).head == book.head
    book.path.write_bytes(b"".join(row + b"\n" for row in TAMPERINGS[how](rows)))
    with pytest.raises(SordinoError, match=r"not the one that was written|header of schema 2"):
        read_book(book.path)


def test_a_cut_or_older_ledger_does_not_fit_its_checkpoint(tmp_path):
    book = written(tmp_path)
    head = book.head
    rows = book.path.read_bytes().splitlines(keepends=True)
    book.path.write_bytes(b"".join(rows[:3]))
    with pytest.raises(SordinoError, match="2 whole lines but the checkpoint counts 4"):
        ledger(tmp_path).open(keep=4, replay=True, head=head)
    book.path.unlink()
    other = ledger(tmp_path)
    for number in range(5):
        other.charge(line(number, participants=(2,)))
    with pytest.raises(SordinoError, match="not the one that the checkpoint was made with"):
        ledger(tmp_path).open(keep=4, replay=True, head=head)


def test_a_missing_ledger_is_not_an_empty_one(tmp_path):
    with pytest.raises(SordinoError, match="nobody knows what was spent"):
        ledger(tmp_path).open(keep=0, replay=False)


def test_a_ledger_with_lines_is_never_begun_anew(tmp_path):
    written(tmp_path)
    with pytest.raises(SordinoError, match="must not be overwritten"):
        ledger(tmp_path).charge(line(0))


def test_a_ledger_belongs_to_its_run(tmp_path):
    path = tmp_path / "ledger.jsonl"

    def bound_to(data):
        return Ledger(clients=4, delta=1e-5, neighbours="zero-out", path=path, about={"data_digest": data})

    bound_to("aa").charge(line(0))
    with pytest.raises(SordinoError, match="was begun with data_digest aa, but this run has bb"):
        bound_to("bb").open(keep=1, replay=True)


def test_another_schema_is_refused(tmp_path):
    book = ledger(tmp_path)
    book.create()
    book.path.write_bytes(book.path.read_bytes().replace(b'"schema": 2', b'"schema": 3'))
    with pytest.raises(SordinoError, match="schema 2, but got schema 3"):
        read_book(book.path)


def test_a_ledger_is_priced_from_its_file_alone(tmp_path):
    book = written(tmp_path)
    again = Ledger.of_book(read_book(book.path))
    assert {view: report.worst.epsilon for view, report in again.report().items()} == {
        view: report.worst.epsilon for view, report in book.report().items()
    }
    assert again.head == book.head


def test_a_ledger_changed_behind_the_run_is_not_written_to(tmp_path):
    book = written(tmp_path)
    before = book.path.read_bytes()
    book.path.write_bytes(before + before.splitlines(keepends=True)[-1])
    with pytest.raises(SordinoError, match="somebody else has changed it"):
        book.charge(line(4))
    assert len(book.lines) == 4


def test_a_replayed_line_counts_as_it_was_written_and_not_as_it_is_worked_out_anew(tmp_path):
    book = written(tmp_path, 1)
    again = ledger(tmp_path)
    again.open(keep=0, replay=True)
    nearly = line(0).__class__(**{**line(0).__dict__, "noise_multiplier": 4.0 * (1 + 1e-13)})
    assert again.charge(nearly).parts[0].noise_multiplier == 4.0
    assert again.lines[0].noise_multiplier == 4.0
    assert again.head == book.head
