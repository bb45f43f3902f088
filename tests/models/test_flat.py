"""The flat space is a faithful image of the parameters it names."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sordino.core import SordinoError
from sordino.models import FlatSpace, build


def net() -> nn.Module:
    return build("cnn", shape=(1, 8, 8), classes=3, seed=1)


@given(chosen=st.sets(st.integers(0, 5)), seed=st.integers(0, 100))
def test_what_is_written_is_read_and_nothing_else_changes(chosen: set[int], seed: int) -> None:
    model = build("mlp", shape=(4,), classes=3, hidden=[5, 2], seed=seed)
    everything = [name for name, _ in model.named_parameters()]
    names = [name for place, name in enumerate(everything) if place in chosen]
    space = FlatSpace(model, names)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    flat = torch.randn(space.size)
    space.write(model, flat)
    assert torch.equal(space.read(model), flat)
    for name in set(everything) - set(names):
        assert torch.equal(model.get_parameter(name), before[name])


def test_layout_is_contiguous_and_in_the_models_order() -> None:
    model = net()
    names = [name for name, _ in model.named_parameters()]
    space = FlatSpace(model, list(reversed(names)))
    assert space.names == names
    assert space.size == sum(space.sizes) == sum(parameter.numel() for parameter in model.parameters())
    assert space.offsets == [sum(space.sizes[:place]) for place in range(len(names))]
    assert [tuple(shape) for shape in space.shapes] == [tuple(parameter.shape) for parameter in model.parameters()]


def test_by_default_it_is_what_needs_gradients() -> None:
    model = net()
    model.get_parameter("head.bias").requires_grad_(False)
    assert "head.bias" not in FlatSpace(model).names
    assert FlatSpace(model, ["head.bias"]).names == ["head.bias"]


def test_views_share_the_buffer_and_show_the_parameters() -> None:
    model = net()
    space = FlatSpace(model)
    flat = space.read(model)
    for name, view in space.views(flat).items():
        assert torch.equal(view, model.get_parameter(name))
    space.views(flat)["head.weight"].zero_()
    assert int((flat == 0).sum()) >= model.get_parameter("head.weight").numel()


def test_views_of_a_stack_are_stacks_of_views() -> None:
    model = net()
    space = FlatSpace(model)
    stack = torch.randn(4, space.size)
    rows = [space.views(row) for row in stack]
    for name, view in space.views(stack).items():
        assert view.shape == (4, *model.get_parameter(name).shape)
        assert all(torch.equal(view[k], rows[k][name]) for k in range(4))
        assert view.untyped_storage().data_ptr() == stack.untyped_storage().data_ptr()


def test_read_is_a_copy() -> None:
    model = net()
    space = FlatSpace(model, ["head.bias"])
    flat = space.read(model)
    flat.add_(1)
    assert not torch.equal(space.read(model), flat)
    assert not flat.requires_grad


def test_channels_last_has_the_same_coordinates() -> None:
    model = net()
    space = FlatSpace(model)
    flat = space.read(model)
    last = model.to(memory_format=torch.channels_last)
    assert torch.equal(space.read(last), flat)
    other = torch.randn(space.size)
    space.write(last, other)
    assert torch.equal(space.read(last), other)


def test_wrong_names_and_sizes_are_refused() -> None:
    model = net()
    with pytest.raises(SordinoError, match=r"did you mean 'head\.weight'"):
        FlatSpace(model, ["head.wieght"])
    space = FlatSpace(model)
    with pytest.raises(ValueError, match="flat buffer"):
        space.write(model, torch.zeros(space.size + 1))
    with pytest.raises(ValueError, match="last dimension"):
        space.views(torch.zeros(2, 3))


def test_an_empty_space_is_allowed() -> None:
    model = net()
    space = FlatSpace(model, [])
    assert space.size == 0
    assert space.read(model).shape == (0,)
    space.write(model, torch.empty(0))
