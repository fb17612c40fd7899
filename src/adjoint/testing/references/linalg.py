"""Linear algebra by elimination, expansion and sums over plain loops; LAPACK is not asked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def batched(function: Callable[..., Any], *ranks: int) -> Callable[..., Array]:
    """Apply a function of single matrices or vectors, of these ranks, to batches that broadcast."""

    def reference(*args: Any) -> Array:
        arrays, rest = args[: len(ranks)], args[len(ranks) :]
        batch = np.broadcast_shapes(*[a.shape[: a.ndim - r] for a, r in zip(arrays, ranks)])
        spread = [
            np.broadcast_to(a, (*batch, *a.shape[a.ndim - r :])) for a, r in zip(arrays, ranks)
        ]
        if 0 in batch:
            example = function(*[np.ones(a.shape[len(batch) :], a.dtype) for a in spread], *rest)
            return np.zeros((*batch, *np.shape(example)))
        found = [function(*[a[place] for a in spread], *rest) for place in np.ndindex(batch)]
        return np.array(found).reshape((*batch, *np.shape(found[0])))

    return reference


def eliminated(a: Array, b: Array) -> Array:
    """A⁻¹ B by Gauss and Jordan, with the largest pivot."""
    n = len(a)
    table = np.concatenate([a, b], 1).astype(np.result_type(a, b, np.float64))
    for k in range(n):
        pivot = k + int(np.argmax(np.abs(table[k:, k])))
        table[[k, pivot]] = table[[pivot, k]]
        table[k] /= table[k, k]
        for row in range(n):
            if row != k:
                table[row] -= table[row, k] * table[k]
    return table[:, n:]


def inverse(a: Array, *_: Any) -> Array:
    return eliminated(a, np.eye(len(a), dtype=a.dtype))


def determinant(a: Array) -> Any:
    """Σ sign(p) Π A[i, p(i)] over permutations."""
    total = 0.0
    for order in itertools.permutations(range(len(a))):
        swaps = sum(x > y for x, y in itertools.combinations(order, 2))
        total += (-1) ** swaps * math.prod((a[i, j] for i, j in enumerate(order)), start=1.0)
    return total


def adjugate(a: Array) -> Array:
    """Cofactors, transposed."""
    n = range(len(a))
    minor = lambda i, j: determinant(np.delete(np.delete(a, i, 0), j, 1))
    cofactors = [[(-1) ** (i + j) * minor(j, i) for j in n] for i in n]
    return np.array(cofactors, a.dtype).reshape(a.shape)


def sign_and_log(a: Array) -> list[Array]:
    signs = batched(lambda m: determinant(m) / abs(determinant(m)), 2)(a)
    return [signs, batched(lambda m: math.log(abs(determinant(m))), 2)(a)]


def cholesky(a: Array, upper: bool = False) -> Array:
    """Row by row: A[i, j] = Σ L[i, k] conj(L[j, k]), from the lower triangle."""
    lower = np.zeros_like(a)
    source = a.conj().T if upper else a
    for i, j in itertools.product(range(len(a)), repeat=2):
        if j <= i:
            rest = source[i, j] - sum(lower[i, k] * lower[j, k].conj() for k in range(j))
            lower[i, j] = np.sqrt(rest.real) if i == j else rest / lower[j, j]
    return lower.conj().T if upper else lower


def solved(a: Array, b: Array, left: bool = True) -> Array:
    vector = b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])
    if vector:
        return batched(eliminated, 2, 2)(a, b[..., None])[..., 0]
    if not left:
        flip = lambda m: np.moveaxis(m, -1, -2)
        return flip(batched(eliminated, 2, 2)(flip(a), flip(b)))
    return batched(eliminated, 2, 2)(a, b)


def solved_triangular(
    a: Array, b: Array, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    rows, columns = np.indices(a.shape[-2:])
    kept = np.where(rows <= columns if upper else rows >= columns, a, 0)
    if unitriangular:
        kept = np.where(rows == columns, 1, kept)
    return solved(kept, b, left)


def powered(a: Array, n: int) -> Array:
    base = inverse(a) if n < 0 else a
    found = np.eye(len(a), dtype=base.dtype)
    for _ in range(abs(n)):
        found = np.einsum("ij,jk", found, base)
    return found


def exponential(a: Array) -> Array:
    """(Σ (A/1024)ᵏ / k!)¹⁰²⁴."""
    term = total = np.eye(len(a), dtype=np.result_type(a, np.float64))
    for k in range(1, 20):
        term = np.einsum("ij,jk", term, a) / (1024 * k)
        total = total + term
    for _ in range(10):
        total = np.einsum("ij,jk", total, total)
    return total


def cross(a: Array, b: Array, dim: int | None = None) -> Array:
    if dim is None:
        dim = next(d for d, n in enumerate(np.broadcast_shapes(a.shape, b.shape)) if n == 3)
    x, y = np.broadcast_arrays(a, b)
    x, y = (np.moveaxis(v, dim, 0) for v in (x, y))
    parts = [x[i - 2] * y[i - 1] - x[i - 1] * y[i - 2] for i in range(3)]
    return np.stack(parts, dim)


def distance(x: Array, y: Array, p: float) -> float:
    gaps = [abs(u - v) for u, v in zip(x.tolist(), y.tolist(), strict=True)]
    if p == math.inf:
        return max(gaps, default=0.0)
    if p == 0:
        return float(sum(gap != 0 for gap in gaps))
    return math.fsum(gap**p for gap in gaps) ** (1 / p)


def distances(x: Array, y: Array, p: float = 2.0, *_: Any, **__: Any) -> Array:
    pairs = lambda a, b: np.array([[distance(u, v, p) for v in b] for u in a]).reshape(
        len(a), len(b)
    )
    return batched(pairs, 2, 2)(x, y)


def distances_within(x: Array, p: float = 2.0) -> Array:
    return np.array([distance(u, v, p) for u, v in itertools.combinations(x, 2)])


def powers(x: Array, N: int | None = None, increasing: bool = False) -> Array:
    count = x.shape[-1] if N is None else N
    exponents = range(count) if increasing else range(count - 1, -1, -1)
    return np.stack([x**k for k in exponents], -1)


# -- values of the spectrum ------------------------------------------------------------------------


def eigenvalues(a: Array, *_: Any) -> Array:
    """Of a Hermitian matrix, ascending, by Jacobi's rotations."""
    a = a.astype(np.complex128)
    for _sweep in range(30):
        for p, q in itertools.combinations(range(len(a)), 2):
            if abs(a[p, q]) > 1e-300:
                a = _rotated(a, p, q)
    return np.sort(np.array([a[k, k].real for k in range(len(a))]))


def _rotated(a: Array, p: int, q: int) -> Array:
    """Rᴴ A R with R in the plane of p and q, such that A[p, q] vanishes."""
    size = abs(a[p, q])
    phase, ratio = a[p, q] / size, (a[q, q] - a[p, p]).real / (2 * size)
    tangent = math.copysign(1.0, ratio) / (abs(ratio) + math.hypot(1.0, ratio))
    cosine = 1 / math.hypot(1.0, tangent)
    rotation = np.eye(len(a), dtype=np.complex128)
    rotation[p, p] = rotation[q, q] = cosine
    rotation[p, q] = tangent * cosine * phase
    rotation[q, p] = -np.conj(rotation[p, q])
    return np.einsum("ki,kl,lj", rotation.conj(), a, rotation)


def singular_values(a: Array) -> Array:
    """Descending: roots of the eigenvalues of the smaller of AᴴA and AAᴴ."""
    gram = np.einsum("ki,kj->ij", a.conj(), a) if a.shape[0] >= a.shape[1] else (
        np.einsum("ik,jk->ij", a, a.conj())
    )  # fmt: skip
    return np.array([math.sqrt(max(v, 0.0)) for v in eigenvalues(gram)[::-1]])


def matrix_size(a: Array, order: Any = "fro") -> float:
    """The norm of one matrix."""
    sizes = np.abs(a)
    if order in (None, "fro"):
        return math.sqrt(math.fsum(v**2 for v in sizes.ravel().tolist()))
    if order in (1, -1, math.inf, -math.inf):
        rows = sizes if abs(order) == math.inf else sizes.T
        return (max if order > 0 else min)(math.fsum(row) for row in rows.tolist())
    values = singular_values(a).tolist()
    return math.fsum(values) if order == "nuc" else (max if order > 0 else min)(values)


def matrix_norm(
    a: Array, order: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, **_: Any
) -> Array:
    found = batched(matrix_size, 2)(np.moveaxis(a, dim, (-2, -1)), order)
    return np.expand_dims(found, tuple(d % a.ndim for d in dim)) if keepdim else found


def any_norm(
    a: Array, order: Any = None, dim: Any = None, keepdim: bool = False, **_: Any
) -> Array:
    """Of vectors along one dimension, of matrices along two; of all elements without an order."""
    if dim is not None and len(dim) == 1:
        rows = lambda row: distance(row, 0 * row, 2 if order is None else order)
        found = np.apply_along_axis(rows, dim[0], a)
        return np.expand_dims(found, dim[0]) if keepdim else found
    if a.ndim == 1 or (dim is None and order is None):
        return np.array(distance(a.ravel(), 0 * a.ravel(), 2 if order is None else order))
    return matrix_norm(a, order, dim or (-2, -1), keepdim)


def condition(a: Array, p: Any = None) -> float:
    if p in (None, 2, -2):
        values = singular_values(a)
        ratio = values[0] / values[-1]
        return 1 / ratio if p == -2 else ratio
    return matrix_size(a, p) * matrix_size(inverse(a), p)


def rank(a: Array, tolerance: Any = None, **_: Any) -> int:
    values = singular_values(a)
    least = 1e-6 * values.max(initial=0.0) if tolerance is None else tolerance
    return sum(v > least for v in values.tolist())


def pseudoinverse(a: Array, *_: Any) -> Array:
    """(AᴴA)⁻¹Aᴴ of a tall matrix, Aᴴ(AAᴴ)⁻¹ of a wide one, of full rank."""
    adjoint = a.conj().T
    if a.shape[0] >= a.shape[1]:
        return eliminated(np.einsum("ij,jk", adjoint, a), adjoint)
    return np.einsum("ij,jk", adjoint, inverse(np.einsum("ij,jk", a, adjoint)))


def least_squares(a: Array, b: Array, *_: Any, **__: Any) -> Array:
    return batched(lambda m, v: np.einsum("ij,jk", pseudoinverse(m), v), 2, 2)(a, b)


solve = lambda a, b, *, left=True, **_: solved(a, b, left)


def some_eigenvalues(
    a: Array, x: Array, near: Any, k: int, niter: int, tol: float, largest: bool
) -> Array:
    """The k largest, or smallest, of all eigenvalues; vectors are compared by their derivatives."""
    values = np.sort(batched(eigenvalues, 2)(a), axis=-1)
    return values[..., ::-1][..., :k] if largest else values[..., :k]


def cosine(x: Array, y: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    """The cosine of an angle, with lengths of eps at least."""
    sizes = [np.maximum(np.sqrt(np.sum(v * v, dim)), eps) for v in (x, y)]
    return np.sum(x * y, dim) / (sizes[0] * sizes[1])


REFERENCES: dict[str, Callable[..., Any]] = {
    "cosine_similarity": cosine,
    "linalg_cholesky": lambda a, *, upper=False: batched(cholesky, 2)(a, upper),
    "linalg_cholesky_ex": lambda a, *, upper=False, **_: batched(cholesky, 2)(a, upper),
    "cholesky": lambda a, upper=False: batched(cholesky, 2)(a, upper),
    "linalg_solve": solve, "linalg_solve_ex": solve,
    "linalg_solve_triangular": solved_triangular,
    "linalg_inv": batched(inverse, 2), "inverse": batched(inverse, 2),
    "linalg_inv_ex": lambda a, **_: batched(inverse, 2)(a),
    "linalg_det": batched(determinant, 2), "det": batched(determinant, 2),
    "_linalg_det": batched(determinant, 2), "_linalg_adjugate": batched(adjugate, 2),
    "linalg_slogdet": sign_and_log, "slogdet": sign_and_log, "_linalg_slogdet": sign_and_log,
    "logdet": lambda a: sign_and_log(a)[1],
    "linalg_matrix_exp": batched(exponential, 2), "matrix_exp": batched(exponential, 2),
    "linalg_matrix_power": batched(powered, 2), "matrix_power": batched(powered, 2),
    "cross": cross, "linalg_cross": lambda a, b, *, dim=-1: cross(a, b, dim),
    "linalg_vecdot": lambda a, b, *, dim=-1: np.add.reduce(a.conj() * b, dim),
    "vander": powers, "linalg_vander": lambda x, *, N=None: powers(x, N, increasing=True),
    "linalg_diagonal": lambda a, *, offset=0, dim1=-2, dim2=-1: np.diagonal(a, offset, dim1, dim2),
    "cdist": distances, "_cdist_forward": distances,
    "pdist": distances_within, "_pdist_forward": distances_within,
    "frobenius_norm": lambda a, dim, keepdim=False: matrix_norm(a, "fro", dim, keepdim),
    "nuclear_norm": lambda a, keepdim=False: matrix_norm(a, "nuc", (-2, -1), keepdim),
    "nuclear_norm.dim": lambda a, dim, keepdim=False: matrix_norm(a, "nuc", dim, keepdim),
    "linalg_matrix_norm": matrix_norm, "linalg_norm": any_norm,
    "linalg_eigvalsh": batched(eigenvalues, 2), "linalg_svdvals": batched(singular_values, 2),
    "linalg_cond": lambda a, p=None: batched(condition, 2)(a, p),
    "linalg_matrix_rank": lambda a, tol=None, **_: batched(rank, 2)(a, tol),
    "linalg_pinv": lambda a, *_, **__: batched(pseudoinverse, 2)(a),
    "pinverse": lambda a, *_: batched(pseudoinverse, 2)(a),
    "linalg_lstsq": least_squares, "_linalg_lstsq": least_squares,
    "_lobpcg": some_eigenvalues,
}  # fmt: skip
