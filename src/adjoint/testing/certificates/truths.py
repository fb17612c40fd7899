"""Truths: what is proven of a subject at arguments, as numbers to measure errors with.

A truth is the middle of a ball, split into the nearest float64 and the rest, so that errors of
float64 numbers are measured with some thirty digits. With it goes the unit by which an error is
divided: one ulp of the truth, times the condition |x · slope / truth| next to a zero, where the
rounding of the argument alone moves the truth by as much. A zero is near if it is closer to the
argument than 0 is. A large condition without a zero, as that of e⁻ˣ at 700, excuses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.core.records import record
from adjoint.testing.certificates.balls import number
from adjoint.testing.certificates.definitions import enclosure, sign_of
from adjoint.testing.certificates.subjects import Subject

Array = np.ndarray[Any, Any]
UNKNOWN = math.nan  # the truth could not be enclosed
NEAR = 2  # a zero is near if two of Newton's steps to it end before 0: the condition is above this


@record
class Truths:
    """What is proven at arguments x; rows are orders, columns arguments."""

    x: Array
    high: Array  # the nearest numbers of float64: ±inf beyond them
    low: Array  # the truth less `high`
    unit: Array  # by which errors are divided; NaN where nothing is proven


def truths(subject: Subject, x: Array) -> Truths:
    """What is proven of a subject at numbers of its dtype."""
    parameters = subject.parameters_in(x.dtype)
    columns = [_truth(subject, float(point), parameters, np.finfo(x.dtype)) for point in x]
    stacked = np.array(columns, dtype=np.float64).reshape(x.size, 3, subject.orders + 1)
    high, low, unit = stacked.transpose(1, 2, 0)
    return Truths(x, high, low, unit)


def _truth(subject: Subject, x: float, parameters: Mapping[str, float], info: Any) -> Any:
    balls = enclosure(subject.definition, x, parameters, subject.orders + 1)
    split = [_split(ball) for ball in balls[:-1]]
    units = [_unit(subject, balls, order, x, parameters, info) for order in range(len(split))]
    return [high for high, _ in split], [low for _, low in split], units


def _split(ball: Any) -> tuple[float, float]:
    if not ball.is_finite():
        return UNKNOWN, UNKNOWN
    high = float(ball.mid())
    return high, float((ball - high).mid()) if math.isfinite(high) else 0.0


def _unit(
    subject: Subject, balls: Sequence[Any], order: int, x: float, parameters: Any, info: Any
) -> float:
    """One ulp of the truth, or next to a zero ε |x · slope|."""
    ball, slope = balls[order], balls[order + 1]
    if not ball.is_finite():
        return UNKNOWN
    value = abs(float(ball.mid()))
    ulp = spacing(value, info)
    if not slope.is_finite() or x == 0:
        return ulp
    moved = abs(x * float(slope.mid()))
    if not value < moved / NEAR or not math.isfinite(moved):
        return ulp
    beyond = float((number(x) - 2 * ball.mid() / slope.mid()).mid())
    if not subject.low < beyond < subject.high:
        return ulp
    here = 1 if ball > 0 else -1
    changes = beyond == x or sign_of(subject.definition, beyond, parameters, order) == -here
    return max(ulp, float(info.eps) * moved) if changes else ulp


def spacing(value: float, info: Any) -> float:
    """One ulp; below the smallest normal number a quarter of that number."""
    if value < float(info.smallest_normal):
        return float(info.smallest_normal) / 4
    if math.isinf(value):
        return math.inf
    return math.ldexp(float(info.eps), math.frexp(value)[1] - 1)


def errors(found: Array, known: Truths, order: int) -> Array:
    """The error of each number in units; NaN where nothing is proven, infinite for a NaN."""
    info = np.finfo(found.dtype)
    most, eps = float(info.max), float(info.eps)
    high, low, unit = known.high[order], known.low[order], known.unit[order]
    y = found.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs((y - high) - low) / unit
        beyond = np.abs(high) > most
        right = (np.abs(y) >= most * (1 - 64 * eps)) & (np.sign(y) == np.sign(high))
    error = np.where(beyond, np.where(right, 0.0, np.inf), error)
    # a truth next to the largest number may round to infinity
    nearly = np.isinf(y) & (np.abs(high) > most * (1 - 8 * eps)) & (np.sign(y) == np.sign(high))
    error = np.where(np.isinf(y) & ~beyond, np.where(nearly, 2.0, np.inf), error)
    error = np.where(np.isnan(y), np.inf, error)
    return np.where(np.isnan(unit) | np.isnan(high), UNKNOWN, error)
