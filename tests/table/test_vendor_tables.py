"""The operators with which PyTorch tests its table: which rule runs, and warnings in backward."""

from __future__ import annotations

import pytest

import adjoint as ad


def test_the_default_rule_is_ours_though_it_is_no_derivative():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = ad.ops._test_autograd_multiple_dispatch.fullcoverage(x)
    assert y.tolist() == [1.0, 2.0]
    y.backward(ad.tensor([5.0, 6.0]))
    assert x.grad.tolist() == [6.0, 7.0]
    _, tangent = ad.jvp(ad.ops._test_autograd_multiple_dispatch.fullcoverage, (x,), (x * 3,))
    assert tangent.tolist() == [3.0, 6.0]


def test_a_backward_pass_may_warn():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = ad.ops._test_warn_in_autograd(x)
    with pytest.warns(UserWarning, match="Warn from backward"):
        y.backward(ad.tensor([5.0, 6.0]))
    assert x.grad.tolist() == [5.0, 6.0]
    assert ad.vmap(ad.ops._test_warn_in_autograd)(x).tolist() == [1.0, 2.0]
