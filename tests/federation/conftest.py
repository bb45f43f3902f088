"""One real federation for all tests of this folder: a SuperLink and two nodes, which outlive the runs."""

import pytest

from sordino.engine.flower.dealt_files import deal_out
from sordino.engine.flower.local import LocalFederation
from sordino.experiment import experiment

CLIENTS = 2


def pytest_collection_modifyitems(items):
    for item in items:
        if "federation" in item.path.parts:
            item.add_marker(pytest.mark.federation)
            item.add_marker(pytest.mark.xdist_group("federation"))


@pytest.fixture(scope="session")
def settings(tiny):
    """`settings(rounds=2, method={...})`: an experiment for the simulator, with as many clients as there are nodes."""

    def made(**changes):
        options = {"limit": 120, "test_limit": 40}
        data = {"clients": CLIENTS, "partition": {"name": "iid"}, "options": options}
        privacy = {"sampler": "everyone", "expected_cohort": None, "noise": "local", **changes.pop("privacy", {})}
        return tiny(**{"rounds": 2, "data": data, "privacy": privacy, **changes})

    return made


@pytest.fixture(scope="session")
def local(settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    dealt = deal_out(experiment(settings()), nodes=None, federation=folder / "federation", folder=folder / "data")
    with LocalFederation.new(folder / "federation", dealt.files, rehearsal=True) as running:
        yield running


@pytest.fixture
def at_nodes(settings, local, tmp_path):
    """The same experiment for the nodes that are running."""

    def made(**changes):
        federation = local.folder
        dealt = deal_out(experiment(settings(**changes)), nodes=None, federation=federation, folder=tmp_path / "again")
        return dealt.experiment

    return made
