"""What every member of every axis must do. New members are found and tested by themselves."""

import pytest

import sordino
from sordino.core import SordinoError
from sordino.methods import METHODS
from sordino.pretrain import STARTS
from sordino.report.catalogue import REGISTRIES, axes
from sordino.testing import CHECKS


def names(registry):
    return [member.name for member in registry]


def method_table(name):
    """Settings under which any method runs on a small federation, with noise that it accepts."""
    method = METHODS[name]()
    noise = "local" if method.protected and method.unit == "client" and method.uses == "each" else "central"
    shallow = {"layers": 1} if name == "dp-pfeddsu" else {}
    return {"method": {"name": name, **shallow}, "privacy": {"noise": noise, "noise_multiplier": 1.0}}


SETTINGS = {
    "gep": {"public": {"source": "digits"}},
    "quantity": {"ratios": [3, 2, 1]},
    "groups": {"groups": [2, 2, 2]},
    "reprogram": {"frame": 10, "image": 8, "source_classes": 10},
}
"""Of members that have settings without defaults, or defaults that are too large here."""


def member_table(name):
    return {"name": name, **SETTINGS.get(name, {})}


CASES = [
    pytest.param(check, member_table(member.name), id=f"{registry.axis} {member.name}, {check.__name__}")
    for registry in REGISTRIES
    if registry is not METHODS
    for member in registry
    for check in CHECKS[registry.axis]
    if registry is not STARTS
    or member.name == "scratch"  # others need files or public data, and have tests of their own
]


@pytest.mark.parametrize(("check", "table"), CASES)
def test_our_members_keep_the_contract(check, table):
    """Methods, which have modes, are in test_contract."""
    check(table)


@pytest.mark.parametrize("name", names(STARTS))
def test_a_start_never_takes_private_data(name, tiny, tmp_path):
    if name in ("scratch", "file"):
        assert "data" not in STARTS[name].__dataclass_fields__
        return
    table = tiny(start={"name": name, "data": {"source": "digits", "visibility": "private"}})
    with pytest.raises(SordinoError, match="marked public"):
        sordino.run(table, out=tmp_path / "run")


def test_the_catalogue_finds_everything_by_itself():
    catalogue = axes()
    assert {"fedavg", "dp-fedavg", "dp-sgd"} <= set(catalogue["method"])
    assert all(summary for members in catalogue.values() for summary in members.values())
