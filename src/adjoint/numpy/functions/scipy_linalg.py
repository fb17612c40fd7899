"""SciPy's linear algebra of single matrices, with its signatures."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.errors import ValueRangeError
from adjoint.numpy.conversion import Array, common
from adjoint.numpy.functions.linalg import one_triangle as one_triangle
from adjoint.numpy.functions.linalg import solve as solution
from adjoint.numpy.words import ad
from adjoint.tensor.tensor import Tensor

_ROOT_STEPS = 20  # of Newton's method for a square root, which doubles its digits at each one


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


def solve_sylvester(a: Tensor, b: Tensor, q: Tensor) -> Tensor:
    """The solution of a x + x b = q, as one system of all its elements."""
    a, b, q = common(a, b, q)
    rows, across = (ad.eye(m.shape[-1], dtype=q.dtype) for m in (a, b))
    system = ad.kron(a, across) + ad.kron(rows, b.mT)
    return solution(system, q.reshape(-1)).reshape(q.shape)


def sqrtm(A: Tensor) -> Tensor:
    """The principal square root, by the iteration of Denman and Beavers (1976)."""
    root, inverse = A, ad.eye(A.shape[-1], dtype=A.dtype)
    for _ in range(_ROOT_STEPS):
        root, inverse = (
            (root + ad.linalg_inv(inverse)) / 2,
            (inverse + ad.linalg_inv(root)) / 2,
        )
    return root


def toeplitz(c: Tensor, r: Any) -> Tensor:
    """The matrix with the first column c and the first row r, constant along diagonals."""
    row = ad.conj_physical(c) if r is None else Array(r)
    c, row = common(c.reshape(-1), row.reshape(-1))
    line = ad.cat([c.flip((0,)), row[1:]])
    place = np.arange(c.shape[0])[::-1, None] + np.arange(row.shape[0])
    return line[Array(place)]
