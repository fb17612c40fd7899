"""Dtypes are promoted, and memory formats kept and taken, as PyTorch does."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import adjoint as ad  # noqa: E402
from tests.oracle.bridge import DTYPES  # noqa: E402

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


def answer(call: Any) -> Any:
    try:
        return call()
    except (RuntimeError, TypeError, ValueError):
        return "refused"


@pytest.mark.parametrize(("a", "b"), [*itertools.product((*DTYPES, "complex32"), repeat=2)])
def test_pairs_are_promoted_as_in_pytorch(a: str, b: str) -> None:
    ours = answer(lambda: ad.promote_types(getattr(ad, a), getattr(ad, b)).name)
    theirs = answer(lambda: str(torch.promote_types(getattr(torch, a), getattr(torch, b)))[6:])
    if (
        theirs == "refused"
    ):  # of wide unsigned integers we promote more: tests/operators/test_unsigned.py
        assert ours == "refused" or not {"uint16", "uint32", "uint64"}.isdisjoint((a, b))
    else:
        assert ours == theirs


def images(lib: Any, order: str) -> Any:
    x = lib.zeros(2, 3, 4, 5)
    orders = {
        "contiguous": x,
        "channels last": x.contiguous(memory_format=lib.channels_last),
        "permuted": lib.zeros(5, 4, 3, 2).permute(3, 1, 0, 2),
        "volumes": lib.zeros(2, 3, 4, 5, 6).contiguous(memory_format=lib.channels_last_3d),
    }
    return orders[order]


KEEPING: dict[str, Any] = {
    "sin": lambda lib, x: x.sin(),
    "number": lambda lib, x: 2 * x + 1,
    "square": lambda lib, x: x * x,
    "compare": lambda lib, x: x > 0,
    "cast": lambda lib, x: x.double(),
    "clone": lambda lib, x: x.clone(),
    "zeros": lambda lib, x: lib.zeros_like(x),
    "randn": lambda lib, x: lib.randn_like(x),
    "silu": lambda lib, x: lib.nn.functional.silu(x),
    "channel": lambda lib, x: x + lib.ones(1, x.shape[1], *(1,) * (x.ndim - 2)),
}
TAKING: dict[str, Any] = {
    "clone": lambda lib, x, m: x.clone(memory_format=m),
    "cast": lambda lib, x, m: x.to(lib.float64, memory_format=m),
    "contiguous": lambda lib, x, m: x.contiguous(memory_format=m),
    "empty_like": lambda lib, x, m: lib.empty_like(x, memory_format=m),
    "rand_like": lambda lib, x, m: lib.rand_like(x, memory_format=m),
    "randint_like": lambda lib, x, m: lib.randint_like(x, 5, memory_format=m),
    "ones_like": lambda lib, x, m: lib.ones_like(x, memory_format=m),
    "empty": lambda lib, x, m: lib.empty(x.shape, memory_format=m),
    "resize": lambda lib, x, m: lib.ones(3).resize_(x.shape, memory_format=m),
    "resize_as": lambda lib, x, m: lib.ones(3).resize_as_(x, memory_format=m),
}
ORDERS = ("contiguous", "channels last", "permuted", "volumes")


@pytest.mark.parametrize(("name", "order"), [*itertools.product(KEEPING, ORDERS)])
def test_operators_keep_the_order_that_pytorch_keeps(name: str, order: str) -> None:
    found = [tuple(KEEPING[name](lib, images(lib, order)).stride()) for lib in (ad, torch)]
    assert found[0] == found[1]


@pytest.mark.parametrize(("name", "order", "form"), [*itertools.product(TAKING, ORDERS, FORMATS)])
def test_formats_are_taken_and_refused_as_in_pytorch(name: str, order: str, form: str) -> None:
    def strides(lib: Any) -> Any:
        result = TAKING[name](lib, images(lib, order), getattr(lib, form))
        return tuple(result.stride()), result.is_contiguous(memory_format=getattr(lib, form))

    assert answer(lambda: strides(ad)) == answer(lambda: strides(torch))
