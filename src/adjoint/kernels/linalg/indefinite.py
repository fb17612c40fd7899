"""Symmetric indefinite matrices: L D Lᴴ with blocks of 1×1 and 2×2, packed by LAPACK."""

from __future__ import annotations

import numpy as np

from adjoint.checks.linalg import batch_shape, check_pivots, check_same_dtype, system_shape
from adjoint.core import dtypes
from adjoint.core.errors import LinAlgError, ValueRangeError
from adjoint.kernels.linalg.common import (
    Array,
    describe,
    each,
    lapack,
    square,
)


def ldl_factor_ex(self: Array, hermitian: bool, check_errors: bool) -> tuple[Array, Array, Array]:
    """LAPACK's packed L D Lᵀ (or L D Lᴴ) of the lower triangle, its pivots, info."""
    square("linalg_ldl_factor(A)", self)
    n = self.shape[-1]
    packed = np.zeros(self.shape, self.dtype)
    pivots = np.zeros(self.shape[:-1], np.int32)
    info = np.zeros(self.shape[:-2], np.int32)
    if self.size:
        name = "hetrf" if hermitian and self.dtype.kind == "c" else "sytrf"
        routine = lapack(name, self, reports=True)
        found = [routine(one, lower=1) for (one,) in each(self)]
        packed = np.stack([np.tril(f[0]) for f in found]).reshape(self.shape)
        pivots = np.stack([f[1] for f in found]).astype(np.int32).reshape(self.shape[:-1])
        info = np.array([f[2] for f in found], np.int32).reshape(self.shape[:-2])
    if check_errors and info.any():
        raise LinAlgError(f"linalg_ldl_factor(A): D is singular{describe(info)} (n = {n}).")
    return packed, pivots, info


def ldl_solve(LD: Array, pivots: Array, B: Array, hermitian: bool) -> Array:
    """X with L D Lᵀ X = B (or L D Lᴴ X = B)."""
    what = "linalg_ldl_solve(LD, pivots, B)"
    check_same_dtype(what, dtypes.of(LD.dtype), dtypes.of(B.dtype))
    shape = system_shape(what, LD.shape, B.shape)
    check_pivots(what, LD.shape, pivots.shape)
    batch = batch_shape(what, LD.shape, B.shape)
    result = np.empty(shape, B.dtype)
    if not result.size:
        return result
    routine = lapack("hetrs" if hermitian and LD.dtype.kind == "c" else "sytrs", LD, B)
    swaps = np.broadcast_to(pivots[..., None, :], (*batch, 1, LD.shape[-1]))
    factors = np.broadcast_to(LD, (*batch, *LD.shape[-2:]))
    for out, a, p, b in each(result, factors, swaps, np.broadcast_to(B, shape)):
        _check_blocks(p[0])
        out[...] = routine(a, p[0], b, lower=1)[0]
    return result


def _check_blocks(pivots: Array) -> None:
    """Raise for pivots that LAPACK cannot have made: it would read outside the matrix."""
    n, k = len(pivots), 0
    good = pivots.dtype.kind == "i" and bool(np.all((np.abs(pivots) >= 1) & (np.abs(pivots) <= n)))
    while good and k < n:
        width = 1 if pivots[k] > 0 else 2  # two negative ones mark a block of 2×2
        good = width == 1 or (k + 1 < n and pivots[k + 1] < 0)
        k += width
    if not good:
        raise ValueRangeError(
            f"linalg_ldl_solve: {pivots.tolist()} are not pivots of linalg.ldl_factor."
        )


def ldl_layout(pivots: Array) -> tuple[Array, Array, Array]:
    """The positions of the packed factors: A[p][:, p] = L D Lᴴ with L[i, j] = packed[rows[i, j],
    j].

    LAPACK exchanges rows of the unfactored part only, not of finished columns; `rows` does that
    afterwards. `block[k]` is the number of k's block of D.
    """
    *batch, n = pivots.shape
    order, block = np.empty((*batch, n), np.int64), np.empty((*batch, n), np.int64)
    rows = np.empty((*batch, n, n), np.int64)
    for index in np.ndindex(*batch):
        _check_blocks(pivots[index])
        order[index], rows[index], block[index] = _layout(pivots[index].astype(np.int64))
    return order, rows, block


def _layout(pivots: Array) -> tuple[Array, Array, Array]:
    n, k = len(pivots), 0
    order, block = np.arange(n), np.arange(n)
    rows = np.tile(np.arange(n)[:, None], (1, n))
    while k < n:
        double = pivots[k] < 0
        last, other = k + int(double), abs(int(pivots[k])) - 1
        order[[last, other]] = order[[other, last]]
        rows[[last, other], :k] = rows[[other, last], :k]
        block[last] = k
        k = last + 1
    return order, rows, block
