"""What translated functions call where they compute one element: C's functions on Python's numbers.

Where C goes on with an infinity or with no number, Python raises; then the element is computed as a
vector of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from adjoint.kernels.from_c import lanes

REFUSED = (ArithmeticError, ValueError)  # errors that Python raises where C does not


def rest_of_product(x: float, y: float, product: float) -> float:
    """x y less the product as it was rounded (Dekker)."""
    (x_high, x_low), (y_high, y_low) = lanes.halves(x), lanes.halves(y)
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    if not math.isfinite(error):
        raise OverflowError
    return error


def fused(x: float, y: float, z: float) -> float:
    """x y + z, rounded once but for a rare half."""
    product = x * y
    total = product + z
    part = total - product
    return total + (rest_of_product(x, y, product) + (product - (total - part)) + (z - part))


def frexp(x: float) -> tuple[float, int]:
    return math.frexp(x)


def entries(table: Any) -> Any:
    """The numbers of a table by their places: `table[2]`, or `table[2, 1]`."""
    if not isinstance(table[0], list):
        return table
    return {(i, j): number for i, row in enumerate(table) for j, number in enumerate(row)}


def single(function: Callable[..., Any]) -> Callable[..., float]:
    """A function of vectors as one of numbers."""
    wide = lanes.np.array
    return lambda *given: float(
        function(*(wide([x]) if isinstance(x, float) else x for x in given))[0]
    )


def _of_scipy(name: str) -> Callable[..., float]:
    function = lanes.C_FUNCTIONS[name]
    return lambda *given: float(function(*given))


C_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in (
        "exp", "log", "expm1", "log1p", "sqrt", "fabs", "sin", "cos", "tan", "fmod", "copysign",
        "ldexp", "frexp", "pow",
    )},
    "floor": lambda x: float(math.floor(x)), "ceil": lambda x: float(math.ceil(x)),
    "trunc": lambda x: float(math.trunc(x)), "rint": lambda x: float(round(x)),
    "fma": fused, "ad_rest_of_product": rest_of_product,
    "inf": lambda: math.inf, "nan": lambda: math.nan, "jn": _of_scipy("jn"), "yn": _of_scipy("yn"),
}  # fmt: skip
