"""A plugin for pytest that only teaches `pytest --pyargs sordino.testing` its options; any other call is left alone."""

from __future__ import annotations

import pytest


def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> None:
    if not any(argument.startswith("sordino.testing") for argument in args):
        return
    group = parser.getgroup("sordino", "the contract of a part for Sordino")
    group.addoption("--member", action="append", default=[], metavar="NAME", help="The part: module:Class, or a name.")
    group.addoption("--axis", default=None, help="The axis it belongs to, where that is not clear: method, tuning, ...")
    group.addoption(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="A setting of the part, as in TOML."
    )
