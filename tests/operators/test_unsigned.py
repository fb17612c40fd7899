"""uint16, uint32, uint64: PyTorch's limits and conversions, the array API's promotion."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad

WIDE = (ad.uint16, ad.uint32, ad.uint64)
INTEGERS = (ad.bool, ad.uint8, ad.int8, ad.int16, ad.int32, ad.int64)


@pytest.mark.parametrize("dtype", WIDE)
def test_limits_and_extreme_numbers(dtype):
    largest = 2 ** (8 * dtype.itemsize) - 1
    assert (ad.iinfo(dtype).min, ad.iinfo(dtype).max) == (0, largest)
    assert not dtype.is_signed
    assert ad.tensor(largest, dtype=dtype).item() == largest
    assert ad.tensor([largest, 0], dtype=dtype).tolist() == [largest, 0]
    assert ad.tensor(-1, dtype=dtype).item() == largest
    assert ad.full((1,), -1, dtype=dtype).item() == largest
    assert ad.from_numpy(np.array([1, largest], dtype.np)).dtype is dtype
    with pytest.raises(ValueError, match="does not fit"):
        ad.tensor(largest + 1, dtype=dtype)
    with pytest.raises(ValueError, match="does not fit"):
        ad.full((2,), largest + 1, dtype=dtype)


@pytest.mark.parametrize("dtype", WIDE)
def test_promotion_with_floats_and_whole_numbers_is_pytorchs(dtype):
    x = ad.tensor([1, 2, 3], dtype=dtype)
    assert (x + 1).dtype is (x + x).dtype is (x * ad.tensor(2)).dtype is dtype
    assert ad.promote_types(dtype, ad.bfloat16) is ad.bfloat16
    assert (x * ad.ones(3, dtype=ad.float64)).dtype is ad.float64
    assert (x * 1.5).dtype is (x / x).dtype is x.sin().dtype is ad.float32
    assert x.sum().dtype is ad.int64


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("other", [*INTEGERS, *WIDE])
def test_promotion_of_integers_holds_both_ranges(dtype, other):
    x, y = ad.ones(3, dtype=dtype), ad.ones(3, dtype=other)
    if ad.uint64 in (dtype, other) and other.is_signed:
        with pytest.raises(TypeError, match=r"no common dtype.*convert"):
            x + y
    else:
        expected = np.promote_types(dtype.np, other.np)
        assert (x + y).dtype.np == (y + x).dtype.np == expected
        assert ad.promote_types(dtype, other).np == expected


@pytest.mark.parametrize("dtype", WIDE)
def test_an_unsigned_tensor_prints_and_converts(dtype):
    x = ad.tensor([1, 65535], dtype=dtype)
    assert repr(x) == f"tensor([    1, 65535], dtype=ad.{dtype.name})"
    assert x.to(ad.int64).tolist() == x.float().tolist() == [1, 65535]
    assert ad.tensor([1.9]).to(dtype).tolist() == [1]


@pytest.mark.parametrize("dtype", WIDE)
def test_unsigned_values_are_traced_and_compiled(dtype):
    x = ad.tensor([1, 2, 65535], dtype=dtype)

    def f(x):
        return (x * 2 + 1).float().sum()

    graph = ad.trace(f, x)
    assert f"u{8 * dtype.itemsize}[3]" in str(graph)
    assert graph(x).item() == f(x).item() == ad.compile(f)(x).item()


def test_an_unsigned_tensor_cannot_require_a_gradient():
    with pytest.raises(TypeError, match="uint16"):
        ad.ones(2, dtype=ad.uint16).requires_grad_()


@pytest.mark.parametrize("dtype", WIDE)
def test_unsigned_matrices_are_multiplied(dtype):
    x = ad.arange(6).reshape(2, 3).to(dtype)
    expected = [[5, 14], [14, 50]]
    assert (x @ x.mT).tolist() == ad.compile(lambda x: x @ x.mT)(x).tolist() == expected
    assert (x @ x.mT).dtype is dtype


def test_truth_values_become_unsigned():
    assert ad.tensor([True, False], dtype=ad.uint64).tolist() == [1, 0]
