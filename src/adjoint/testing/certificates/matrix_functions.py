"""Functions of matrices with their truths, by other formulas: what `matrices.py` measures.

A function is a number: the sum of the elements of its result, weighted at random. Truths are
written in the long numbers of `exact.py` and never in our operators.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import adjoint as ad
from adjoint.core.records import record
from adjoint.testing.certificates import exact
from adjoint.testing.certificates.exact import Matrix, diagonal, exp, log, sqrt, total, weighted


@record
class Function:
    """A number that depends on a matrix."""

    name: str  # "exp(A) by eigh"
    operator: str  # "linalg_eigh"
    ours: Callable[[Any, Any], Any]  # of a tensor A and weights W
    truth: Callable[[Matrix, Matrix], Any]
    kind: str  # "symmetric", "hermitian", "general", "square", "tall", "wide"
    spectra: tuple[str, ...]  # the situations in which it is smooth
    family: str = "matrices"

    @property
    def title(self) -> str:
        return f"{self.name}, {self.kind}"


def _eigh(g: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def f(A: Any, W: Any) -> Any:
        w, V = ad.linalg.eigh(0.5 * (A + A.mH))
        return (W * ((V * g(w)) @ V.mH)).sum().real

    return f


def _eigvalsh(g: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda A, W: g(ad.linalg.eigvalsh(0.5 * (A + A.mH)))


def _svd(g: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def f(A: Any, W: Any) -> Any:
        U, S, Vh = ad.linalg.svd(A, full_matrices=False)
        return (W * ((U * g(S)) @ Vh)).sum().real

    return f


def _eig(g: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def f(A: Any, W: Any) -> Any:
        w, V = ad.linalg.eig(A)
        return (W * ((V * g(w)) @ ad.linalg.inv(V))).sum().real

    return f


def _projector(A: Any, W: Any) -> Any:
    V = ad.linalg.eigh(0.5 * (A + A.mH))[1][:, :2]
    return (W * (V @ V.mH)).sum().real


def _hermitian(g: Callable[[Any], Any]) -> Callable[[Matrix, Matrix], Any]:
    return lambda A, W: weighted(W, ((A + A.H) * 0.5).function(g))


def _of_values(g: Callable[[list[Any]], Any]) -> Callable[[Matrix, Matrix], Any]:
    return lambda A, W: g(((A + A.H) * 0.5).eig()[0])


def _true_projector(A: Matrix, W: Matrix) -> Any:
    values, V = ((A + A.H) * 0.5).eig()
    chosen = [z * 0 + (1 if k < 2 else 0) for k, z in enumerate(values)]
    return weighted(W, V @ diagonal(chosen) @ V.inverse())


def _odd(g: Callable[[Any], Any]) -> Callable[[Matrix, Matrix], Any]:
    """A g(AᴴA), or g(AAᴴ) A, which is the smaller one."""

    def f(A: Matrix, W: Matrix) -> Any:
        rows, columns = A.shape
        found = A @ (A.H @ A).function(g) if rows >= columns else (A @ A.H).function(g) @ A
        return weighted(W, found)

    return f


def _singular(g: Callable[[list[Any]], Any]) -> Callable[[Matrix, Matrix], Any]:
    def f(A: Matrix, W: Matrix) -> Any:
        rows, columns = A.shape
        squares = (A.H @ A if rows >= columns else A @ A.H).eig()[0]
        return g([sqrt(z) for z in squares])

    return f


_CLOSE = ("far", "pair", "triple", "two pairs", "ladder")
_ANY = (*_CLOSE, "zeros", "near zero", "ratios", "all")
_POSITIVE = (*_CLOSE, "all")


def _fermi(w: Any) -> Any:
    return 1 / (1 + ((w - 1.0) * 20).exp())


def functions() -> tuple[Function, ...]:
    """All functions that are measured."""
    return _FUNCTIONS


_FUNCTIONS = (
    Function(
        "exp(A) by eigh",
        "linalg_eigh",
        _eigh(lambda w: w.exp()),
        _hermitian(exp),
        "symmetric",
        _ANY,
    ),
    Function(
        "A³ by eigh",
        "linalg_eigh",
        _eigh(lambda w: w**3),
        _hermitian(lambda z: z * z * z),
        "symmetric",
        _ANY,
    ),
    Function(
        "√A by eigh",
        "linalg_eigh",
        _eigh(lambda w: w.sqrt()),
        _hermitian(sqrt),
        "symmetric",
        _POSITIVE,
    ),
    Function(
        "log A by eigh",
        "linalg_eigh",
        _eigh(lambda w: w.log()),
        _hermitian(log),
        "symmetric",
        _POSITIVE,
    ),
    Function(
        "A⁻¹ by eigh",
        "linalg_eigh",
        _eigh(lambda w: 1 / w),
        _hermitian(lambda z: 1 / z),
        "symmetric",
        _POSITIVE,
    ),
    Function(
        "Fermi function by eigh",
        "linalg_eigh",
        _eigh(_fermi),
        _hermitian(lambda z: 1 / (1 + exp((z - 1) * 20))),
        "symmetric",
        _ANY,
    ),
    Function(
        "exp(A) by eigh",
        "linalg_eigh",
        _eigh(lambda w: w.exp()),
        _hermitian(exp),
        "hermitian",
        _ANY,
    ),
    Function("projector", "linalg_eigh", _projector, _true_projector, "symmetric", ("far", "pair")),
    Function("projector", "linalg_eigh", _projector, _true_projector, "hermitian", ("far", "pair")),
    Function(
        "tr A³ by eigvalsh",
        "linalg_eigvalsh",
        _eigvalsh(lambda w: (w**3).sum()),
        _of_values(lambda z: total([x * x * x for x in z])),
        "symmetric",
        _ANY,
    ),
    Function(
        "log det by eigvalsh",
        "linalg_eigvalsh",
        _eigvalsh(lambda w: w.log().sum()),
        _of_values(lambda z: total([log(x) for x in z])),
        "symmetric",
        _POSITIVE,
    ),
    Function(
        "sum of the two smallest",
        "linalg_eigvalsh",
        _eigvalsh(lambda w: w[:2].sum()),
        _of_values(lambda z: z[0] + z[1]),
        "symmetric",
        ("far", "pair"),
    ),
    Function("U S³ Vᴴ", "linalg_svd", _svd(lambda s: s**3), _odd(lambda z: z), "square", _ANY),
    Function("U S³ Vᴴ", "linalg_svd", _svd(lambda s: s**3), _odd(lambda z: z), "tall", _ANY),
    Function("U S³ Vᴴ", "linalg_svd", _svd(lambda s: s**3), _odd(lambda z: z), "wide", _ANY),
    Function(
        "U sinh(S) Vᴴ",
        "linalg_svd",
        _svd(lambda s: s.sinh()),
        _odd(lambda z: _sinhc(z)),
        "square",
        _ANY,
    ),
    Function(
        "polar factor",
        "linalg_svd",
        _svd(lambda s: s**0),
        _odd(lambda z: 1 / sqrt(z)),
        "square",
        _POSITIVE,
    ),
    Function(
        "polar factor",
        "linalg_svd",
        _svd(lambda s: s**0),
        _odd(lambda z: 1 / sqrt(z)),
        "tall",
        _POSITIVE,
    ),
    Function(
        "polar factor",
        "linalg_svd",
        _svd(lambda s: s**0),
        _odd(lambda z: 1 / sqrt(z)),
        "complex",
        _POSITIVE,
    ),
    Function(
        "pseudo-inverse by svd",
        "linalg_svd",
        _svd(lambda s: 1 / s),
        _odd(lambda z: 1 / z),
        "tall",
        _POSITIVE,
    ),
    Function(
        "nuclear norm",
        "linalg_matrix_norm",
        lambda A, W: ad.linalg.matrix_norm(A, "nuc"),
        _singular(total),
        "square",
        _POSITIVE,
    ),
    Function(
        "nuclear norm",
        "linalg_matrix_norm",
        lambda A, W: ad.linalg.matrix_norm(A, "nuc"),
        _singular(total),
        "tall",
        _POSITIVE,
    ),
    Function(
        "Σ S⁴ by svdvals",
        "linalg_svdvals",
        lambda A, W: (ad.linalg.svdvals(A) ** 4).sum(),
        _singular(lambda s: total([x * x * x * x for x in s])),
        "wide",
        _ANY,
    ),
    Function(
        "A² by eig",
        "linalg_eig",
        _eig(lambda w: w**2),
        lambda A, W: weighted(W, A @ A),
        "general",
        _ANY,
    ),
    Function(
        "exp(A) by eig",
        "linalg_eig",
        _eig(lambda w: w.exp()),
        lambda A, W: weighted(W, A.function(exp)),
        "general",
        _ANY,
    ),
    Function(
        "tr A³ by eigvals",
        "linalg_eigvals",
        lambda A, W: (ad.linalg.eigvals(A) ** 3).sum().real,
        lambda A, W: total((A @ A @ A).diagonal()),
        "general",
        _ANY,
    ),
    Function(
        "matrix_exp",
        "linalg_matrix_exp",
        lambda A, W: (W * ad.linalg.matrix_exp(A)).sum().real,
        lambda A, W: weighted(W, A.function(exp)),
        "general",
        _ANY,
    ),
    Function(
        "inv",
        "linalg_inv",
        lambda A, W: (W * ad.linalg.inv(A)).sum().real,
        lambda A, W: weighted(W, A.inverse()),
        "square",
        _POSITIVE,
    ),
    Function(
        "pinv",
        "linalg_pinv",
        lambda A, W: (W.mH * ad.linalg.pinv(A)).sum().real,
        lambda A, W: weighted(W.H, (A.H @ A).inverse() @ A.H),
        "tall",
        _POSITIVE,
    ),
    Function(
        "det", "linalg_det", lambda A, W: ad.linalg.det(A), lambda A, W: A.det(), "square", _ANY
    ),
    Function(
        "slogdet",
        "linalg_slogdet",
        lambda A, W: ad.linalg.slogdet(A)[1],
        lambda A, W: log(A.det() * A.det()) * 0.5,
        "square",
        _POSITIVE,
    ),
    Function(
        "Q R by qr",
        "linalg_qr",
        lambda A, W: (W * (lambda q: q[0] @ q[1])(ad.linalg.qr(A)) ** 2).sum(),
        lambda A, W: weighted(W, _squares(A)),
        "tall",
        _ANY,
    ),
    Function(
        "R² by qr",
        "linalg_qr",
        lambda A, W: (W[:-1] * ad.linalg.qr(A)[1] ** 2).sum(),
        lambda A, W: weighted(_top(W), _squares((A.H @ A).cholesky().H)),
        "tall",
        _POSITIVE,
    ),
    Function(
        "Q Qᴴ by qr",
        "linalg_qr",
        lambda A, W: (W.mH @ (lambda q: q @ q.mH)(ad.linalg.qr(A)[0])).sum(),
        lambda A, W: total((W.H @ (A @ (A.H @ A).inverse() @ A.H)).entries()),
        "tall",
        _POSITIVE,
    ),
    Function(
        "cholesky",
        "linalg_cholesky",
        lambda A, W: (W * ad.linalg.cholesky(A)).sum(),
        lambda A, W: weighted(W, A.cholesky()),
        "symmetric",
        _POSITIVE,
    ),
    Function(
        "cholesky_solve",
        "cholesky_solve",
        lambda A, W: (W * ad.cholesky_solve(W, ad.linalg.cholesky(A))).sum(),
        lambda A, W: weighted(W, A.inverse() @ W),
        "symmetric",
        _POSITIVE,
    ),
    Function(
        "cholesky_inverse",
        "cholesky_inverse",
        lambda A, W: (W * ad.cholesky_inverse(ad.linalg.cholesky(A))).sum(),
        lambda A, W: weighted(W, A.inverse()),
        "symmetric",
        _POSITIVE,
    ),
    Function(
        "logdet",
        "logdet",
        lambda A, W: ad.logdet(A),
        lambda A, W: log(A.det()),
        "symmetric",
        _POSITIVE,
    ),
    Function(
        "solve",
        "linalg_solve",
        lambda A, W: (W * ad.linalg.solve(A, W)).sum().real,
        lambda A, W: weighted(W, A.inverse() @ W),
        "square",
        _POSITIVE,
    ),
    Function(
        "solve",
        "linalg_solve",
        lambda A, W: (W * ad.linalg.solve(A, W)).sum().real,
        lambda A, W: weighted(W, A.inverse() @ W),
        "complex",
        _POSITIVE,
    ),
    Function(
        "solve_triangular",
        "linalg_solve_triangular",
        lambda A, W: (W * ad.linalg.solve_triangular(ad.tril(A), W, upper=False)).sum(),
        lambda A, W: weighted(W, _lower(A).inverse() @ W),
        "symmetric",
        _POSITIVE,
    ),
    Function(
        "L and U by lu",
        "linalg_lu",
        lambda A, W: _of_factors(ad.linalg.lu(A), W),
        lambda A, W: _of_factors_truly(*A.lu(), W),
        "general",
        _POSITIVE,
    ),
    Function(
        "lu_solve",
        "linalg_lu_solve",
        lambda A, W: (W * ad.linalg.lu_solve(*ad.linalg.lu_factor(A), W)).sum(),
        lambda A, W: weighted(W, A.inverse() @ W),
        "general",
        _POSITIVE,
    ),
    Function(
        "lstsq",
        "linalg_lstsq",
        lambda A, W: ad.linalg.lstsq(A, W).solution.sum(),
        lambda A, W: total(((A.H @ A).inverse() @ A.H @ W).entries()),
        "tall",
        _POSITIVE,
    ),
    Function(
        "A³ by matrix_power",
        "linalg_matrix_power",
        lambda A, W: (W * ad.linalg.matrix_power(A, 3)).sum(),
        lambda A, W: weighted(W, A @ A @ A),
        "general",
        _ANY,
    ),
    Function(
        "A⁻² by matrix_power",
        "linalg_matrix_power",
        lambda A, W: (W * ad.linalg.matrix_power(A, -2)).sum(),
        lambda A, W: weighted(W, A.inverse() @ A.inverse()),
        "general",
        _POSITIVE,
    ),
    Function(
        "√A by sqrtm",
        "sl.sqrtm",
        lambda A, W: (W * _scipy().sqrtm(A)).sum().real,
        lambda A, W: weighted(W, A.function(sqrt)),
        "general",
        _POSITIVE,
    ),
    Function(
        "log A by logm",
        "sl.logm",
        lambda A, W: (W * _scipy().logm(A)).sum().real,
        lambda A, W: weighted(W, A.function(log)),
        "general",
        _POSITIVE,
    ),
    Function(
        "spectral norm",
        "linalg_matrix_norm",
        lambda A, W: ad.linalg.matrix_norm(A, 2),
        _singular(lambda s: s[-1]),
        "square",
        ("far", "pair", "zeros", "ratios"),
    ),
    Function(
        "condition",
        "linalg_cond",
        lambda A, W: ad.linalg.cond(A),
        _singular(lambda s: s[-1] / s[0]),
        "square",
        ("far",),
    ),
)


@cache
def _scipy() -> Any:
    import adjoint.scipy.linalg

    return adjoint.scipy.linalg


def _top(W: Matrix) -> Matrix:
    """All rows but the last."""
    return W.H.part(slice(-1)).H


def _lower(A: Matrix) -> Matrix:
    n, entries = A.shape[0], A.entries()
    return exact.matrix_of(
        [[entries[i * n + j] * (1 if j <= i else 0) for j in range(n)] for i in range(n)]
    )


def _of_factors(factors: Any, W: Any) -> Any:
    P, L, U = factors
    return (W * (P @ L)).sum() + (W * U).sum()


def _of_factors_truly(P: Matrix, L: Matrix, U: Matrix, W: Matrix) -> Any:
    return weighted(W, P @ L) + weighted(W, U)


def _sinhc(z: Any) -> Any:
    """sinh(√z)/√z."""
    root = sqrt(z)
    return (exp(root) - 1 / exp(root)) / (2 * root)


def _squares(A: Matrix) -> Matrix:
    rows, columns = A.shape
    entries = A.entries()
    return exact.matrix_of(
        [[entries[i * columns + j] ** 2 for j in range(columns)] for i in range(rows)]
    )
