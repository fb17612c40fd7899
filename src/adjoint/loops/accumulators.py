"""Accumulators of reductions: how they start, and how they take an element in."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.records import record
from adjoint.expressions.trees import Binary, Choose, Expression, Number, number

Join = Callable[[Expression, Expression], Expression]  # of the total so far, and an element

_LEAST = -(1 << 63)


@record
class Accumulator:
    """One way to reduce many numbers to one. Pairs are for real numbers and for int64."""

    joins: tuple[Join, ...]  # the totals that an element makes, one after the other
    starts: tuple[Any, Any]
    of_nothing: Any = None  # the result of a reduction over no values
    sums: bool = False  # whether it adds up, so that small numbers may vanish next to a large total
    chooses: bool = False  # whether the result is one of the values, unchanged

    def start(self, dtype: DType) -> Number:
        return number(self.starts[dtype is dtypes.int64], dtype)


def _joining(sign: str) -> tuple[Join, ...]:
    """Joining by a sign."""
    return (lambda total, value: Binary(sign, total, value),)


def _holding(sign: str) -> tuple[Join, ...]:
    """Joining truths by a sign: any number but 0 is true."""
    zero = number(0, dtypes.int32)
    return (lambda total, value: Binary(sign, total, Binary("!=", value, zero)),)


def _choosing(sign: str) -> tuple[Join, ...]:
    """Keeping the value that compares so with all others; NaN is kept."""
    return (
        lambda total, value: Choose(Binary(sign, value, total), value, total),
        lambda total, value: Choose(Binary("!=", value, value), value, total),
    )


ACCUMULATORS = {
    "sum": Accumulator(_joining("+"), (0, 0), 0, sums=True),
    "mean": Accumulator(_joining("+"), (0, 0), math.nan, sums=True),
    "prod": Accumulator(_joining("*"), (1, 1), 1),
    "any": Accumulator(_holding("|"), (0, 0), False),
    "all": Accumulator(_holding("&"), (1, 1), True),
    "amax": Accumulator(_choosing(">"), (-math.inf, _LEAST), chooses=True),
    "amin": Accumulator(_choosing("<"), (math.inf, -1 - _LEAST), chooses=True),
}
