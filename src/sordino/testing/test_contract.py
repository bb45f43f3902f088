"""The contract of the parts that `--member` names: one test for each check of each part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sordino.core import SordinoError, unknown
from sordino.experiment import override
from sordino.outside import look_beside
from sordino.testing.broken import Broken
from sordino.testing.suite import CHECKS, Check, axis_of
from sordino.testing.tables import Table


def test_contract(check: Check, table: Table) -> None:
    try:
        check(table)
    except (Broken, SordinoError) as refusal:
        raise pytest.fail.Exception(str(refusal), pytrace=False) from None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    config = metafunc.config
    look_beside(Path(config.invocation_params.dir))
    cases, ids = [], []
    try:
        for name in config.getoption("--member", []):
            table = _table(name, config.getoption("--set"))
            axis = config.getoption("--axis") or axis_of(name)
            if axis not in CHECKS:
                raise SordinoError(unknown("axis", axis, CHECKS))
            cases += [(check, table) for check in CHECKS[axis]]
            ids += [f"{axis} {name}, {check.__name__.replace('_', ' ')}" for check in CHECKS[axis]]
    except SordinoError as refusal:
        raise pytest.Collector.CollectError(str(refusal)) from None
    if not cases:
        raise pytest.Collector.CollectError(
            "The contract is checked on a part; name it with --member my_module:MyClass."
        )
    metafunc.parametrize(("check", "table"), cases, ids=ids)


def _table(name: str, settings: list[str]) -> dict[str, Any]:
    table: dict[str, Any] = {"name": name}
    for setting in settings:
        override(table, setting)
    return table
