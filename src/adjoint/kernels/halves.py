"""float16 and bfloat16: kernels are given float32 in their place, and results are rounded once.

A kernel whose row says `computes: wide` is called by `in_float32`, and knows of no halves. Others
call what is here where they have reasons of their own: products that sum in float32, functions
that are computed in float64, results whose dtype is an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.c_kernels.conversions import astype
from adjoint.core import dtypes
from adjoint.core.promotion import NUMBERS, element

REDUCED = dtypes.REDUCED
_FLOAT32 = np.dtype(np.float32)


def wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that numbers of one are computed in: float32 for halves."""
    return _FLOAT32 if dtype in REDUCED else dtype


def widen(operand: Any) -> Any:
    """Return float16 and bfloat16 as float32, everything else as it is."""
    if hasattr(operand, "dtype") and operand.dtype in REDUCED:
        return astype(operand, np.float32)
    return operand


def in_float32(compute: Callable[..., Any], *operands: Any) -> Any:
    """Return `compute(*operands)`; float16 and bfloat16 arrays go through float32."""
    for operand in operands:
        if getattr(operand, "dtype", None) in REDUCED:
            return astype(np.asarray(compute(*map(widen, operands))), operand.dtype)
    return compute(*operands)


def in_halves(compute: Callable[..., Any], *operands: Any) -> Any:
    """As `in_float32`, of numbers that are rounded to the halves first, as NumPy does it."""
    narrow = [x.dtype for x in operands if getattr(x, "dtype", None) in REDUCED]
    if narrow:
        half = dtypes.of(narrow[0])
        operands = tuple(element(x, half) if type(x) in NUMBERS else x for x in operands)
    return in_float32(compute, *operands)
