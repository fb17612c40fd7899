"""Student's distribution function."""

from __future__ import annotations

import math

import numpy as np

from adjoint.kernels.special.common import Array, in_double, ufunc
from adjoint.kernels.special.gamma import half_step
from adjoint.kernels.special.incomplete_beta import betainc


def student_cdf(t: Array, df: Array) -> Array:
    """F = 1/2 and an odd series in t in the middle, elsewhere half the incomplete beta function of
    whichever fraction of t² + ν is small."""
    return in_double(_level, t, df)


def _level(t: Array, df: Array) -> Array:
    normal = df > 1e22  # t⁴/4ν, by which they differ, is no digit
    if normal.any():
        return np.where(normal, ufunc("ndtr", t), _heavy(t, np.where(normal, 1.0, df)))
    return _heavy(t, df)


def _heavy(t: Array, df: Array) -> Array:
    s = t / np.sqrt(df)
    middle = (np.abs(t) < 0.5) & (np.abs(s) < 0.25)
    inside = _middle(np.where(middle, t, 0.0), np.where(middle, s, 0.0), df)
    tail = _tail(np.abs(np.where(middle, 1.0, s)), np.where(middle, 1.0, t), df)
    return np.where(middle, 0.5 + inside, np.where(t < 0, tail, 1 - tail))


def _middle(t: Array, s: Array, df: Array) -> Array:
    """F - 1/2 = t f(0) ₂F₁(1/2, (ν + 1)/2; 3/2; -t²/ν)."""
    half, total = (df + 1) / 2, np.ones_like(s)
    for k in range(15, -1, -1):
        total = 1 - s * s * total * ((k + 0.5) / ((k + 1.5) * (k + 1))) * (half + k)
    return t * total * np.exp(half_step(df / 2, 0)) / math.sqrt(2 * math.pi)


def _tail(s: Array, t: Array, df: Array) -> Array:
    """1 - F for |t| = s √ν."""
    outer, half = s > 1, np.full_like(s, 0.5)
    square = np.square(np.where(outer, 1.0, t))
    beyond = betainc(df / 2, half, np.square(1 / np.hypot(np.where(outer, s, 2.0), 1.0)))
    within = ufunc("betaincc", half, df / 2, square / (square + df))
    return np.where(outer, beyond, within) / 2
