"""The transforms of Box and Cox, and their inverses."""

from __future__ import annotations

import numpy as np
from scipy import special

from adjoint.kernels.special.common import Array, in_double


def power_transform(self: Array, exponent: Array, shifted: bool) -> Array:
    """(x^y - 1)/y, and log x where y is 0; of 1 + x where shifted."""
    return in_double(_shifted if shifted else _plain, self, exponent)


def _plain(x: Array, y: Array) -> Array:
    close = np.abs(special.xlogy(y, x)) < 3
    steep = np.where(close, 1.0, y)
    return np.where(close, special.boxcox(x, y), (np.power(x, steep) - 1) / steep)


def _shifted(x: Array, y: Array) -> Array:
    close = np.abs(special.xlog1py(y, x)) < 3
    steep, base = np.where(close, 1.0, y), 1 + x
    lost = np.where(np.abs(x) < 1, x - (base - 1), 1 - (base - x))  # by the sum
    more = np.where(np.isfinite(base) & (base != 0), steep * lost / base, 0.0)
    power = np.power(base, steep) * (1 + more)
    return np.where(close, special.boxcox1p(x, y), (power - 1) / steep)


def inverse_power_transform(self: Array, exponent: Array, shifted: bool) -> Array:
    """(1 + xy)^(1/y), and eˣ where y is 0, less 1 where shifted; by the exponent where that is not
    large.
    """
    return in_double(lambda x, y: _inverse(x, y, shifted), self, exponent)


def _inverse(x: Array, y: Array, shifted: bool) -> Array:
    shift = x * y
    close = (np.abs(shift) < 0.5) | ((np.abs(shift - 1.5) < 1.5) & (np.abs(x) < 4))
    small = x * np.where(shift == 0, 1.0, np.log1p(shift) / np.where(shift == 0, 1.0, shift))
    near = np.expm1(small) if shifted else np.exp(small)
    far = np.power(np.where(close, 1.0, 1 + shift), 1 / np.where(close, 1.0, y))
    return np.where(close, near, far - 1 if shifted else far)
