"""Operators on lists of tensors."""

from __future__ import annotations

import pytest

import adjoint as ad


def test_a_tie_with_a_number_gives_half() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    (least,) = ad.ops._foreach_minimum([x], 1.0)
    least.sum().backward()
    assert x.grad.tolist() == [0.5, 0.0]


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="different lengths: 2, 1"):
        ad.ops._foreach_mul([ad.ones(1), ad.ones(1)], [ad.ones(1)])
    with pytest.raises(TypeError, match="empty"):
        ad.ops._foreach_sin([])


def test_in_place_writes_every_entry_and_returns_the_list() -> None:
    tensors = [ad.ones(2), ad.zeros(1)]
    result = ad._foreach_add_(tensors, [1.0, 2.0])
    assert all(a is b for a, b in zip(result, tensors, strict=True))
    assert [t.tolist() for t in tensors] == [[2.0, 2.0], [2.0]]
    ad._foreach_addcdiv_(tensors, [ad.ones(2), ad.ones(1)], [ad.full((2,), 4.0), ad.ones(1)], -2.0)
    assert [t.tolist() for t in tensors] == [[1.5, 1.5], [0.0]]
    ad._foreach_zero_(tensors)
    assert [t.tolist() for t in tensors] == [[0.0, 0.0], [0.0]]


def test_in_place_keeps_the_history() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = [x * 1, x + 1]
    ad._foreach_mul_(y, [x, x])
    ad._foreach_pow_(y, 2)
    (y[0] + y[1]).sum().backward()
    expected = [4 * v**3 + 2 * (v * v + v) * (2 * v + 1) for v in (1.0, 2.0)]
    assert x.grad.tolist() == expected


def test_in_place_refuses_leaves_and_narrow_dtypes() -> None:
    with pytest.raises(RuntimeError, match="leaf"):
        ad._foreach_add_([ad.ones(1, requires_grad=True)], 1.0)
    with pytest.raises(TypeError, match="cast"):
        ad._foreach_mul_([ad.tensor([1, 2])], 1.5)
