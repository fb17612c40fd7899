"""A fingerprint of a saved tensor, by which a recomputation that differs is noticed.

Shape and dtype must be the same, and a sample of the numbers, up to rounding: a sum over threads
may differ in the last digit, but other random numbers or other data differ by far more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core.dtypes import of
from adjoint.core.shapes import show

_SAMPLE = 64  # how many numbers are compared, spread evenly
_CLOSE = {2: 5e-2, 4: 1e-3, 8: 1e-6}  # allowed differences, by the bytes of a real number


class Fingerprint:
    """Shape, dtype and some numbers of a tensor."""

    __slots__ = ("dtype", "numbers", "shape", "total")

    def __init__(self, array: Any) -> None:
        self.shape, self.dtype = array.shape, array.dtype
        step = max(1, array.size // _SAMPLE)
        inexact = of(array.dtype).is_differentiable
        wide = None if not inexact else np.complex128 if array.dtype.kind == "c" else np.float64
        self.numbers = np.array(array.flat[::step], dtype=wide)
        self.total = array.sum(dtype=wide) if inexact else array.sum()

    def differ(self, other: Fingerprint) -> str:
        """How a recomputed tensor differs from this one, in words; "" if it is the same."""
        if self.shape != other.shape or self.dtype != other.dtype:
            return f"{self} became {other}"
        if not self._is_close(self.numbers, other.numbers):
            return f"{self} has other numbers: {_few(self.numbers)} became {_few(other.numbers)}"
        if not self._is_close(self.total, other.total, count=math.prod(self.shape)):
            return f"{self} has other numbers: their sum {self.total} became {other.total}"
        return ""

    def _is_close(self, mine: Any, other: Any, count: int = 1) -> bool:
        """Whether numbers, or sums of `count` numbers, differ only by rounding."""
        kind = of(self.dtype)
        if not kind.is_differentiable:
            return bool(np.array_equal(mine, other))
        size = self.dtype.itemsize // (2 if kind.is_complex else 1)
        close = _CLOSE[size]
        finite = np.abs(self.numbers[np.isfinite(self.numbers)])  # a sum may cancel to nothing
        scale = count * float(finite.max()) if finite.size else 0.0
        return bool(np.allclose(mine, other, rtol=close, atol=close * scale, equal_nan=True))

    def __str__(self) -> str:
        return f"{of(self.dtype).name}[{show(self.shape)}]"


def _few(numbers: Any) -> str:
    shown = ", ".join(f"{n:.4g}" for n in numbers[:3])
    return f"[{shown}{', …' if len(numbers) > 3 else ''}]"
