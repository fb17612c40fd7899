"""Shared by kernels of special functions: precision in and out, exact pieces, quadrature.

Kernels compute in float64 whatever the dtype (SciPy's float32 loops apart), and round once at the
end. SciPy is imported inside the functions that need it: importing adjoint stays light.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.errors import DtypeError, ValueRangeError
from adjoint.core.lazy import Lazy
from adjoint.core.promotion import NUMBERS, element
from adjoint.kernels import from_c

special = Lazy("scipy.special")

Array = np.ndarray[Any, np.dtype[Any]]

BLOCK = 8192  # elements
SPLITTER = 134217729.0  # 2**27 + 1: Dekker's splitting of a float64 into two halves


def require_real(what: str, dtype: np.dtype[Any]) -> None:
    if dtype.kind == "c":
        raise DtypeError(
            f"{what}: got a {dtypes.of(dtype)} tensor; this one is defined here for real "
            "arguments, so pass the real part."
        )


MOST_DERIVATIVES = 100


def check_orders(what: str, *orders: int) -> None:
    """Raise unless these count derivatives: none is negative or beyond all use."""
    for order in orders:
        if not 0 <= order <= MOST_DERIVATIVES:
            raise ValueRangeError(
                f"{what}: an order of {order}; it must be between 0 and {MOST_DERIVATIVES}."
            )


def in_double(compute: Callable[..., Any], *operands: Any) -> Array:
    """Return `compute(*operands)` with the arrays in float64, rounded to their dtype at the end.

    `compute` works element by element, on vectors. It gets a block at a time, so that intermediate
    values stay in the cache.
    """
    arrays = [x for x in operands if isinstance(x, np.ndarray)]
    dtype = arrays[0].dtype
    require_real("special functions", dtype)
    operands = tuple(as_operand(x, dtype) for x in operands)
    shape = arrays[0].shape if len(arrays) == 1 else np.broadcast_shapes(*(x.shape for x in arrays))
    flat = [np.broadcast_to(x, shape).reshape(-1) if hasattr(x, "shape") else x for x in operands]
    result = np.empty(math.prod(shape), dtype)
    for start in range(0, result.size, BLOCK):
        part = slice(start, start + BLOCK)
        wide = [x[part].astype(np.float64) if hasattr(x, "shape") else x for x in flat]
        result[part] = compute(*wide)
    return result.reshape(shape)


def as_operand(x: Any, dtype: np.dtype[Any]) -> Any:
    """An array unchanged; a number rounded to the dtype of the arrays, as a 0-d tensor would be:
    code that computes in float64 would otherwise use all of its digits.
    """
    return x if isinstance(x, np.ndarray) else element(x, dtypes.of(dtype))


def from_text(name: str, *operands: Any) -> Array:
    """Return C's function of that name (`expressions/special/*.c`), by its Python text; operands
    are arrays and numbers for its real arguments and whole numbers for the others.
    """

    def compute(*given: Any) -> Array:
        reals = iter(given)
        return from_c.computed(name, *(x if type(x) is int else next(reals) for x in operands))

    return in_double(compute, *(x for x in operands if type(x) is not int))


def ufunc(name: str, *operands: Any, part: int = 0) -> Array:
    """Return SciPy's function of that name; float16 and bfloat16 go through float32."""
    arrays = [x for x in operands if isinstance(x, np.ndarray)]
    dtype = arrays[0].dtype
    require_real(name, dtype)
    operands = tuple(
        dtype.type(as_operand(x, dtype)) if type(x) in NUMBERS else x for x in operands
    )
    if dtype in dtypes.REDUCED:
        operands = tuple(x.astype(np.float32) if hasattr(x, "astype") else x for x in operands)
    function = getattr(special, name, None)
    # the name may come from a row from outside: SciPy's tests are no special function
    if not isinstance(function, (np.ufunc, FunctionType)) or name not in special.__all__:
        raise ValueRangeError(f"SciPy has no special function {name!r}")
    found = function(*operands)
    if not isinstance(found, tuple):
        found = (found,)
    if not 0 <= part < len(found):
        raise ValueRangeError(f"SciPy's {name} has {len(found)} results, there is none at {part}")
    return np.asarray(found[part]).astype(dtype, copy=False)


def piecewise(
    x: Array, low: Callable[[Array], Array], high: Callable[[Array], Array], at: float
) -> Array:
    """Return low(x) where x < at (or x is NaN), high(x) elsewhere; each sees its own elements."""
    return branches(x, x >= at, high, low)


def branches(
    x: Array, where: Array, then: Callable[[Array], Array], otherwise: Callable[[Array], Array]
) -> Array:
    """Return then(x) where the mask is true, otherwise(x) elsewhere; each sees its own elements."""
    chosen = np.flatnonzero(where)  # indices: masks that change at random are slow to follow
    if chosen.size == 0:
        return otherwise(x)
    if chosen.size == x.size:
        return then(x)
    result = np.empty_like(x)
    result[chosen] = then(x[chosen])
    others = np.flatnonzero(~where)
    result[others] = otherwise(x[others])
    return result


def horner(x: Array, coefficients: Sequence[float]) -> Array:
    """Σ cₖ xᵏ."""
    total = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total *= x
        total += c
    return total


def exact_product(x: Array, y: Array | np.floating[Any]) -> tuple[Array, Array]:
    """The product and its rounding error (Dekker)."""
    product = x * y
    (x_high, x_low), (y_high, y_low) = halves(x), halves(y)
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return product, error


def halves(x: Array | np.floating[Any]) -> tuple[Array, Array]:
    big: Array = np.asarray(SPLITTER * x)
    high: Array = big - (big - x)
    return high, x - high


def exp_of_square(x: Array, factor: float, shift: Any = 0.0) -> Array:
    """exp(factor · x² + shift) for a power of two `factor`, the square to twice the precision.

    Rounding x² alone would cost x² ulp: 700 of them before the result underflows.
    """
    square, rest = exact_product(x, x)
    rest = np.where(np.isfinite(rest), rest, 0)
    return np.exp(factor * square + shift) * (1 + factor * rest)
