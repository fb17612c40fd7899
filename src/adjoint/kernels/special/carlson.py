"""Carlson's elliptic integrals of all half-integer powers, by one quadrature."""

from __future__ import annotations

import math

import numpy as np

from adjoint.kernels.special.common import Array, check_orders, in_double

LEAST = -600.0  # of logarithms of ratios
TAIL, STEP = (
    84.0,
    0.375,
)  # e^{-42} of the integral lies beyond; the error of the rule is e^{-2π²/STEP}


def carlson(x: Array, y: Array, z: Array, i: int, j: int, k: int) -> Array:
    """∫₀^∞ (t + x)^{-i-1/2} (t + y)^{-j-1/2} (t + z)^{-k-1/2} dt of numbers x, y, z ≥ 0.

    In v = log t the integrand is analytic in the strip |Im v| < π and positive: the trapezoidal
    rule has all digits, wherever x, y and z lie and if some are equal.
    """
    check_orders("_carlson", i, j, k)

    def compute(x: Array, y: Array, z: Array) -> Array:
        every = np.stack([x, y, z])
        with np.errstate(all="ignore"):
            valid = np.all((every >= 0) & (every < math.inf), 0) & (np.sum(every > 0, 0) > 1)
            size = np.where(valid, np.max(every, 0), 1.0)
            kept = np.where(valid, every / size, 1.0)  # it is homogeneous
            low = np.maximum(np.min(np.log(np.where(kept > 0, kept, 1.0)), 0), LEAST) - TAIL
            span = TAIL - low
            found = np.zeros_like(x)
            count = math.ceil(float(np.max(span, initial=0.0)) / STEP) + 1
            powers = (-i - 0.5, -j - 0.5, -k - 0.5)
            for place in range(count):
                t = np.exp(low + place * STEP)
                inside = [(t + v) ** p for v, p in zip(kept, powers)]
                found += inside[0] * inside[1] * inside[2] * t
            open_ended = (every[0] == 0) & (i > 0) | (every[1] == 0) & (j > 0)
            open_ended |= (every[2] == 0) & (k > 0)
            found = np.where(open_ended, math.inf, found * STEP)
            return np.where(valid, found * size ** (sum(powers) + 1), math.nan)

    return in_double(compute, x, y, z)
