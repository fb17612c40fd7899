"""Ranges whose ends are tensors, in terms of ranges from 0 to 1 and arithmetic."""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.dtypes import FLOAT
from adjoint.core.errors import ShapeError


def linspace(start: Any, end: Any, steps: int, dtype: Any, *_: Any) -> Any:
    """start·(1 - w) + end·w for w from 0 to 1: exact at both ends, linear in both."""
    result = _result_dtype(start, end, dtype)
    if result.category < FLOAT:  # nothing to differentiate
        return ops.linspace(_number(start), _number(end), steps, dtype=result)
    return _even("linspace", start, end, steps).to(result)


def logspace(start: Any, end: Any, steps: int, base: float, dtype: Any, *_: Any) -> Any:
    """base ** linspace(start, end)."""
    result = _result_dtype(start, end, dtype)
    if result.category < FLOAT:
        return ops.logspace(_number(start), _number(end), steps, base, dtype=result)
    return ops.pow(base, _even("logspace", start, end, steps)).to(result)


def _even(what: str, start: Any, end: Any, steps: int) -> Any:
    for name, value in (("start", start), ("end", end)):
        if getattr(value, "ndim", 0):
            raise ShapeError(
                f"{what}: start and end must be numbers or 0-d tensors, got {name} with "
                f"{value.ndim} dimensions."
            )
    weight = ops.linspace(0, 1, steps, dtype=dtypes.float64)
    return start * (1 - weight) + end * weight


def _number(value: Any) -> Any:
    return value.item() if hasattr(value, "dtype") else value


def _result_dtype(start: Any, end: Any, dtype: Any) -> Any:
    if dtype is not None:
        return dtype
    if any(_is_complex(v) for v in (start, end)):
        return dtypes.DEFAULT.complex_dtype
    return dtypes.DEFAULT.dtype


def _is_complex(value: Any) -> bool:
    return value.dtype.is_complex if hasattr(value, "dtype") else isinstance(value, complex)


def full_like(self: Any, fill_value: Any, dtype: Any, *_: Any) -> Any:
    """A new tensor of the same shape."""
    return ops.full(self.shape, fill_value, dtype=self.dtype if dtype is None else dtype)


def eye(n: int, dtype: Any, *_: Any) -> Any:
    """The square identity."""
    return eye_m(n, n, dtype)


def eye_m(n: int, m: int, dtype: Any, *_: Any) -> Any:
    """1 where row and column have the same number, 0 elsewhere."""
    same = ops.arange(n).unsqueeze(1) == ops.arange(m)
    return same.to(dtypes.DEFAULT.dtype if dtype is None else dtype)


def hann_window(length: int, dtype: Any, *_: Any) -> Any:
    """A periodic window."""
    return hann_window_periodic(length, True, dtype)


def hann_window_periodic(length: int, periodic: bool, dtype: Any, *_: Any) -> Any:
    """½ - ½ cos(2πk / n), n being one less where the last is to equal the first."""
    if length < 2:
        return ops.ones((length,), dtype=dtype)
    turn = 2 * math.pi / (length if periodic else length - 1)
    wave = 0.5 - 0.5 * (ops.arange(length, dtype=dtypes.float64) * turn).cos()
    return wave.to(dtypes.DEFAULT.dtype if dtype is None else dtype)
