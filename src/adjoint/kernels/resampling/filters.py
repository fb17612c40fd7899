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
    """The cubic convolution kernel (Keys 1981), and 0 beyond 2."""
    x = np.abs(x)
    return np.where(x <= 1, _near(x, a), np.where(x >= 2, 0, _far(x, a)))


def _near(x: Array, a: float = CUBIC) -> Array:
    """For |x| up to 1."""
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _far(x: Array, a: float = CUBIC) -> Array:
    """For |x| from 1 to 2."""
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def cubic_weights(t: Array) -> Array:
    """The weights of the four neighbours of a place, which is t behind the second."""
    return np.stack((_far(1 + t), _near(t), _near(1 - t), _far(2 - t)))


def cubic_slopes(t: Array, a: float = CUBIC) -> Array:
    """The derivatives of `cubic_weights`."""

    def near(x: Array) -> Array:
        return (3 * (a + 2) * x - 2 * (a + 3)) * x

    def far(x: Array) -> Array:
        return (3 * a * x - 10 * a) * x + 8 * a

    return np.stack((far(1 + t), near(t), -near(1 - t), -far(2 - t)))


def lanczos(x: Array) -> Array:
    """sinc(x) sinc(x/3), and 0 beyond 3."""
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


ANTIALIAS: dict[str, Callable[[Array], Array]] = {
    "linear antialias": triangle,
    "cubic antialias": lambda x: cubic(x, CUBIC_ANTIALIAS),
    "lanczos antialias": lanczos,
}
