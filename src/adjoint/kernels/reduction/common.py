"""Shared by the kernels of the family: dtypes to compute in, and the transpose of a sum.

`dim` follows PyTorch: None or empty means all dimensions, and a scalar counts as having one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.c_kernels.conversions import astype
from adjoint.core.dtypes import DEFAULT, INEXACT, REDUCED, of
from adjoint.core.errors import DtypeError
from adjoint.core.shapes import Shape

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


def unreduce(grad: Array, dim: Dims, shape: tuple[int, ...], keepdim: bool) -> Array:
    """View what is left after reducing `shape` over `dim` as an array of that shape again.

    The transpose of a sum: reduced dimensions are put back and repeated. The view is made from
    strides directly where the memory allows it: `np.broadcast_to` costs ten times as much.
    """
    if not grad.flags.c_contiguous or not grad.size:
        return _unreduce_strided(grad, dim, shape, keepdim)
    strides = _spread(grad.shape, grad.strides, dim, shape, keepdim)
    view: Array = np.ndarray(shape, grad.dtype, grad, 0, strides)
    view.flags.writeable = False  # several elements share one place
    return view


@lru_cache(maxsize=1024)
def _spread(kept: Shape, steps: Shape, dim: Dims, shape: Shape, keepdim: bool) -> Shape:
    """The steps of an array, 0 along the dimensions that it is repeated along."""
    if len(kept) == len(shape) or keepdim:
        return tuple(0 if n == 1 else step for n, step in zip(kept, steps, strict=True))
    if not dim or not kept:
        return (0,) * len(shape)
    gone = {d % len(shape) for d in dim}
    left = iter(steps)
    return tuple(0 if i in gone else next(left) for i in range(len(shape)))


def _unreduce_strided(grad: Array, dim: Dims, shape: tuple[int, ...], keepdim: bool) -> Array:
    """`unreduce` of an array with gaps, or without elements; NumPy checks that the sizes fit."""
    if grad.ndim < len(shape) and not keepdim:
        gone = {d % len(shape) for d in dim or range(len(shape))}
        grad = grad.reshape(tuple(1 if i in gone else n for i, n in enumerate(shape)))
    return np.broadcast_to(grad, shape)
