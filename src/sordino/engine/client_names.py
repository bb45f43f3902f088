"""The names of an experiment's clients: values of the client column where it makes the clients, else numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sordino.data.client_names import client_names, group_names
from sordino.experiment import Experiment

if TYPE_CHECKING:
    from sordino.engine.setup import Federated


def names_of(experiment: Experiment, groups: Mapping[str, tuple[str, ...]], *, clients: int) -> tuple[str, ...]:
    """Of the clients that train, by the distinct values of client columns."""
    column = experiment.data.options.get("client_column")
    late = experiment.data.late_clients
    return client_names(experiment.data.partition, column, groups, clients=clients, late=late)


def names_in(federated: Federated, experiment: Experiment) -> tuple[str, ...]:
    """The same of data that have been dealt out."""
    groups = {column: group_names(values) for column, values in federated.source.columns.items()}
    return names_of(experiment, groups, clients=federated.partition.clients)
