"""Evenly spaced numbers, in C (counting.c).

The functions return False if there is no native code, and for few numbers.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.core.c_types import KINDS

Array = np.ndarray[Any, Any]
LARGE = 1 << 15  # numbers from which a call of native code pays


def even(into: Array, start: float, end: float, step: float, half: int) -> bool:
    """Write evenly spaced numbers: `half` of them from the start, the others down from the end."""
    run = _function("even", into) if into.dtype.kind == "f" else None
    if run is None:
        return False
    numbers = map(ctypes.c_double, (start, end, step))
    return not loading.call(run, loading.block([into.size, half]), *numbers, into)


def whole(into: Array, start: int, step: int) -> bool:
    """Write start + i·step at each index i, in integers."""
    last = start + step * into.size
    if not -(1 << 62) < min(start, step, last) <= max(start, step, last) < 1 << 62:
        return False
    run = _function("whole", into)
    return run is not None and not loading.call(run, loading.block([into.size, start, step]), into)


def _function(name: str, into: Array) -> Any:
    kind = KINDS.get(into.dtype) if into.size >= LARGE else None
    return None if kind is None else loading.ready_for("counting", name, kind)
