"""Every registered partitioner gives every example to exactly one client, and the same generator the same split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.core import SordinoError
from sordino.data.matching import matching_test
from sordino.data.partition import PARTITIONERS, Partition

NAMES = [member.name for member in PARTITIONERS]
CLASSES = 10
LABELS = np.random.default_rng(0).integers(0, CLASSES, 2000)


def split(name: str, clients: int, *, labels: np.ndarray = LABELS, seed: int = 0, **options: Any) -> Partition:
    column = np.arange(len(labels)) % clients
    return PARTITIONERS[name](**options).split(labels, column, clients=clients, rng=np.random.default_rng(seed))


def label_sets(partition: Partition, labels: np.ndarray = LABELS) -> list[set[int]]:
    return [set(labels[partition.of(client)].tolist()) for client in range(partition.clients)]


def test_all_are_registered() -> None:
    assert NAMES == ["classes", "column", "dirichlet", "groups", "iid", "quantity", "shards"]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_every_example_goes_to_exactly_one_client(name: str, data: st.DataObject) -> None:
    clients = 3 * data.draw(st.integers(2, 8))
    counts = data.draw(st.lists(st.integers(120, 300), min_size=CLASSES, max_size=CLASSES))
    seed = data.draw(st.integers(0, 2**32 - 1))
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(CLASSES), counts))
    partition = split(name, clients, labels=labels, seed=seed)
    assert partition.clients == clients
    assert sorted(partition.indices.tolist()) == list(range(len(labels)))
    assert partition.offsets[0] == 0 and partition.offsets[-1] == len(labels)
    assert partition.sizes.min() >= 1
    assert np.concatenate([partition.of(client) for client in range(clients)]).tolist() == partition.indices.tolist()
    again = split(name, clients, labels=labels, seed=seed)
    assert np.array_equal(partition.indices, again.indices) and np.array_equal(partition.offsets, again.offsets)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "column"])
def test_another_generator_gives_another_split(name: str) -> None:
    assert not np.array_equal(split(name, 6, seed=1).indices, split(name, 6, seed=2).indices)


@pytest.mark.parametrize("name", NAMES)
def test_more_clients_than_examples_are_refused(name: str) -> None:
    with pytest.raises(SordinoError, match="12 clients cannot each hold"):
        split(name, 12, labels=LABELS[:11])


@pytest.mark.parametrize("name", NAMES)
def test_no_clients_are_refused(name: str) -> None:
    with pytest.raises(SordinoError, match="at least one client"):
        PARTITIONERS[name]().split(LABELS, LABELS, clients=0, rng=np.random.default_rng(0))


def test_iid_shares_are_equal() -> None:
    sizes = split("iid", 7).sizes
    assert sizes.max() - sizes.min() <= 1


@given(alpha=st.floats(1e-3, 1e3), clients=st.integers(1, 200), least=st.integers(1, 10), seed=st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_dirichlet_fills_up_every_client(alpha: float, clients: int, least: int, seed: int) -> None:
    partition = split("dirichlet", clients, seed=seed, alpha=alpha, min_examples=least)
    assert partition.sizes.min() >= least
    assert sorted(partition.indices.tolist()) == list(range(len(LABELS)))


def test_dirichlet_repair_takes_only_from_those_with_most() -> None:
    partition = split("dirichlet", 200, alpha=0.01, min_examples=10)
    assert (partition.sizes == 10).all()


def test_dirichlet_alpha_rules_the_skew() -> None:
    def mean_largest_share(alpha: float) -> float:
        partition = split("dirichlet", 20, alpha=alpha)
        shares = [np.bincount(LABELS[partition.of(c)]).max() / partition.sizes[c] for c in range(20)]
        return float(np.mean(shares))

    assert mean_largest_share(1000.0) < mean_largest_share(1.0) < mean_largest_share(0.05)


@given(clients=st.integers(1, 60), each=st.integers(1, CLASSES), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_classes_holds_exactly_so_many(clients: int, each: int, seed: int) -> None:
    if clients * each < CLASSES:
        with pytest.raises(SordinoError, match="classes_per_client must lie between"):
            split("classes", clients, seed=seed, classes_per_client=each)
        return
    partition = split("classes", clients, seed=seed, classes_per_client=each)
    assert {len(labels) for labels in label_sets(partition)} == {each}
    holders = np.bincount([label for labels in label_sets(partition) for label in labels], minlength=CLASSES)
    assert holders.max() - holders.min() <= 1


def test_more_classes_per_client_than_there_are() -> None:
    with pytest.raises(SordinoError, match="between 1 and 10"):
        split("classes", 20, classes_per_client=11)


def test_quantity_follows_the_ratios() -> None:
    sizes = split("quantity", 3, labels=np.zeros(5500, int), ratios=(45, 9, 1)).sizes
    assert sizes.tolist() == [4500, 900, 100]
    assert split("quantity", 6, labels=np.zeros(1100, int), ratios=(45, 9, 1)).sizes.tolist() == [450, 90, 10] * 2


def test_ratios_of_wrong_length() -> None:
    with pytest.raises(SordinoError, match="3 ratios cannot be repeated over 4 clients"):
        split("quantity", 4)
    with pytest.raises(SordinoError, match="above zero"):
        split("quantity", 2, ratios=(1.0, 0.0))


def test_empty_client_is_refused() -> None:
    with pytest.raises(SordinoError, match="1 of 3 clients would hold no examples, the first being client 2"):
        split("quantity", 3, labels=np.zeros(20, int), ratios=(100, 100, 1))


def test_groups_are_disjoint() -> None:
    sets = label_sets(split("groups", 3))
    assert sets == [{0, 1, 2}, {3, 4, 5}, {6, 7, 8, 9}]
    sets = label_sets(split("groups", 4, groups=((0, 9), (1, 2, 3, 4, 5, 6, 7, 8))))
    assert sets == [{0, 9}, set(range(1, 9))] * 2


def test_groups_that_do_not_fit() -> None:
    with pytest.raises(SordinoError, match="Class 6 is in none of the groups"):
        split("groups", 3, groups=(3, 3))
    with pytest.raises(SordinoError, match="3 groups need at least as many clients"):
        split("groups", 2)
    with pytest.raises(SordinoError, match="without a class in common"):
        split("groups", 2, groups=((0, 1), (1, 2)))


def test_shards_hold_few_labels() -> None:
    labels = np.repeat(np.arange(10), 100)
    partition = split("shards", 25, labels=labels, shards_per_client=2)
    assert (partition.sizes == 40).all()
    assert max(map(len, label_sets(partition, labels))) <= 2


def test_column_is_followed() -> None:
    people = np.array(["ann", "bob", "ann", "cyd", "bob", "ann"])
    partition = PARTITIONERS["column"]().split(np.zeros(6, int), people, clients=3, rng=np.random.default_rng(0))
    assert [partition.of(client).tolist() for client in range(3)] == [[0, 2, 5], [1, 4], [3]]


def test_merged_columns_stay_whole() -> None:
    people = np.arange(2000) % 90
    partition = PARTITIONERS["column"](merge=True).split(LABELS, people, clients=20, rng=np.random.default_rng(0))
    owner = np.empty(2000, int)
    owner[partition.indices] = partition.owners()
    assert all(len(set(owner[people == person])) == 1 for person in range(90))


@pytest.mark.parametrize(("clients", "advice"), [(4, "set clients to 3"), (2, "set clients to 3 or merge to true")])
def test_column_with_another_number_of_clients(clients: int, advice: str) -> None:
    with pytest.raises(SordinoError, match=advice):
        PARTITIONERS["column"]().split(LABELS, np.arange(2000) % 3, clients=clients, rng=np.random.default_rng(0))


def test_column_without_a_column() -> None:
    with pytest.raises(SordinoError, match="set client_column"):
        PARTITIONERS["column"]().split(LABELS, None, clients=2, rng=np.random.default_rng(0))


def test_a_hundred_thousand_clients_take_two_flat_arrays() -> None:
    labels = np.arange(200_000) % 10
    for name in ("iid", "dirichlet", "shards", "column"):
        partition = split(name, 100_000, labels=labels)
        assert partition.indices.nbytes + partition.offsets.nbytes == 8 * (200_000 + 100_001)
        assert partition.sizes.min() >= 1


def test_of_refuses_a_client_that_is_not_there() -> None:
    with pytest.raises(IndexError):
        split("iid", 5).of(-1)


@given(seed=st.integers(0, 9999), clients=st.integers(1, 20), per_client=st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_matching_test_has_the_clients_label_mix(seed: int, clients: int, per_client: int) -> None:
    rng = np.random.default_rng(seed)
    test_labels = rng.permutation(np.repeat(np.arange(CLASSES), 50))
    partition = split("dirichlet", clients, seed=seed, alpha=0.3)
    matched = matching_test(partition, LABELS, test_labels, rng, per_client)
    assert matched.clients == clients
    for client in range(clients):
        mix = np.bincount(LABELS[partition.of(client)], minlength=CLASSES) / partition.sizes[client]
        rows = matched.of(client)
        assert len(set(rows.tolist())) == len(rows) == per_client
        assert np.abs(np.bincount(test_labels[rows], minlength=CLASSES) - mix * per_client).max() < 1 + 1e-9


def test_matching_test_reaches_the_whole_pool() -> None:
    test_labels = np.repeat(np.arange(CLASSES), 20)
    matched = matching_test(split("iid", 100), LABELS, test_labels, np.random.default_rng(0), 50)
    assert len(set(matched.indices.tolist())) == len(test_labels)


def test_matching_test_needs_every_label() -> None:
    with pytest.raises(SordinoError, match="hold class 9 but the test split has none"):
        matching_test(split("iid", 4), LABELS, np.arange(9), np.random.default_rng(0), 50)
