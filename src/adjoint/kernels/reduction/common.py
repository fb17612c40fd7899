"""Shared by the kernels of the family: dtypes to compute in.

`dim` follows PyTorch: None or empty means all dimensions, and a scalar counts as having one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.c_kernels.conversions import astype
from adjoint.core.dtypes import DEFAULT, INEXACT, REDUCED, of
from adjoint.core.errors import DtypeError

Array = np.ndarray[Any, Any]
Dims = tuple[int, ...] | None

NATIVE = "dfDF"  # dtype characters that NumPy accumulates as we want


def require_inexact(what: str, array: Array) -> None:
    """Refuse whole numbers and truths."""
    if array.dtype not in INEXACT:
        raise DtypeError(
            f"{what}: needs a floating point or complex dtype, got {of(array.dtype)}; convert it."
        )


def widened(self: Array) -> Array:
    """Return `self` as computed in: integers in the default float, halves in float32."""
    if self.dtype.char in NATIVE:
        return self
    if self.dtype in REDUCED:
        return astype(self, np.float32)
    return self.astype(DEFAULT.dtype.np)


def narrowed(result: Array, source: Array) -> Array:
    """Return `result` rounded to the half precision dtype of `source`, if that has one."""
    return astype(np.asarray(result), source.dtype) if source.dtype in REDUCED else result
