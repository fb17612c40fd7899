"""What translated functions call: C's functions on vectors, choices among elements, tables.

A value of a translated function is a number, a vector with an element for each lane, or a list of
these for an array of C. Choices of C become choices of elements: each side sees its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core.lazy import Lazy

special = Lazy("scipy.special")

Array = np.ndarray[Any, np.dtype[Any]]
SPLITTER = 134217729.0  # 2**27 + 1: Dekker's splitting of a float64 into two halves


# -- choices --------------------------------------------------------------------------------------


def branches(
    where: Any, then: Callable[..., Any], otherwise: Callable[..., Any], values: Sequence[Any]
) -> Any:
    """then(values) where a condition holds, else otherwise(values); each sees its own lanes."""
    if np.ndim(where) == 0:
        return then(*values) if where else otherwise(*values)
    chosen = np.flatnonzero(where)  # indices: masks that change at random are slow to follow
    if chosen.size == where.size:
        return then(*values)
    if chosen.size == 0:
        return otherwise(*values)
    others = np.flatnonzero(np.logical_not(where))
    one = then(*(_of_lanes(value, chosen) for value in values))
    other = otherwise(*(_of_lanes(value, others) for value in values))
    if isinstance(one, tuple):
        return tuple(_together(a, b, chosen, others) for a, b in zip(one, other, strict=True))
    return _together(one, other, chosen, others)


def _of_lanes(value: Any, lanes: Array) -> Any:
    if isinstance(value, np.ndarray):
        return value[..., lanes] if value.ndim else value
    if isinstance(value, Cells):
        return Cells({place: _of_lanes(each, lanes) for place, each in value.items()}, value.rank)
    return value


def _together(one: Any, other: Any, chosen: Array, others: Array) -> Array:
    result = np.empty(chosen.size + others.size, np.result_type(one, other))
    result[chosen] = one
    result[others] = other
    return result


def where(condition: Any, one: Any, other: Any) -> Any:
    """C's `condition ? one : other`; both sides are computed."""
    if np.ndim(condition) == 0:
        return one if condition else other
    return np.where(condition, one, other)


def some(condition: Any) -> bool:
    """Whether a condition holds in some lane: loops go on until it holds in none."""
    return bool(np.any(condition))


def every(condition: Any) -> bool:
    """Whether a condition holds in all lanes: loops are left when it does."""
    return bool(np.all(condition))


# -- arrays and tables ----------------------------------------------------------------------------


class Cells(dict[int, Any]):
    """A C array: the values stored so far, by index; all others are 0."""

    def __init__(self, given: Any = (), rank: int = 1) -> None:
        super().__init__(given)
        self.rank = rank

    def __missing__(self, place: int) -> Any:
        if self.rank == 1:
            return 0.0
        found = self[place] = Cells((), self.rank - 1)
        return found


def whole(x: Any) -> Any:
    """C's (int)x."""
    return int(x) if np.ndim(x) == 0 else np.asarray(x).astype(np.intp)


class Tabulated:
    """A function of whole numbers that fills an array: computed once for each first number."""

    def __init__(self, fill: Callable[..., None]) -> None:
        self.fill = fill
        self.known: dict[Any, tuple[Array, Array]] = {}  # by the others: which ones, their arrays

    def __call__(self, first: Any, others: tuple[Any, ...], into: Cells) -> None:
        """Fill `into` for the whole numbers `first`, 0 or more."""
        if np.ndim(first) == 0:
            self.fill(first, *others, into)
            return
        there, values = self.known.get(others) or (np.zeros(0, bool), np.zeros((0, 0)))
        if there.size <= first.max(initial=0) or not there[first].all():
            there, values = self.known[others] = self._more(there, values, first, others)
        into.update(enumerate(np.take(values, first, axis=1)))

    def _more(self, there: Array, values: Array, first: Array, others: Any) -> tuple[Array, Array]:
        """Which ones are known, and their arrays, after some more."""
        size = max(there.size, int(first.max()) + 1)
        wanted = np.zeros(size, bool)
        wanted[first] = True
        wanted[: there.size] |= there
        numbers = np.flatnonzero(wanted)
        found = Cells()
        self.fill(numbers, *others, found)
        filled = np.zeros((len(found), size))
        for place, each in found.items():
            filled[place, numbers] = each
        return wanted, filled


# -- functions ------------------------------------------------------------------------------------


def rest_of_product(x: Any, y: Any, product: Any) -> Any:
    """x y less the product as it was rounded (Dekker); 0 where that is not finite."""
    (x_high, x_low), (y_high, y_low) = halves(x), halves(y)
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return np.where(np.isfinite(error), error, 0.0)


def halves(x: Any) -> tuple[Any, Any]:
    """x as a sum of two numbers with half as many digits."""
    big = SPLITTER * x
    high = big - (big - x)
    return high, x - high


def fused(x: Any, y: Any, z: Any) -> Any:
    """x y + z, rounded once but for a rare half."""
    product = x * y
    total = product + z
    part = total - product
    lost = (product - (total - part)) + (z - part)
    rest = rest_of_product(x, y, product) + lost
    return total + np.where(np.isfinite(rest), rest, 0.0)


def _ldexp(x: Any, power: Any) -> Any:
    return np.ldexp(np.asarray(x, np.float64), power)  # of a plain number NumPy makes a float16


def _of_scipy(name: str) -> Callable[..., Any]:
    def function(*given: Any) -> Any:
        return getattr(special, name)(*given)

    return function


C_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in (
        "exp", "log", "expm1", "log1p", "sqrt", "fabs", "sin", "cos", "tan", "floor", "ceil",
        "rint", "trunc", "fmod", "copysign", "frexp",
    )},
    "ldexp": _ldexp,
    "pow": np.power, "fma": fused, "ad_rest_of_product": rest_of_product,
    "inf": lambda: math.inf, "nan": lambda: math.nan,
    "jn": _of_scipy("jv"), "yn": _of_scipy("yn"),
}  # fmt: skip
