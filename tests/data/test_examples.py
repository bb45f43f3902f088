from __future__ import annotations

import pytest
import torch

from sordino.core import SordinoError
from sordino.data.examples import IDENTITY, Examples, Normalisation


def images() -> Examples:
    inputs = torch.arange(4 * 3 * 2 * 2, dtype=torch.uint8).view(4, 3, 2, 2)
    return Examples(inputs=inputs, labels=torch.tensor([0, 1, 2, 0]), normalisation=Normalisation())


def test_images_are_mapped_to_minus_one_to_one() -> None:
    inputs = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1)
    examples = Examples(inputs=inputs, labels=torch.tensor([0, 1]), normalisation=Normalisation())
    torch.testing.assert_close(examples.features("cpu").flatten(), torch.tensor([-1.0, 1.0]))


def test_each_channel_has_its_own_constants() -> None:
    normalisation = Normalisation(scale=1 / 255, mean=(0.1, 0.2, 0.3), std=(1.0, 2.0, 4.0))
    examples = Examples(inputs=images().inputs, labels=images().labels, normalisation=normalisation)
    mean = torch.tensor(normalisation.mean).view(1, 3, 1, 1)
    std = torch.tensor(normalisation.std).view(1, 3, 1, 1)
    torch.testing.assert_close(examples.features("cpu"), (images().inputs.float() / 255 - mean) / std)


def test_features_leave_the_raw_rows_alone() -> None:
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    normalisation = Normalisation(scale=10.0, mean=(1.0, 2.0), std=(1.0,))
    examples = Examples(inputs=rows, labels=torch.tensor([0, 1]), normalisation=normalisation)
    torch.testing.assert_close(examples.features("cpu"), torch.tensor([[9.0, 18.0], [29.0, 38.0]]))
    assert examples.inputs.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_tokens_are_not_normalised() -> None:
    tokens = torch.tensor([[5, 0], [7, 3]])
    examples = Examples(inputs=tokens, labels=torch.tensor([0, 1]), normalisation=IDENTITY)
    assert examples.features("cpu").equal(tokens)


def test_take_keeps_the_order_asked_for_and_may_be_empty() -> None:
    taken = images().take(torch.tensor([2, 0, 2]))
    assert taken.labels.tolist() == [2, 0, 2]
    assert taken.inputs[1].equal(images().inputs[0])
    assert len(images().take(torch.tensor([], dtype=torch.int64))) == 0


def test_inputs_without_labels_are_refused() -> None:
    with pytest.raises(SordinoError, match="4 inputs but 3 labels"):
        Examples(inputs=images().inputs, labels=torch.tensor([0, 1, 2]), normalisation=Normalisation())


def test_other_layouts_are_refused() -> None:
    with pytest.raises(SordinoError, match=r"torch\.float64"):
        Examples(inputs=torch.zeros(4, 2, dtype=torch.float64), labels=torch.zeros(4).long(), normalisation=IDENTITY)


def test_constants_that_fit_no_channel_are_refused() -> None:
    with pytest.raises(SordinoError, match="mean lists 2 numbers"):
        Examples(inputs=images().inputs, labels=images().labels, normalisation=Normalisation(mean=(0.1, 0.2)))
