"""Factorisations and systems of equations: Cholesky, LU, LDLᴴ, triangular and square systems."""

# Capitals are matrices here, not constants.
# pyright: reportConstantRedefinition=false

from __future__ import annotations

import numpy as np

from adjoint.checks.linalg import check_same_dtype, system_shape
from adjoint.core import dtypes
from adjoint.core.errors import LinAlgError, ShapeError, ValueRangeError
from adjoint.core.lazy import Lazy
from adjoint.kernels.linalg.common import (
    Array,
    describe,
    each,
    first,
    lapack,
    matrices,
    mH,
    mT,
    square,
)

linalg = Lazy("scipy.linalg")


def cholesky_ex(self: Array, upper: bool, check_errors: bool) -> tuple[Array, Array]:
    """L Lᴴ = A from the lower triangle, or Uᴴ U = A from the upper; and LAPACK's info."""
    square("linalg_cholesky(A)", self)
    lower = mH(self) if upper else self
    info = np.zeros(self.shape[:-2], np.int32)
    try:
        factor = np.linalg.cholesky(lower)
    except np.linalg.LinAlgError:
        factor, info = _cholesky_one_by_one(lower)
        if check_errors:
            raise LinAlgError(
                f"linalg_cholesky(A): A is not positive definite{describe(info)}: its leading "
                f"minor of order {first(info)} is not positive. Use linalg.cholesky_ex to go on."
            ) from None
    return (np.ascontiguousarray(mH(factor)) if upper else factor), info


def _cholesky_one_by_one(a: Array) -> tuple[Array, Array]:
    potrf = lapack("potrf", a, reports=True)
    found = [potrf(one, lower=1, clean=1) for (one,) in each(a)]
    factor = np.stack([f for f, _ in found]).reshape(a.shape).astype(a.dtype)
    return factor, np.array([i for _, i in found], np.int32).reshape(a.shape[:-2])


def solve(A: Array, B: Array, check_errors: bool) -> tuple[Array, Array]:
    """X with A X = B for matrices B; and LAPACK's info."""
    what = "linalg_solve(A, B)"
    check_same_dtype(what, dtypes.of(A.dtype), dtypes.of(B.dtype))
    shape = system_shape(what, A.shape, B.shape)
    info = np.zeros(A.shape[:-2], np.int32)
    try:
        result = np.linalg.solve(*_aligned(A, B, shape[:-2]))
    except np.linalg.LinAlgError:
        _, _, info = lu_factor_ex(A, True, False)
        if check_errors:
            raise LinAlgError(
                f"{what}: A is singular{describe(info)}. Use linalg.lstsq or linalg.pinv."
            ) from None
        result = _solve_where(A, B, shape, info == 0)
    return result.reshape(shape), info


def _aligned(A: Array, B: Array, batch: tuple[int, ...]) -> tuple[Array, Array]:
    """Operands as NumPy's solve takes them; one matrix A for a whole batch stays one."""
    if B.ndim < 2 or A.ndim == 2:
        return A, B
    return A, np.broadcast_to(B, (*batch, *B.shape[-2:]))


def _solve_where(A: Array, B: Array, shape: tuple[int, ...], good: Array) -> Array:
    """Solve the regular systems; NaN for the others."""
    A = np.where(good[..., None, None], A, np.eye(A.shape[-1], dtype=A.dtype))
    result = np.linalg.solve(*_aligned(A, B, shape[:-2])).reshape(shape)
    return np.where(good[..., None, None], result, np.asarray(np.nan, result.dtype))


def inv_ex(A: Array, check_errors: bool) -> tuple[Array, Array]:
    """A⁻¹ and LAPACK's info; NaN where A is singular."""
    square("linalg_inv(A)", A)
    info = np.zeros(A.shape[:-2], np.int32)
    try:
        return np.linalg.inv(A), info
    except np.linalg.LinAlgError:
        _, _, info = lu_factor_ex(A, True, False)
    if check_errors:
        raise LinAlgError(
            f"linalg_inv(A): A is singular{describe(info)}. Use linalg.pinv."
        ) from None
    good = (info == 0)[..., None, None]
    result = np.linalg.inv(np.where(good, A, np.eye(A.shape[-1], dtype=A.dtype)))
    return np.where(good, result, np.asarray(np.nan, A.dtype)), info


def solve_triangular(self: Array, B: Array, upper: bool, left: bool, unitriangular: bool) -> Array:
    """X with A X = B (or X A = B) for triangular A; a zero on the diagonal gives inf or NaN."""
    what = "linalg_solve_triangular(A, B)"
    check_same_dtype(what, dtypes.of(self.dtype), dtypes.of(B.dtype))
    shape = system_shape(what, self.shape, B.shape, left)
    result = np.empty(shape, B.dtype)
    if not result.size:
        return result
    if not left:  # X A = B is Aᵀ Xᵀ = Bᵀ
        return mT(solve_triangular(mT(self), mT(B), not upper, True, unitriangular))
    if self.ndim == 2 and B.ndim > 2:  # one matrix for all right-hand sides
        wide = np.moveaxis(B, -2, 0).reshape(B.shape[-2], -1)
        solved = solve_triangular(self, wide, upper, True, unitriangular)
        return np.moveaxis(solved.reshape((B.shape[-2], *B.shape[:-2], B.shape[-1])), 0, -2)
    A = np.broadcast_to(self, (*shape[:-2], *self.shape[-2:]))
    for out, a, b in each(result, A, np.broadcast_to(B, shape)):
        out[...] = _trsm(a, b, upper, unitriangular)
    return result


def _trsm(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    trsm = linalg.get_blas_funcs("trsm", (a, b))
    if a.flags.c_contiguous and not a.flags.f_contiguous:  # Fortran reads it transposed
        return trsm(1.0, a.T, b, lower=upper, trans_a=1, diag=unit)  # type: ignore[no-any-return]
    return trsm(1.0, a, b, lower=not upper, diag=unit)  # type: ignore[no-any-return]


# ---- LU ---------------------------------------------------------------------------------------


def lu_factor_ex(A: Array, pivot: bool, check_errors: bool) -> tuple[Array, Array, Array]:
    """L below and U on and above the diagonal of one matrix; pivots counted from 1; info."""
    matrices("linalg_lu_factor(A)", A)
    *batch, m, n = A.shape
    packed = np.empty(A.shape, A.dtype)
    pivots = np.empty((*batch, 1, min(m, n)), np.int32)
    pivots[...] = np.arange(1, min(m, n) + 1)
    info = np.zeros((*batch, 1, 1), np.int32)
    if A.size:
        getrf = lapack("getrf", A, reports=True)
        for a, out, swaps, code in each(A, packed, pivots, info):
            if pivot:
                out[...], moved, code[...] = getrf(a)
                swaps[0] = moved + 1
            else:
                out[...], code[...] = lu_without_pivots(a)
    info = info[..., 0, 0]
    if check_errors and info.any():
        raise LinAlgError(
            f"linalg_lu_factor(A): pivot {first(info) - 1} of U is zero{describe(info)}, "
            "so A is singular. Use linalg.lu_factor_ex to go on."
        )
    return packed, pivots[..., 0, :], info


def lu_without_pivots(a: Array) -> tuple[Array, int]:
    """The packed factors of one matrix whose rows stay in order, and the first pivot that is 0."""
    a, info = a.copy(), 0
    for k in range(min(a.shape)):
        if a[k, k] == 0 and not info:
            info = k + 1
        with np.errstate(all="ignore"):
            a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a, info


def permutation_of_pivots(pivots: Array, size: int) -> Array:
    """The rows of A in the order of L U: A[p] = L U, from LAPACK's swaps."""
    *batch, count = pivots.shape
    if pivots.dtype.kind not in "iu":
        raise ShapeError(f"lu: pivots must be integers, got {pivots.dtype}.")
    if pivots.size and (count > size or pivots.min() < 1 or pivots.max() > size):
        raise ValueRangeError(
            f"lu: pivots must be between 1 and {size}, the number of rows, got {pivots.min()} to "
            f"{pivots.max()}. Use those of linalg.lu_factor."
        )
    order = np.empty((*batch, size), np.int64)
    order[...] = np.arange(size)
    if not order.size:
        return order
    rows = order.reshape((-1, size))
    swaps = pivots.reshape((len(rows), count))
    every = np.arange(len(rows))
    for k in range(count):
        other = swaps[:, k].astype(np.int64) - 1
        rows[every, k], rows[every, other] = rows[every, other], rows[every, k].copy()
    return order
