"""Elementwise operators made of others, where an expression in the row is not enough."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core import dtypes


def float_power(self: Any, exponent: Any) -> Any:
    """self ** exponent in float64, or complex128 if one of them is complex."""
    is_complex = any(
        isinstance(x, complex) or (hasattr(x, "is_complex") and x.is_complex())
        for x in (self, exponent)
    )
    dtype = dtypes.complex128 if is_complex else dtypes.float64
    base, power = (x.to(dtype) if hasattr(x, "to") else x for x in (self, exponent))
    return ops.pow(base, power)
