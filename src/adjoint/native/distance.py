"""Distances of points, by C code (distance.c)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.native import kernels

Array = np.ndarray[Any, Any]
LARGE = 1 << 14  # coordinates, of all pairs, from which a call of native code pays
_SIDE = 64  # other points that C code takes at once
_KINDS = {1: 1, 2: 2, math.inf: 0}


def distances(a: Array, b: Array, p: float) -> Array | None:
    """The p-norm of each row of a minus each row of b; None where there is no native code."""
    kind = _KINDS.get(p)
    if kind is None or a.size * len(b) < LARGE or not b.size:
        return None
    run = kernels.ready("distance", "distances", a.dtype)
    if run is None:
        return None
    count = -(-len(b) // _SIDE) * _SIDE
    whole = np.zeros((count, a.shape[1]), a.dtype)
    whole[: len(b)] = b
    blocks = whole.reshape(count // _SIDE, _SIDE, a.shape[1])
    other = np.ascontiguousarray(blocks.transpose(0, 2, 1))
    result = np.empty((len(a), count), a.dtype)
    sizes = kernels.block([len(a), count, a.shape[1], kind])
    kernels.call(run, sizes, kernels.aligned(np.ascontiguousarray(a)), other, result)
    return result[:, : len(b)]
