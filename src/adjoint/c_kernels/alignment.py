"""The recursion of connectionist temporal classification, in C (alignment.c).

The functions return None if there is no native code, and for small arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.c_kernels.copies import contiguous
from adjoint.core.c_types import REAL_KINDS

Array = np.ndarray[Any, Any]
LARGE = 1 << 7  # elements from which a call of native code pays


def alphas(emitted: Array, blocked: Array, inputs: Array) -> Array | None:
    """The logarithms of the probabilities to be at each place after each step."""
    return _made("alphas", emitted, (emitted, blocked, inputs))


def alphas_back(
    grad: Array, emitted: Array, blocked: Array, inputs: Array, found: Array
) -> Array | None:
    """The gradient in what is emitted."""
    return _made("alphas_back", emitted, (grad, emitted, blocked, inputs, found))


def _made(name: str, like: Array, given: tuple[Array, ...]) -> Array | None:
    kind = REAL_KINDS.get(like.dtype) if like.size >= LARGE else None
    run = None if kind is None else loading.ready_for("alignment", name, kind)
    if run is None:
        return None
    result = np.empty(like.shape, like.dtype)
    failed = loading.call_on(run, like.shape, [contiguous(a) for a in given], (result,))
    return None if failed else result
