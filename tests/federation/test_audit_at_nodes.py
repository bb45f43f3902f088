"""The audit on real nodes: canaries in nodes' own files, over a real SuperLink, seen as in the simulator."""

import numpy as np
import pytest

from sordino.audit.planting.ground import make_ground
from sordino.audit.planting.nodes import MOST_NODES, CanaryNodes, allowing, canary_nodes
from sordino.audit.planting.rounds import canary_run, promised_views
from sordino.core import SordinoError
from sordino.data.examples import Normalisation
from sordino.data.preparation import Preparation
from sordino.experiment import experiment


@pytest.fixture
def nodes_for(local):
    """The running nodes with a canary's limits; their own files and limits come back."""
    pages = [local.provision.kit(name) / "limits.toml" for name in local.files]
    kept = {path: path.read_bytes() for path in [*pages, *local.files.values()]}

    def allow(ground):
        for page in pages:
            page.write_text(allowing(ground))
        return CanaryNodes(local=local)

    yield allow
    for path, content in kept.items():
        path.write_bytes(content)


def test_canaries_at_nodes_are_seen_as_in_the_simulator(settings, local, nodes_for, tmp_path):
    def seen(engine, scratch):
        ground = make_ground(experiment(settings(rounds=1, engine={"name": engine})), scratch=scratch)
        nodes = nodes_for(ground) if engine == "flower" else None
        return canary_run(ground, repeat=0, views=promised_views(ground), scratch=tmp_path, nodes=nodes)

    far, here = seen("flower", local.folder.parent), seen("simulate", tmp_path)
    assert set(far.sights) == {"public", "server", "client"}
    for view in far.sights:
        np.testing.assert_array_equal(far.sights[view].scores, here.sights[view].scores)
        assert far.sights[view].seen.sum() > 0
    assert far.ledger.report()["server"].worst == here.ledger.report()["server"].worst


def test_an_audit_starts_no_more_nodes_than_a_machine_carries(settings, tmp_path):
    many = settings(engine={"name": "flower"})
    many["data"]["clients"] = MOST_NODES + 1
    ground = make_ground(experiment(many), scratch=tmp_path)
    with pytest.raises(SordinoError, match="at most 12, but the experiment has 13 clients; audit it with --set"):
        canary_nodes(ground, tmp_path).__enter__()


def test_rows_that_nobody_here_knows_are_taken_from_what_nodes_declared(settings, tmp_path):
    """A file for real nodes names no data set; a run of it has their declarations in its record."""
    table = settings(engine={"name": "flower"})
    table["data"]["source"] = "nodes"
    with pytest.raises(SordinoError, match="the folder of a run whose nodes have declared their rows"):
        make_ground(experiment(table), scratch=tmp_path)
    preparation = Preparation(
        kind="image", shape=(1, 8, 8), classes=tuple("0123456789"), normalisation=Normalisation()
    ).to_json()
    declared = [{"name": f"node-{n}", "rows": 30 + n, "preparation": preparation} for n in range(3)]
    ground = make_ground(experiment(table), scratch=tmp_path, declared=declared)
    assert ground.sizes == [30, 31, 32] and ground.task.classes == 10
