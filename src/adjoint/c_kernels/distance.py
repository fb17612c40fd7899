"""Distances between points, in C (distance.c)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.c_kernels.copies import contiguous

Array = np.ndarray[Any, Any]
LARGE = 1 << 10  # coordinates of all pairs from which a call of native code pays
KINDS = {1: 1, 2: 2, math.inf: 0}  # p -> its number in C


def distances(a: Array, b: Array, p: float) -> Array | None:
    """The p-norm of each row of a minus each row of b, also of tiny and huge ones; None if there is
    no native code.
    """
    kind = KINDS.get(p)
    if kind is None or a.size * len(b) < LARGE or not b.size:
        return None
    run = loading.ready("distance", "distances", a.dtype)
    if run is None:
        return None
    result = np.empty((len(a), len(b)), a.dtype)
    sizes = [1, len(a), len(b), a.shape[1], kind]
    failed = loading.call_on(run, sizes, (contiguous(a), contiguous(b)), (result,))
    return None if failed else result
