"""Files and rows are there whole or not at all, and a lock is held by one process."""

import errno
import multiprocessing
import os
import signal
import time

import pytest

from sordino.core import SordinoError
from sordino.files import append_row, locked, remove_unfinished, whole_rows, write_whole


def test_two_writers_of_one_file_do_not_meet(tmp_path, monkeypatch):
    """The second writes while the first is between writing and renaming."""
    path, rename = tmp_path / "shared.bin", os.replace

    def meanwhile(source, target):
        monkeypatch.setattr("os.replace", rename)
        write_whole(path, b"second")
        rename(source, target)

    monkeypatch.setattr("os.replace", meanwhile)
    write_whole(path, b"first")
    assert path.read_bytes() == b"first"
    assert [each.name for each in tmp_path.iterdir()] == ["shared.bin"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, code):
    path = tmp_path / "kept.bin"
    write_whole(path, b"old")
    monkeypatch.setattr("os.fsync", _failing(code))
    with pytest.raises(SordinoError, match=r"no room left|cannot be written"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["kept.bin"]


def _failing(code):
    def fail(*args):
        raise OSError(code, os.strerror(code))

    return fail


def test_a_row_that_was_half_written_is_taken_back(tmp_path, monkeypatch):
    path, write = tmp_path / "rows", os.write
    append_row(path, b"one\n", durable=True)
    written = []

    def half(descriptor, content):
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(content)
        return write(descriptor, bytes(content)[: len(content) // 2])

    monkeypatch.setattr("os.write", half)
    with pytest.raises(SordinoError, match="no room left"):
        append_row(path, b"two two two\n", durable=True)
    assert path.read_bytes() == b"one\n"


def test_a_file_that_somebody_changed_is_not_written_to(tmp_path):
    path = tmp_path / "rows"
    length = append_row(path, b"one\n", durable=True)
    path.write_bytes(b"one\nand a stranger's\n")
    with pytest.raises(SordinoError, match="should have 4 bytes, but got 21"):
        append_row(path, b"two\n", durable=True, length=length)
    path.unlink()
    with pytest.raises(SordinoError, match="cannot be written"):
        append_row(path, b"two\n", durable=True, length=length)
    assert not path.exists()


def test_a_row_cut_short_does_not_count():
    assert whole_rows(b"one\ntwo\nthr") == b"one\ntwo\n"
    assert whole_rows(b"on") == b""


def _hold(path, ready):
    with locked(path):
        ready.set()
        time.sleep(60)


def test_a_lock_is_refused_while_held_and_free_when_its_holder_dies(tmp_path):
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / ".lock", ready))
    holder.start()
    assert ready.wait(10)
    with pytest.raises(SordinoError, match="taken"), locked(tmp_path / ".lock", busy="It is taken."):
        pytest.fail("two hold one lock")
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    with locked(tmp_path / ".lock", busy="It is taken."):
        assert (tmp_path / ".lock").exists()
    assert not list(tmp_path.iterdir())


def _count(folder, times):
    for _ in range(times):
        with locked(folder / ".lock"):
            number = int((folder / "number").read_text())
            (folder / "number").write_text(str(number + 1))


def test_those_who_wait_get_the_lock_one_by_one(tmp_path):
    (tmp_path / "number").write_text("0")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_count, args=(tmp_path, 100)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (tmp_path / "number").read_text() == "400"


def test_what_killed_writers_left_is_taken_away(tmp_path):
    (tmp_path / ".model.safetensors.12-ab.tmp").write_bytes(b"half")
    (tmp_path / "kept").write_bytes(b"whole")
    remove_unfinished(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]
