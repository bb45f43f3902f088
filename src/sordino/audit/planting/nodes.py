"""Canaries at real nodes: a SuperLink and SuperNodes on this machine, started for the audit, whose data files hold canary rows.

The nodes of an experiment are not asked: an audit would spend what their ledgers allow, and their rows are real. These have keys,
certificates, limits and ledgers of their own, and go when the audit ends. Flower, the wire, the guard and the door are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sordino.audit.planting.ground import CanaryData, Ground
from sordino.core import SordinoError
from sordino.engine.client.limits import named_parts
from sordino.engine.dealing import Federated
from sordino.engine.engines import needs_flower
from sordino.engine.resolved import Resolved
from sordino.files import to_json, write_whole

if TYPE_CHECKING:
    from sordino.engine.flower.local import LocalFederation

MOST_NODES = 12
"""More would need a machine each: every node is two processes."""


@dataclass(frozen=True, kw_only=True)
class CanaryNodes:
    """Nodes that hold whatever canary rows they are given, run after run."""

    local: LocalFederation

    def __call__(self, resolved: Resolved, data: CanaryData) -> Federated:
        """Put every client's rows into its node's file, and have the nodes declare them."""
        from sordino.engine.flower.meeting import meet_nodes

        for client, file in enumerate(self.local.files.values()):
            size = int(data.partition.sizes[client])
            rows = data.canary(client)
            whole = rows.take(torch.arange(size) % len(rows))
            np.savez(file, x_train=whole.inputs.numpy(), y_train=whole.labels.numpy())
        return meet_nodes(resolved, {})


@contextmanager
def canary_nodes(ground: Ground, scratch: Path) -> Iterator[CanaryNodes | None]:
    """Nodes for the clients of an experiment on Flower, while the block lasts; None for any other engine."""
    if ground.experiment.engine.name != "flower":
        yield None
        return
    needs_flower()
    if ground.clients > MOST_NODES:
        raise SordinoError(
            f"An audit on Flower starts a node for each client here, at most {MOST_NODES}, but the experiment has {ground.clients} "
            "clients; audit it with --set engine.name=simulate, which gives the same bits."
        )
    from sordino.engine.flower.local import LocalFederation

    files = {f"node-{client + 1}": scratch / f"node-{client + 1}.npz" for client in range(ground.clients)}
    for file in files.values():
        file.touch()
    local = LocalFederation.new(Path(str(ground.experiment.engine.federation)), files, rehearsal=True)
    for name in files:
        write_whole(local.provision.kit(name) / "limits.toml", allowing(ground).encode())
    with local:
        yield CanaryNodes(local=local)


def allowing(ground: Ground) -> str:
    """The limits of a node with nothing to lose: any plan, and the audit's own parts."""
    parts: Any = list(named_parts(ground.experiment.model_dump(mode="json")))
    return f"central = true\noutside_parts = {to_json(parts)}\n"
