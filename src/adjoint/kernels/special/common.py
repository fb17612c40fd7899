"""What the kernels of special functions share: precision in and out, exact pieces, quadrature.

Kernels compute in float64 whatever the dtype (SciPy's float32 loops apart), and round once at the
end. SciPy is imported inside the functions that need it: importing adjoint stays light.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.errors import DtypeError

Array = np.ndarray[Any, np.dtype[Any]]

SPLITTER = 134217729.0  # 2**27 + 1: Dekker's splitting of a float64 into two halves


def in_double(compute: Callable[..., Any], *operands: Any) -> Array:
    """Return `compute(*operands)` with the arrays in float64, rounded to their dtype at the end."""
    arrays = [x for x in operands if isinstance(x, np.ndarray)]
    dtype = arrays[0].dtype
    if dtype.kind == "c":
        raise DtypeError(
            f"special functions: got a {dtypes.of(dtype)} tensor; this one is defined here for "
            "real arguments, so pass the real part."
        )
    wide = [x.astype(np.float64) if isinstance(x, np.ndarray) else x for x in operands]
    return np.asarray(compute(*wide)).astype(dtype)


def ufunc(name: str, *operands: Any) -> Array:
    """Return SciPy's function of that name; float16 and bfloat16 go through float32."""
    from scipy import special

    arrays = [x for x in operands if isinstance(x, np.ndarray)]
    dtype = arrays[0].dtype
    if dtype.kind == "c":
        raise DtypeError(
            f"{name}: got a {dtypes.of(dtype)} tensor; it is defined here for real arguments, so "
            "pass the real part."
        )
    if dtype in dtypes.REDUCED:
        operands = tuple(x.astype(np.float32) if hasattr(x, "astype") else x for x in operands)
    return np.asarray(getattr(special, name)(*operands)).astype(dtype, copy=False)


def piecewise(
    x: Array, low: Callable[[Array], Array], high: Callable[[Array], Array], at: float
) -> Array:
    """Return low(x) where x < at (or x is NaN), high(x) elsewhere; each sees its own elements."""
    result = np.empty_like(x)
    above = x >= at
    result[above] = high(x[above])
    result[~above] = low(x[~above])
    return result


def exp_of_square(x: Array, factor: float) -> Array:
    """exp(factor · x²) for a power of two `factor`, the square to twice the precision.

    Rounding x² alone would cost x² ulp: 700 of them before the result underflows.
    """
    square = x * x
    big = SPLITTER * x
    head = big - (big - x)
    tail = x - head
    rest = ((head * head - square) + 2 * head * tail) + tail * tail
    rest = np.where(np.isfinite(rest), rest, 0)
    return np.exp(factor * square) * (1 + factor * rest)
