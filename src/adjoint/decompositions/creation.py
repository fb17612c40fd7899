"""Ranges whose ends are tensors, in terms of ranges from 0 to 1 and arithmetic."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.errors import ShapeError


def linspace(start: Any, end: Any, steps: int, dtype: Any, *_: Any) -> Any:
    """start·(1 - w) + end·w for w from 0 to 1: exact at both ends, linear in both."""
    return _even("linspace", start, end, steps).to(_result_dtype(start, end, dtype))


def logspace(start: Any, end: Any, steps: int, base: float, dtype: Any, *_: Any) -> Any:
    """base ** linspace(start, end)."""
    exponents = _even("logspace", start, end, steps)
    return ops.pow(base, exponents).to(_result_dtype(start, end, dtype))


def _even(what: str, start: Any, end: Any, steps: int) -> Any:
    for name, value in (("start", start), ("end", end)):
        if getattr(value, "ndim", 0):
            raise ShapeError(
                f"{what}: start and end must be numbers or 0-d tensors, got {name} with "
                f"{value.ndim} dimensions."
            )
    weight = ops.linspace(0, 1, steps, dtype=dtypes.float64)
    return start * (1 - weight) + end * weight


def _result_dtype(start: Any, end: Any, dtype: Any) -> Any:
    if dtype is not None:
        return dtype
    if any(_is_complex(v) for v in (start, end)):
        return dtypes.DEFAULT.complex_dtype
    return dtypes.DEFAULT.dtype


def _is_complex(value: Any) -> bool:
    return value.dtype.is_complex if hasattr(value, "dtype") else isinstance(value, complex)
