"""Weights of neighbours by their distance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.checks.resampling import CUBIC

Array = np.ndarray[Any, np.dtype[Any]]
CUBIC_ANTIALIAS = -0.5


def triangle(x: Array) -> Array:
    """1 - |x|, and 0 beyond 1."""
    return np.maximum(1 - np.abs(x), 0)


def cubic(x: Array, a: float = CUBIC) -> Array:
    """The cubic convolution kernel (Keys 1981): (a+2)|x|³ - (a+3)x² + 1, beyond 1 its tail."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x >= 2, 0, far))


def cubic_slope(x: Array, a: float = CUBIC) -> Array:
    """The derivative of `cubic`, for |x| up to 2."""
    r = np.abs(x)
    near = (3 * (a + 2) * r - 2 * (a + 3)) * r
    far = (3 * a * r - 10 * a) * r + 8 * a
    return np.where(x < 0, -1, 1).astype(x.dtype) * np.where(r <= 1, near, far)


def lanczos(x: Array) -> Array:
    """sinc(x) sinc(x/3), and 0 beyond 3."""
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


ANTIALIAS: dict[str, Callable[[Array], Array]] = {
    "linear antialias": triangle,
    "cubic antialias": lambda x: cubic(x, CUBIC_ANTIALIAS),
    "lanczos antialias": lanczos,
}
