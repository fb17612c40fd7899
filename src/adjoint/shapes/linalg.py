"""Shape and dtype rules of linear algebra: Specs in, Specs out."""

from __future__ import annotations

from typing import Any

from adjoint.checks.linalg import (
    check_dtype,
    check_matrix,
    check_pivots,
    check_real,
    check_same_dtype,
    check_square,
    cross_axis,
    eigenpairs_batch,
    system_shape,
)
from adjoint.core import dtypes
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.promotion import result_type
from adjoint.core.shapes import Spec, broadcast
from adjoint.kinks.fans import FAN

Specs = tuple[Spec, ...]


def _info(a: Spec) -> Spec:
    return Spec(a.shape[:-2], dtypes.int32)


def _pivots(a: Spec) -> Spec:
    return Spec((*a.shape[:-2], min(a.shape[-2:])), dtypes.int32)


def _square(what: str, a: Spec) -> Spec:
    check_dtype(what, a.dtype)
    check_square(what, a.shape)
    return a


def _matrix(what: str, a: Spec) -> Spec:
    check_dtype(what, a.dtype)
    check_matrix(what, a.shape)
    return a


def same(self: Spec, *_: Any) -> Spec:
    """The shape and dtype of the first argument, square matrices."""
    return _square("linalg", self)


def first(self: Spec, *_: Any) -> Spec:
    """The shape and dtype of the first argument, whatever they are."""
    return self


def matrix_exp(self: Spec) -> Spec:
    """Square matrices of any floating point dtype."""
    if self.dtype.np not in dtypes.REDUCED:
        check_dtype("linalg_matrix_exp(A)", self.dtype)
    check_square("linalg_matrix_exp(A)", self.shape)
    return self


def square_and_info(self: Spec, *_: Any) -> Specs:
    """A matrix like the first argument, and LAPACK's info."""
    return _square("linalg", self), _info(self)


def square(self: Spec) -> Spec:
    """Square matrices."""
    return _square("linalg", self)


def sylvester(A: Spec, B: Spec, Q: Spec) -> Spec:
    """X of A X + X B = Q."""
    what = "solve_sylvester(a, b, q)"
    for matrix in (A, B):
        check_same_dtype(what, matrix.dtype, Q.dtype)
        check_square(what, matrix.shape)
    batch = broadcast(what, broadcast(what, A.shape[:-2], B.shape[:-2]), Q.shape[:-2])
    return Spec((*batch, *Q.shape[-2:]), Q.dtype)


def solve(A: Spec, B: Spec, check_errors: bool) -> Specs:
    """X of A X = B, and info."""
    check_same_dtype("linalg_solve(A, B)", A.dtype, B.dtype)
    return Spec(system_shape("linalg_solve(A, B)", A.shape, B.shape), B.dtype), _info(A)


def solve_triangular(A: Spec, B: Spec, upper: bool, left: bool, unitriangular: bool) -> Spec:
    """X of A X = B or X A = B."""
    what = "linalg_solve_triangular(A, B)"
    check_same_dtype(what, A.dtype, B.dtype)
    return Spec(system_shape(what, A.shape, B.shape, left), B.dtype)


def det(A: Spec) -> Specs:
    """One number per matrix, and the LU factors."""
    _square("linalg_det(A)", A)
    return Spec(A.shape[:-2], A.dtype), A, _pivots(A)


def slogdet(A: Spec) -> Specs:
    """A sign and a real logarithm per matrix, and the LU factors."""
    _square("linalg_slogdet(A)", A)
    batch = A.shape[:-2]
    return Spec(batch, A.dtype), Spec(batch, A.dtype.to_real()), A, _pivots(A)


def lu_factor(A: Spec, *_: Any) -> Specs:
    """The packed factors, pivots, info."""
    _matrix("linalg_lu_factor(A)", A)
    return A, _pivots(A), _info(A)


def permutation(pivots: Spec, size: int) -> Spec:
    """`size` positions."""
    return Spec((*pivots.shape[:-1], size), dtypes.int64)


def ldl_factor(self: Spec, *_: Any) -> Specs:
    """The packed factors, pivots, info."""
    _square("linalg_ldl_factor(A)", self)
    return self, Spec(self.shape[:-1], dtypes.int32), _info(self)


def ldl_layout(pivots: Spec) -> Specs:
    """An order, a table of rows, and the blocks."""
    vector = Spec(pivots.shape, dtypes.int64)
    return vector, Spec((*pivots.shape, pivots.shape[-1]), dtypes.int64), vector


def ldl_solve(LD: Spec, pivots: Spec, B: Spec, hermitian: bool) -> Spec:
    """X of A X = B."""
    what = "linalg_ldl_solve(LD, pivots, B)"
    check_same_dtype(what, LD.dtype, B.dtype)
    shape = system_shape(what, LD.shape, B.shape)
    check_pivots(what, LD.shape, pivots.shape)
    return Spec(shape, B.dtype)


def qr(A: Spec, mode: str) -> Specs:
    """Q and R; no Q for mode r."""
    _matrix("linalg_qr(A)", A)
    if mode not in ("reduced", "complete", "r"):
        raise ValueRangeError(f"linalg_qr(A): mode is reduced, complete or r, got {mode!r}")
    *batch, m, n = A.shape
    k = m if mode == "complete" else min(m, n)
    q = (0,) if mode == "r" else (*batch, m, k)
    return Spec(q, A.dtype), Spec((*batch, k, n), A.dtype)


def eigh(A: Spec, UPLO: str, compute_v: bool) -> Specs:
    """Real eigenvalues, and vectors or nothing."""
    _square("linalg_eigh(A)", A)
    values = Spec(A.shape[:-1], A.dtype.to_real())
    return values, A if compute_v else Spec((0,), A.dtype)


def eig(self: Spec) -> Specs:
    """Complex eigenvalues and vectors."""
    _square("linalg_eig(A)", self)
    wide = self.dtype.to_complex()
    return Spec(self.shape[:-1], wide), Spec(self.shape, wide)


def svd(A: Spec, full_matrices: bool, compute_uv: bool, driver: str | None) -> Specs:
    """U, S, Vᴴ; no vectors if they are not computed."""
    _matrix("linalg_svd(A)", A)
    *batch, m, n = A.shape
    k = min(m, n)
    values = Spec((*batch, k), A.dtype.to_real())
    if not compute_uv:
        return Spec((0,), A.dtype), values, Spec((0,), A.dtype)
    rows, columns = (m, n) if full_matrices else (k, k)
    return Spec((*batch, m, rows), A.dtype), values, Spec((*batch, columns, n), A.dtype)


def pinv(self: Spec, *_: Any) -> Spec:
    """The transposed shape."""
    _matrix("linalg_pinv(A)", self)
    *batch, m, n = self.shape
    return Spec((*batch, n, m), self.dtype)


def geqrf(self: Spec) -> Specs:
    """The packed reflections and their factors."""
    _matrix("geqrf(A)", self)
    return self, Spec((*self.shape[:-2], min(self.shape[-2:])), self.dtype)


def cdist(x1: Spec, x2: Spec, *_: Any) -> Spec:
    """One distance per pair of rows."""
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(
            f"cdist(x1, x2): needs matrices with equally many columns, got {x1.shape} "
            f"and {x2.shape}."
        )
    batch = broadcast("cdist(x1, x2): batches", x1.shape[:-2], x2.shape[:-2])
    return Spec((*batch, x1.shape[-2], x2.shape[-2]), x1.dtype)


def cross(self: Spec, other: Spec, dim: int) -> Spec:
    """The common shape of both, broadcast."""
    cross_axis(self.shape, other.shape, dim)
    shape = broadcast("linalg_cross(a, b)", self.shape, other.shape)
    return Spec(shape, result_type(self, other))


def lstsq(self: Spec, b: Spec, rcond: float) -> Specs:
    """Solutions, ranks and singular values of least-squares problems with matrices b."""
    *batch, m, n = self.shape
    common = broadcast("linalg_lstsq(A, B): batches", tuple(batch), b.shape[:-2])
    return (
        Spec((*common, n, b.shape[-1]), b.dtype),
        Spec(tuple(batch), dtypes.int64),
        Spec((*batch, min(m, n)), self.dtype.to_real()),
    )


def pairs(self: Spec, *_: Any) -> Spec:
    """One number per pair of elements."""
    return Spec((*self.shape, self.shape[-1]), self.dtype)


def eig_fan(self: Spec, values: Spec, vectors: Spec, closeness: float) -> Specs:
    """Values and vectors of several matrices."""
    return _beside(values), _beside(vectors)


def eigh_fan(
    A: Spec, UPLO: str, compute_v: bool, values: Spec, vectors: Spec, closeness: float
) -> Specs:
    """Values and vectors of several matrices."""
    check_real("_linalg_eigh_fan", values.dtype)
    return _beside(values), _beside(vectors)


def svd_fan(
    A: Spec, full: bool, uv: bool, driver: str | None, U: Spec, S: Spec, Vh: Spec, closeness: float
) -> Specs:
    """U, S, Vᴴ of several matrices."""
    check_real("_linalg_svd_fan", S.dtype)
    return _beside(U), _beside(S), _beside(Vh)


def qr_fan(A: Spec, mode: str, Q: Spec, R: Spec, closeness: float) -> Specs:
    """Q, also in mode r, and R of several matrices."""
    if mode == "r":
        *batch, m, n = A.shape
        return Spec((*batch, m, min(m, n)), A.dtype), _beside(R)
    return _beside(Q), _beside(R)


def lu_fan(
    A: Spec, pivot: bool, check: bool, LU: Spec, pivots: Spec, info: Spec, closeness: float
) -> Specs:
    """The packed factors and the pivots of several matrices."""
    return _beside(LU), _beside(pivots)


def _beside(spec: Spec) -> Spec:
    return Spec((FAN, *spec.shape), spec.dtype)


def of_fan(self: Spec, repeated: bool) -> Spec:
    """One result for several."""
    return Spec(self.shape[1:], self.dtype)


def spread_over_fan(self: Spec, repeated: bool) -> Spec:
    """Several for one."""
    return _beside(self)


def lobpcg(
    A: Spec, X: Spec, iK: Spec | None, k: int, niter: int, tol: float, largest: bool
) -> Specs:
    """k eigenvalues and vectors."""
    check_real("lobpcg", A.dtype)
    batch = eigenpairs_batch(A.shape, X.shape, None if iK is None else iK.shape, k)
    return Spec((*batch, k), A.dtype), Spec((*batch, A.shape[-1], k), A.dtype)
