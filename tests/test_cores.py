"""Cores are counted as the system grants them, and waiting threads leave them to others."""

import os
import subprocess
import sys

import pytest

from sordino.cores import be_a_good_neighbour, free_cores

ALLOWED = len(os.sched_getaffinity(0))


def newer(folder, text):
    (folder / "cpu.max").write_text(text)


def older(folder, text):
    quota, period = text.split()
    (folder / "cpu").mkdir()
    (folder / "cpu" / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (folder / "cpu" / "cpu.cfs_period_us").write_text(f"{period}\n")


@pytest.mark.parametrize(
    ("write", "text", "expected"),
    [
        (newer, "50000 100000\n", 1),
        (newer, "150000 100000\n", min(2, ALLOWED)),
        (newer, "max 100000\n", ALLOWED),
        (newer, "what is this", ALLOWED),
        (older, "100000 100000", 1),
        (older, "-1 100000", ALLOWED),
        (older, "100000 0", ALLOWED),
    ],
)
def test_a_containers_quota_counts(tmp_path, write, text, expected):
    write(tmp_path, text)
    assert free_cores(tmp_path) == expected


def test_a_system_without_control_groups_counts_what_it_may_run_on(tmp_path):
    assert free_cores(tmp_path) == ALLOWED


def environment_after(code, **given):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    show = f"{code}; import os; print(os.environ.get('GOMP_SPINCOUNT'), os.environ.get('OMP_NUM_THREADS'))"
    done = subprocess.run(
        [sys.executable, "-c", show], env={**clean, **given}, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_importing_the_package_first_makes_threads_spin_little():
    assert environment_after("import sordino") == ["2000", str(ALLOWED)]


def test_one_core_for_the_process_means_one_thread():
    one = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}}); import sordino"
    assert environment_after(one) == ["2000", "1"]


def test_what_the_user_has_set_stays():
    assert environment_after("import sordino", OMP_WAIT_POLICY="ACTIVE", OMP_NUM_THREADS="7") == ["None", "7"]
    assert environment_after("import sordino", GOMP_SPINCOUNT="100", OMP_NUM_THREADS="7") == ["100", "7"]


def test_after_torch_nothing_is_changed():
    untouched: dict[str, str] = {}
    assert "torch" in sys.modules or __import__("torch")
    be_a_good_neighbour(untouched)
    assert untouched == {}
