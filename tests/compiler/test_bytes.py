"""Masks and small whole numbers where vectors run along blocks of rows, or short rows:
`shaping/bytes.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.loops.loop_programs import LANE, ForLoop, Load, Local, Store

_BYTES = (ad.bool, ad.uint8, ad.int8)
ROWS = (9, 30, 64, 65, 200)


def masks(x: Any, given: Any, small: Any) -> Any:
    """Masks from memory, masks that leave, and masks that stay in the nest."""
    most = x.amax(1, keepdim=True)
    first = (x == most) | (most != most) & given
    share = first / first.sum(1, keepdim=True)
    kept = ad.where(given, x / (x.square().sum(1, keepdim=True) + 1).sqrt(), share)
    shift = (small + small.amax(1, keepdim=True)) * small  # wraps around
    return kept, first, shift, (kept * shift).sum(1), (first & given).any(1)


def arguments(rows: int, dtype: Any, kind: Any) -> list[Any]:
    draw = np.random.default_rng(rows)
    x = draw.integers(-4, 5, (rows, 5)).astype(dtype)
    x[draw.integers(rows, size=rows // 4), 1] = np.nan
    given = draw.integers(0, 2, (rows, 5)).astype(bool)
    small = draw.integers(0, 256, (rows, 5)).astype(np.uint8).view(kind)
    return [ad.tensor(a) for a in (x, given, small)]


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_masks_in_blocks_of_rows_are_those_of_eager_mode(dtype: Any, kind: Any) -> None:
    compiled = ad.compile(masks)
    for rows in ROWS:
        given = arguments(rows, dtype, kind)
        for got, want in zip(compiled(*given), masks(*given), strict=True):
            assert got.dtype is want.dtype
            rounding = 20 * np.finfo(dtype).eps
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=rounding)


def along_rows(stages: Any) -> list[ForLoop]:
    """The loops of vectors along blocks of rows."""
    found = [s for k in stages.layout.programs.values() for s in k.statements()]
    return [s for s in found if isinstance(s, ForLoop) and s.variable == LANE and s.vector]


def narrow(loop: ForLoop) -> list[Any]:
    """What a loop reads or writes that is a byte."""
    found = []
    for statement in loop.body:
        if isinstance(statement, Load) and statement.made.dtype in _BYTES:
            found.append(statement)
        if isinstance(statement, Store):
            value = statement.place.value
            size = 0 if isinstance(value, Local) else value.dtype.itemsize
            if size == 1 or (isinstance(value, Local) and value.dtype in _BYTES):
                found.append(statement)
    return found


def test_vectors_along_rows_have_no_bytes_beside_wide_numbers() -> None:
    loops = along_rows(ad.compile(masks).lower(*arguments(200, np.float64, np.uint8)))
    assert loops
    assert not [narrow(loop) for loop in loops if narrow(loop)]


def shares(x: Any) -> Any:
    """The gradient of a softmax along the middle dimension, which keeps masks for a row."""
    return ad.grad(lambda x: x.softmax(1).square().sum())(x)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(20, 40, 30), (7, 5, 16), (9, 3, 63), (2, 4, 200)])
def test_masks_of_short_rows_are_those_of_eager_mode(shape: tuple[int, ...], dtype: Any) -> None:
    x = ad.tensor(np.random.default_rng(1).normal(size=shape).astype(dtype) * 3)
    got, want = ad.compile(shares)(x).numpy(), shares(x).numpy()
    np.testing.assert_allclose(got, want, rtol=0, atol=20 * np.finfo(dtype).eps)


def test_vectors_along_a_short_kept_dimension_are_contiguous_and_wide() -> None:
    stages = ad.compile(shares).lower(ad.zeros(20, 40, 30, dtype=ad.float64))
    loops = [s for k in stages.layout.programs.values() for s in k.statements()]
    vectors = [s for s in loops if isinstance(s, ForLoop) and s.vector]
    assert vectors
    assert LANE not in {loop.variable for loop in vectors}
    assert not [narrow(loop) for loop in vectors if narrow(loop)]


def test_bytes_alone_stay_bytes() -> None:
    def parity(x: Any) -> Any:
        odd = (x[:, 0] ^ x[:, 1]).unsqueeze(1)
        return (x ^ odd).any(1), (x & odd).all(1)

    x = ad.tensor(np.random.default_rng(3).integers(0, 2, (200, 5)).astype(bool))
    compiled = ad.compile(parity)
    for got, want in zip(compiled(x), parity(x), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())
    source = compiled.lower(x).source
    assert "unsigned char" in source
    assert " w0[" not in source
