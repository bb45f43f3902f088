"""The perturbation itself, against what it must be on paper."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from sordino.pretrain.perturbation import Ball, in_chunks, perturbed


@pytest.mark.parametrize(("radius", "rate"), [(0.3, 1.0), (50.0, 0.7), (0.0, 1.0)])
def test_a_linear_models_perturbation_is_the_analytic_one(radius, rate):
    """Cross-entropy of logits Wx has gradient (softmax(Wx) - y)xᵀ, averaged over the batch."""
    torch.manual_seed(0)
    inputs, labels = torch.randn(20, 6), torch.randint(4, (20,))
    weight = torch.randn(4, 6, requires_grad=True)
    found = torch.autograd.grad(cross_entropy(inputs @ weight.T, labels), [weight])
    step = Ball(radius=radius, rate=rate).perturbation(found)[0]
    errors = torch.softmax(inputs @ weight.detach().T, 1) - torch.eye(4)[labels]
    expected = rate * errors.T @ inputs / 20
    expected = expected * min(1.0, radius / float(expected.norm()))
    assert torch.allclose(step, expected, atol=1e-6)
    assert float(step.norm()) <= radius * (1 + 1e-6) or radius > float(expected.norm())


def test_the_perturbation_is_removed_to_the_last_bit_even_after_an_error():
    parameter = torch.randn(1000)
    before = parameter.clone()
    with pytest.raises(ValueError, match="x"), perturbed([parameter], [torch.randn(1000) * 1e3]):
        assert not torch.equal(parameter, before)
        raise ValueError("x")
    assert torch.equal(parameter, before)


@settings(deadline=None, max_examples=30)
@given(chunk=st.integers(1, 60), rows=st.integers(1, 50))
def test_chunks_give_the_gradient_of_the_whole(chunk, rows):
    inputs, labels = torch.randn(50, 5, dtype=torch.float64), torch.randint(3, (50,))
    weight = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)

    def gradient(at):
        return list(torch.autograd.grad(cross_entropy(inputs[at] @ weight.T, labels[at]), [weight]))

    chosen = torch.randperm(50)[:rows]
    assert torch.allclose(in_chunks(gradient, chosen, chunk)[0], gradient(chosen)[0], atol=1e-12)
