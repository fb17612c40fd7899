"""Sums of gradients: of those that meet, and over dimensions along which a value was broadcast."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.c_kernels import reduction
from adjoint.c_kernels.conversions import astype
from adjoint.c_kernels.element_loops import added
from adjoint.core.dtypes import REDUCED
from adjoint.core.shapes import Shape

__all__ = ["added", "summed"]

Array = np.ndarray[Any, Any]


def summed(x: Array, axes: Shape) -> Array:
    """Σ x over axes that stay with size 1; float16 and bfloat16 are added in float32.

    >>> summed(np.ones((2, 3)), (0,))
    array([[2., 2., 2.]])
    """
    if x.dtype in REDUCED:
        return astype(summed(astype(x, np.float32), axes), x.dtype)
    if x.size >= reduction.LARGE and axes and axes[-1] - axes[0] == len(axes) - 1:
        first, last = axes[0], axes[-1] + 1
        middle = math.prod(x.shape[first:last])
        if x.flags.c_contiguous and middle > 1 and x.dtype.char in "fd":
            before = math.prod(x.shape[:first])
            found = reduction.reduce(reduction.SUM, x.reshape(before, middle, -1))
            if found is not None:
                return found.reshape((*x.shape[:first], *(1,) * len(axes), *x.shape[last:]))
    return np.add.reduce(x, axis=axes, keepdims=True)
