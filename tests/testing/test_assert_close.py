"""assert_close says whether values agree, and where they do not; make_tensor makes values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.testing import assert_close, make_tensor

nan, inf = math.nan, math.inf


@pytest.mark.parametrize(
    ("dtype", "near", "far"),
    [
        ("float16", 1.0005, 1.01),
        ("bfloat16", 1.0, 1.05),
        ("float32", 1.000001, 1.0001),
        ("float64", 1.0 + 1e-7, 1.0 + 1e-6),
        ("complex64", 1.000001 + 1e-6j, 1.0001),
        ("complex128", 1.0 + 1e-7j, 1.0 + 1e-6j),
        ("int64", 1, 2),
        ("uint64", 1, 2),
        ("bool", True, False),
    ],
)
def test_each_dtype_has_its_tolerance(dtype: str, near: Any, far: Any) -> None:
    kind = getattr(ad, dtype)
    one = ad.ones(2, dtype=kind)
    assert_close(ad.tensor([near, 1]).to(kind), one)
    with pytest.raises(AssertionError, match=r"1 of 2 elements differ \(50\.0 %\)"):
        assert_close(ad.tensor([far, 1]).to(kind), one)


def test_the_message_says_where_the_largest_difference_is() -> None:
    a, e = ad.zeros(2, 3), ad.zeros(2, 3)
    e[0, 1], e[1, 2] = 0.5, -4.0
    with pytest.raises(AssertionError) as caught:
        assert_close({"x": [1, a]}, {"x": [1, e]})
    text = str(caught.value)
    assert "2 of 6" in text
    assert "absolute difference: 4 at (1, 2)" in text
    assert "0.0 and not -4.0" in text
    assert text.endswith("in ['x'][1]")


def test_whole_numbers_do_not_wrap_around() -> None:
    low, high = ad.tensor([-128], dtype=ad.int8), ad.tensor([127], dtype=ad.int8)
    with pytest.raises(AssertionError, match="difference: 255"):
        assert_close(low, high, rtol=0, atol=1)
    big = ad.tensor([2**63], dtype=ad.uint64)
    with pytest.raises(AssertionError):
        assert_close(big, big + 1)


@pytest.mark.parametrize(
    ("a", "e", "options"),
    [
        ([nan], [nan], {}),
        ([nan], [1.0], {"equal_nan": True}),
        ([inf], [-inf], {}),
        ([1.0], [inf], {"rtol": 1.0, "atol": 1.0}),
        ([1.0], [1.1], {"rtol": 0.01, "atol": 0.0}),
    ],
)
def test_numbers_that_do_not_agree(a: Any, e: Any, options: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        assert_close(ad.tensor(a), ad.tensor(e), **options)


def test_numbers_that_agree() -> None:
    assert_close(ad.tensor([nan, inf]), ad.tensor([nan, inf]), equal_nan=True)
    assert_close(ad.tensor([1.0]), ad.tensor([1.1]), rtol=0.2, atol=0.0)
    assert_close(1.0, 1.0 + 1e-9)
    assert_close((None, [1, {"a": 2j}]), [None, (1, {"a": 2j})])
    assert_close(np.ones(2), np.ones(2))
    assert_close(ad.zeros(0), ad.zeros(0))
    assert_close(ad.nn.Parameter(ad.ones(1)), ad.ones(1))


@pytest.mark.parametrize(
    ("a", "e", "words"),
    [
        (lambda: ad.ones(2), lambda: ad.ones(3), r"shapes differ: \(2,\) and not \(3,\)"),
        (lambda: ad.ones(2), lambda: ad.ones(2, dtype=ad.float64), "dtypes differ"),
        (lambda: ad.eye(2), lambda: ad.eye(2).to_sparse(), "layouts differ"),
        (lambda: ad.ones(2), lambda: ad.ones(2, device="meta"), "devices differ"),
        (lambda: [1], lambda: [1, 2], "lengths: 1 and not 2"),
        (lambda: {"a": 1}, lambda: {"b": 1}, r"without \['b'\], and with \['a'\]"),
        (lambda: None, lambda: 1, "None and not 1"),
        (lambda: 1, lambda: 1.0, "int and not float"),
        (lambda: 1.0, lambda: 1.5, r"differ by 0\.5"),
        (lambda: True, lambda: False, "True and not False"),
    ],
)
def test_what_differs_is_named(a: Any, e: Any, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        assert_close(a(), e())


def test_checks_can_be_left_out() -> None:
    assert_close(ad.ones(2), ad.ones(2, dtype=ad.float64), check_dtype=False)
    assert_close(ad.eye(2), ad.eye(2).to_sparse(), check_layout=False)
    assert_close(ad.ones(2), ad.ones(2, device="meta"), check_device=False)
    assert_close(1, 1.0, check_dtype=False)
    assert_close(ad.ones(2, 3), ad.ones(3, 2).t())
    with pytest.raises(AssertionError, match="strides differ"):
        assert_close(ad.ones(2, 3), ad.ones(3, 2).t(), check_stride=True)


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
def test_sparse_tensors_are_compared_part_by_part(layout: str) -> None:
    def sparse(*rows: list[float]) -> Any:
        return ad.tensor(rows).to_sparse(layout=getattr(ad, layout))

    assert_close(sparse([1.0, 0.0], [0.0, 2.0]), sparse([1.0, 0.0], [0.0, 2.0]))
    with pytest.raises(AssertionError, match="values"):
        assert_close(sparse([1.0, 0.0], [0.0, 2.0]), sparse([1.0, 0.0], [0.0, 3.0]))
    with pytest.raises(AssertionError, match="indices"):
        assert_close(sparse([1.0, 0.0], [0.0, 2.0]), sparse([0.0, 1.0], [0.0, 2.0]))
    with pytest.raises(AssertionError, match="other elements|indices"):
        assert_close(sparse([1.0, 0.0], [0.0, 0.0]), sparse([1.0, 0.0], [0.0, 2.0]))


def test_messages_of_users() -> None:
    with pytest.raises(AssertionError, match="^mine$"):
        assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match="^mine: 1 and not 2"):
        assert_close(1, 2, msg=lambda text: f"mine: {text}")


def test_what_cannot_be_compared_is_refused() -> None:
    for a, e in ((ad.ones(1), 1.0), ("a", "a"), (ad.ones(1), np.ones(1)), (object(), object())):
        with pytest.raises(TypeError, match="assert_close"):
            assert_close(a, e)
    with pytest.raises(TypeError, match="both"):
        assert_close(1, 1, rtol=1.0)
    with pytest.raises(TypeError, match="Tensor"):
        assert_close(ad.ones(1).as_subclass(Mine), ad.ones(1), allow_subclasses=False)


class Mine(ad.Tensor):
    pass


@pytest.mark.parametrize("name", ["bool", "uint8", "int32", "bfloat16", "float64", "complex64"])
def test_made_tensors_are_as_asked(name: str) -> None:
    dtype = getattr(ad, name)
    x = make_tensor(3, 4, dtype=dtype, device="cpu", noncontiguous=True, exclude_zero=True)
    assert x.shape == (3, 4)
    assert x.dtype is dtype
    assert not x.is_contiguous()
    assert bool(x.ne(0).all())
    assert make_tensor((), dtype=dtype).shape == ()
    assert make_tensor(0, dtype=dtype).numel() == 0


def test_made_tensors_lie_between_limits() -> None:
    x = make_tensor((1000,), dtype=ad.float32, low=2, high=3, requires_grad=True)
    assert x.requires_grad
    assert x.min() >= 2
    assert x.max() <= 3
    whole = make_tensor(1000, dtype=ad.int64)
    assert set(whole.tolist()) == set(range(-9, 10))
    image = make_tensor(1, 2, 3, 3, dtype=ad.float32, memory_format=ad.channels_last)
    assert image.is_contiguous(memory_format=ad.channels_last)
    with pytest.raises(ValueError, match="below"):
        make_tensor(1, dtype=ad.float32, low=3, high=3)
