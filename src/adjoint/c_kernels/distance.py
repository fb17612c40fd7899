"""Distances between points, in C (distance.c)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.loops.gate import LARGE

Array = np.ndarray[Any, Any]
_SIDE = 256  # bytes of other points that the C code takes at once
_KINDS = {1: 1, 2: 2, math.inf: 0}


def distances(a: Array, b: Array, p: float) -> Array | None:
    """The p-norm of each row of a minus each row of b; None if there is no native code."""
    kind = _KINDS.get(p)
    if kind is None or a.size * len(b) < LARGE or not b.size:
        return None
    run = loading.ready("distance", "distances", a.dtype)
    if run is None:
        return None
    side = _SIDE // a.itemsize
    whole, rest = divmod(len(b), side)
    other = loading.lines((whole + (rest > 0), a.shape[1], side), a.dtype)
    other[:whole] = b[: whole * side].reshape(whole, side, a.shape[1]).transpose(0, 2, 1)
    if rest:
        other[whole, :, :rest], other[whole, :, rest:] = b[whole * side :].T, 0
    result = np.empty((len(a), len(b)), a.dtype)
    sizes = loading.block([len(a), len(b), a.shape[1], kind])
    loading.call(run, sizes, loading.aligned(np.ascontiguousarray(a)), other, result)
    return result
