"""Matrices of low rank: random bases, singular values, principal components, some eigenvalues.

What is random is the start; derivatives go through everything that is computed from it, and are
those of the result wherever the result does not depend on the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError
from adjoint.core.shapes import show
from adjoint.tensor.tensor import Tensor


def get_approximate_basis(
    A: Tensor, q: int, niter: int | None = 2, M: Tensor | None = None
) -> Tensor:
    """Return q orthonormal columns whose span nearly holds that of A (of A - M, if M is given).

    Products of A with random vectors, and `niter` times with AAᴴ, orthonormal after every product
    (Halko, Martinsson and Tropp 2009, algorithm 4.4).

    >>> import adjoint as ad
    >>> from adjoint.lowrank import get_approximate_basis
    >>> A = ad.ones(4, 3)
    >>> Q = get_approximate_basis(A, 1)
    >>> ad.allclose(Q @ (Q.mT @ A), A)
    True
    """
    times = 2 if niter is None else niter
    if times < 0 or q < 0:
        raise ArgumentError(f"get_approximate_basis: q={q} and niter={times} must not be negative.")
    apply = lambda X: A.matmul(X) if M is None else A.matmul(X) - M.matmul(X)
    back = lambda X: A.mH.matmul(X) if M is None else A.mH.matmul(X) - M.mH.matmul(X)
    start = ops.randn((A.shape[-1], q), dtype=A.dtype)
    basis = ops.linalg_qr(apply(start))[0]
    for _ in range(times):
        basis = ops.linalg_qr(back(basis))[0]
        basis = ops.linalg_qr(apply(basis))[0]
    return basis


def _matrix(what: str, A: Tensor) -> None:
    if A.ndim < 2:
        raise ShapeError(f"{what}: needs a matrix or a batch of them, got {show(A.shape)}.")
    if not (A.dtype.is_floating_point or A.dtype.is_complex):
        raise DtypeError(f"{what}: needs a floating point or complex matrix, got {A.dtype}.")


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, S, V with A ≈ U diag(S) Vᴴ, of rank q; of A - M, if M is given.

    Exact, up to rounding, for matrices of rank q and less.

    >>> import adjoint as ad
    >>> A = ad.tensor([[3.0, 0.0], [0.0, 0.0], [4.0, 0.0]])
    >>> U, S, V = ad.svd_lowrank(A, q=1)
    >>> S, ad.allclose(U * S @ V.mT, A, atol=1e-6)
    (tensor([5.]), True)
    """
    _matrix("svd_lowrank", A)
    rank = 6 if q is None else q
    m, n = A.shape[-2:]
    if not 0 <= rank <= min(m, n):
        raise ArgumentError(f"svd_lowrank: q={rank} must lie between 0 and {min(m, n)}.")
    shift = None if M is None else M.broadcast_to(A.shape)
    if m >= n:
        return _tall_svd(A, rank, niter, shift)
    V, S, U = _tall_svd(A.mH, rank, niter, None if shift is None else shift.mH)
    return U, S, V


def _tall_svd(
    A: Tensor, q: int, niter: int | None, M: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The factors of a matrix with at least as many rows as columns, from a basis of its range."""
    Q = get_approximate_basis(A, q, niter, M)
    inner = Q.mH.matmul(A) if M is None else Q.mH.matmul(A) - Q.mH.matmul(M)
    left, S, Vh = ops.linalg_svd(inner, False)
    return Q.matmul(left), S, Vh.mH


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, S, V of the rows of A, minus their mean if `center`: V holds the components.

    >>> import adjoint as ad
    >>> A = ad.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    >>> ad.pca_lowrank(A, q=1)[1]
    tensor([2.])
    """
    _matrix("pca_lowrank", A)
    m, n = A.shape[-2:]
    rank = min(6, m, n) if q is None else q
    if not 0 <= rank <= min(m, n):
        raise ArgumentError(f"pca_lowrank: q={rank} must lie between 0 and {min(m, n)}.")
    if niter < 0:
        raise ArgumentError(f"pca_lowrank: niter={niter} must not be negative.")
    centered = A - A.mean((-2,), True) if center else A
    return svd_lowrank(centered, rank, niter)


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[..., Any] | None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the k largest (or smallest) eigenvalues of A x = λ B x and their vectors.

    A is symmetric, B symmetric and positive definite, iK an approximation of A⁻¹; X is the start,
    n vectors at random if it is not given. Vectors are B-orthonormal. Iteration ends after `niter`
    steps (1000; -1 for no limit) or when residuals are below `tol` times the norm of A. There is
    one method, which keeps its basis orthonormal; parameters of that are taken and not needed.
    Derivatives are those of the eigenvalues and vectors in A and B, in both modes and of any order.

    >>> import adjoint as ad
    >>> A = ad.diag(ad.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 9.0]))
    >>> ad.lobpcg(A, k=2)[0].round(decimals=3)
    tensor([9., 5.])
    """
    if tracker is not None:
        raise ArgumentError("lobpcg: tracker= is not supported; iterate with niter= and X=.")
    if method not in (None, "basic", "ortho"):
        raise ArgumentError(f"lobpcg: method is 'ortho' or 'basic', got {method!r}.")
    if not A.dtype.is_floating_point:
        raise DtypeError(f"lobpcg: needs a real floating point matrix, got {A.dtype}.")
    _matrix("lobpcg", A)
    count = (1 if X is None else X.shape[-1]) if k is None else k
    given = ops.randn((A.shape[-1], count if n is None else n), dtype=A.dtype) if X is None else X
    times = 1000 if niter is None else niter
    accuracy = dtypes.finfo(A.dtype).eps ** 0.5 if tol is None else tol
    start = given.detach()
    if B is None:
        return _iterated(A, start, iK, count, times, accuracy, largest is not False)
    # with B = L Lᵀ, y = Lᵀ x solves L⁻¹ A L⁻ᵀ y = λ y
    L = ops.linalg_cholesky(B)
    inner = ops.linalg_solve_triangular(L, A, upper=False)
    inner = ops.linalg_solve_triangular(L, inner.mT, upper=False)
    near = None if iK is None else L.mT.matmul(iK).matmul(L)
    first = L.detach().mT.matmul(start)
    values, Y = _iterated(inner, first, near, count, times, accuracy, largest is not False)
    return values, ops.linalg_solve_triangular(L.mT, Y, upper=True)


def _iterated(
    A: Tensor, X: Tensor, iK: Tensor | None, k: int, niter: int, tol: float, largest: bool
) -> tuple[Tensor, Tensor]:
    near = None if iK is None else iK.detach()
    found = ops._lobpcg(A, X, near, k, niter, tol, largest)
    return found[0], found[1]
