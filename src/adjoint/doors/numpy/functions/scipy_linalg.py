"""SciPy's linear algebra of single matrices, with its signatures."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.errors import DependsOnValues, ValueRangeError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import Array, common
from adjoint.doors.numpy.functions import linalg as of_numpy
from adjoint.doors.numpy.functions.linalg import one_triangle as one_triangle
from adjoint.ops.fans import is_in_graph
from adjoint.tensor.tensor import Tensor

solution = of_numpy.solve


def columns(b: Tensor) -> Tensor:
    """A vector as a matrix of one column."""
    return b.unsqueeze(-1) if b.ndim == 1 else b


def lu(a: Tensor, permute_l: bool, p_indices: bool) -> tuple[Tensor, ...]:
    """The factors P, L and U; P as a matrix, as places, or as part of L."""
    p, lower, upper = ad.linalg_lu(a)
    if permute_l:
        return ad.matmul(p, lower), upper
    return (ad.argmax(p, -1) if p_indices else p), lower, upper


def solve_triangular(
    a: Tensor, b: Tensor, trans: int | str, lower: bool, unit_diagonal: bool
) -> Tensor:
    """The solution of a x = b, of aᵀ x = b or of aᴴ x = b, by one triangle of a."""
    a, b = common(a, b)
    kinds = {0: "N", 1: "T", 2: "C"}
    kind = kinds.get(trans, trans) if isinstance(trans, int) else trans
    if kind not in kinds.values():
        raise ValueRangeError(f"solve_triangular: trans={trans!r} is one of 0, 1, 2, 'N', 'T', 'C'")
    if kind != "N":
        a, lower = a.mT if kind == "T" else a.mH, not lower
    found = ad.linalg_solve_triangular(a, columns(b), upper=not lower, unitriangular=unit_diagonal)
    return found.reshape(b.shape)


def logm(A: Tensor, disp: Any) -> Any:
    """The principal logarithm; complex if A has a negative eigenvalue."""
    if disp is not None and not disp:
        raise ValueRangeError("logm: disp=False also estimates an error, which adjoint does not")
    return ad._linalg_logm(as_wide_as_its_root(A))


def polar(a: Tensor, side: str) -> tuple[Tensor, Tensor]:
    """The factors U and P of a = U P, or of a = P U for side='left'; P is positive semidefinite."""
    if side not in ("left", "right"):
        raise ValueRangeError(f"polar: side={side!r} is one of 'left', 'right'")
    w, s, vh = ad.linalg_svd(a, False)
    basis = vh.mH if side == "right" else w
    return ad.matmul(w, vh), ad.matmul(basis * s, basis.mH)


def as_wide_as_its_root(A: Tensor) -> Tensor:
    """A complex matrix where the root of a real one is not real, as SciPy's result is.

    The values of a traced matrix, or of one inside vmap, are not known: there the result is real,
    or NaN.
    """
    if A.is_complex() or not A.size(-1) or is_in_graph(A):
        return A
    try:
        known = A.detach().array
    except DependsOnValues:
        return A
    values = np.linalg.eigvals(np.asarray(known, np.float64))
    negative = (values.real < 0) & (values.imag == 0)
    return A.to(A.dtype.to_complex()) if negative.any() else A


def toeplitz(c: Tensor, r: Any) -> Tensor:
    """The matrix with the first column c and the first row r, constant along diagonals."""
    row = ad.conj_physical(c) if r is None else Array(r)
    c, row = common(c.reshape(-1), row.reshape(-1))
    line = ad.cat([c.flip((0,)), row[1:]])
    place = np.arange(c.shape[0])[::-1, None] + np.arange(row.shape[0])
    return line[Array(place)]
