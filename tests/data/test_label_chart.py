from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from sordino.data.label_chart import label_chart
from sordino.data.partition import PARTITIONERS


def drawn(name: str, clients: int, class_names: tuple[str, ...]) -> list[str]:
    labels = np.arange(3000) % len(class_names)
    partition = PARTITIONERS[name]().split(labels, None, clients=clients, rng=np.random.default_rng(0))
    console = Console(file=io.StringIO(), width=80)
    console.print(label_chart(partition, labels, class_names))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_group_of_classes_is_seen() -> None:
    lines = drawn("groups", 3, tuple("0123456789"))
    rows = [line.split() for line in lines]
    assert ["0", "900", "██████·", "·", "·", "·", "·", "·", "·", "3"] in rows
    assert ["2", "1,200", "·", "·", "·", "·", "·", "·", "████████", "4"] in rows
    assert any("non-private diagnostic" in line for line in lines)


def test_many_clients_are_summarised() -> None:
    lines = drawn("iid", 300, tuple("0123456789"))
    assert any(line.startswith("… and 280 more. 300 clients hold 3,000 examples: 10 to 10 each") for line in lines)
    assert len(lines) < 32


@pytest.mark.parametrize("classes", [2, 10, 47, 100, 1000])
def test_the_image_fits_a_terminal(classes: int) -> None:
    names = tuple(f"a rather long name {number}" for number in range(classes))
    lines = drawn("iid", 3, names)
    assert max(map(len, lines)) <= 80
    assert sum(line.strip().startswith(("0 ", "1 ", "2 ")) and " 1,000 " in line for line in lines) == 3
