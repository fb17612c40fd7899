"""Functions of matrices with their truths, by other formulas: what `matrices.py` measures.

A function is a number: the sum of the elements of its result, weighted at random. Truths are
written in the long numbers of `exact.py` and never in our operators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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
    # Whether a direction moves a column in proportion to its size. Q and R of a small column are as
    # steep as it is small, so that their product has lost that many digits of any other direction
    # as soon as the two derivatives are rounded: Q̇ R + Q Ṙ cancels, and R[0,1] of a large second
    # column hides the small R[0,0] in Q̄ = W Rᴴ.
    by_columns: bool = False

    @property
    def title(self) -> str:
        return f"{self.name}, {self.kind}"


def _eigvalsh(g: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda A, W: g(ad.linalg.eigvalsh(0.5 * (A + A.mH)))


def _eig(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def f(A: Any) -> Any:
        w, V = ad.linalg.eig(A)
        return (V * g(w)) @ ad.linalg.inv(V)

    return f


def _projector(A: Any) -> Any:
    V = ad.linalg.eigh(0.5 * (A + A.mH))[1][:, :2]
    return V @ V.mH


def _true_projector(A: Matrix) -> Matrix:
    values, V = ((A + A.H) * 0.5).eig()
    chosen = [z * 0 + (1 if k < 2 else 0) for k, z in enumerate(values)]
    return V @ diagonal(chosen) @ V.inverse()


def _of_values(g: Callable[[list[Any]], Any]) -> Callable[[Matrix, Matrix], Any]:
    return lambda A, W: g(((A + A.H) * 0.5).eig()[0])


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


def _number(
    name: str,
    operator: str,
    ours: Callable[[Any, Any], Any],
    truth: Callable[[Matrix, Matrix], Any],
    kinds: str,
    spectra: tuple[str, ...],
) -> list[Function]:
    """A number, for matrices of several kinds: "tall wide"."""
    return [Function(name, operator, ours, truth, kind, spectra) for kind in kinds.split()]


def _weighted(
    name: str,
    operator: str,
    ours: Callable[[Any], Any],
    truth: Callable[[Matrix], Matrix],
    kinds: str,
    spectra: tuple[str, ...],
) -> list[Function]:
    """The weighted sum of the elements of a matrix."""
    number = lambda A, W: (W * ours(A)).sum().real
    return _number(name, operator, number, lambda A, W: weighted(W, truth(A)), kinds, spectra)


def _by_eigh(
    name: str, g: Callable[[Any], Any], truth: Callable[[Any], Any], kinds: str,
    spectra: tuple[str, ...],
) -> list[Function]:  # fmt: skip
    """V g(w) Vᴴ."""

    def f(A: Any) -> Any:
        w, V = ad.linalg.eigh(0.5 * (A + A.mH))
        return (V * g(w)) @ V.mH

    exactly = lambda A: ((A + A.H) * 0.5).function(truth)
    return _weighted(name, "linalg_eigh", f, exactly, kinds, spectra)


def _by_svd(
    name: str, g: Callable[[Any], Any], truth: Callable[[Any], Any], kinds: str,
    spectra: tuple[str, ...],
) -> list[Function]:  # fmt: skip
    """U g(S) Vᴴ; truly A h(AᴴA), or h(AAᴴ) A, which is the smaller one."""

    def f(A: Any) -> Any:
        U, S, Vh = ad.linalg.svd(A, full_matrices=False)
        return (U * g(S)) @ Vh

    def exactly(A: Matrix) -> Matrix:
        rows, columns = A.shape
        return A @ (A.H @ A).function(truth) if rows >= columns else (A @ A.H).function(truth) @ A

    return _weighted(name, "linalg_svd", f, exactly, kinds, spectra)


_FUNCTIONS = (
    *_by_eigh("exp(A) by eigh", lambda w: w.exp(), exp, "symmetric", _ANY),
    *_by_eigh("A³ by eigh", lambda w: w**3, lambda z: z * z * z, "symmetric", _ANY),
    *_by_eigh("√A by eigh", lambda w: w.sqrt(), sqrt, "symmetric", _POSITIVE),
    *_by_eigh("log A by eigh", lambda w: w.log(), log, "symmetric", _POSITIVE),
    *_by_eigh("A⁻¹ by eigh", lambda w: 1 / w, lambda z: 1 / z, "symmetric", _POSITIVE),
    *_by_eigh(
        "Fermi function by eigh", _fermi, lambda z: 1 / (1 + exp((z - 1) * 20)), "symmetric", _ANY
    ),
    *_by_eigh("exp(A) by eigh", lambda w: w.exp(), exp, "hermitian", _ANY),
    *_weighted(
        "projector",
        "linalg_eigh",
        _projector,
        _true_projector,
        "symmetric hermitian",
        ("far", "pair"),
    ),
    *_number(
        "tr A³ by eigvalsh",
        "linalg_eigvalsh",
        _eigvalsh(lambda w: (w**3).sum()),
        _of_values(lambda z: total([x * x * x for x in z])),
        "symmetric",
        _ANY,
    ),
    *_number(
        "log det by eigvalsh",
        "linalg_eigvalsh",
        _eigvalsh(lambda w: w.log().sum()),
        _of_values(lambda z: total([log(x) for x in z])),
        "symmetric",
        _POSITIVE,
    ),
    *_number(
        "sum of the two smallest",
        "linalg_eigvalsh",
        _eigvalsh(lambda w: w[:2].sum()),
        _of_values(lambda z: z[0] + z[1]),
        "symmetric",
        ("far", "pair"),
    ),
    *_by_svd("U S³ Vᴴ", lambda s: s**3, lambda z: z, "square tall wide", _ANY),
    *_by_svd("U sinh(S) Vᴴ", lambda s: s.sinh(), lambda z: _sinhc(z), "square", _ANY),
    *_by_svd(
        "polar factor", lambda s: s**0, lambda z: 1 / sqrt(z), "square tall complex", _POSITIVE
    ),
    *_by_svd("pseudo-inverse by svd", lambda s: 1 / s, lambda z: 1 / z, "tall", _POSITIVE),
    *_number(
        "nuclear norm",
        "linalg_matrix_norm",
        lambda A, W: ad.linalg.matrix_norm(A, "nuc"),
        _singular(total),
        "square tall",
        _POSITIVE,
    ),
    *_number(
        "Σ S⁴ by svdvals",
        "linalg_svdvals",
        lambda A, W: (ad.linalg.svdvals(A) ** 4).sum(),
        _singular(lambda s: total([x * x * x * x for x in s])),
        "wide",
        _ANY,
    ),
    *_weighted("A² by eig", "linalg_eig", _eig(lambda w: w**2), lambda A: A @ A, "general", _ANY),
    *_weighted(
        "exp(A) by eig",
        "linalg_eig",
        _eig(lambda w: w.exp()),
        lambda A: A.function(exp),
        "general",
        _ANY,
    ),
    *_number(
        "tr A³ by eigvals",
        "linalg_eigvals",
        lambda A, W: (ad.linalg.eigvals(A) ** 3).sum().real,
        lambda A, W: total((A @ A @ A).diagonal()),
        "general",
        _ANY,
    ),
    *_weighted(
        "matrix_exp",
        "linalg_matrix_exp",
        ad.linalg.matrix_exp,
        lambda A: A.function(exp),
        "general",
        _ANY,
    ),
    *_weighted("inv", "linalg_inv", ad.linalg.inv, Matrix.inverse, "square", _POSITIVE),
    *_number(
        "pinv",
        "linalg_pinv",
        lambda A, W: (W.mH * ad.linalg.pinv(A)).sum().real,
        lambda A, W: weighted(W.H, (A.H @ A).inverse() @ A.H),
        "tall",
        _POSITIVE,
    ),
    *_number(
        "det", "linalg_det", lambda A, W: ad.linalg.det(A), lambda A, W: A.det(), "square", _ANY
    ),
    *_number(
        "slogdet",
        "linalg_slogdet",
        lambda A, W: ad.linalg.slogdet(A)[1],
        lambda A, W: log(A.det() * A.det()) * 0.5,
        "square",
        _POSITIVE,
    ),
    *(
        replace(function, by_columns=True)
        for function in _weighted(
            "Q R by qr",
            "linalg_qr",
            lambda A: (lambda q: q[0] @ q[1])(ad.linalg.qr(A)) ** 2,
            lambda A: _squares(A),
            "tall",
            _ANY,
        )
    ),
    *_number(
        "R² by qr",
        "linalg_qr",
        lambda A, W: (W[:-1] * ad.linalg.qr(A)[1] ** 2).sum(),
        lambda A, W: weighted(_top(W), _squares((A.H @ A).cholesky().H)),
        "tall",
        _POSITIVE,
    ),
    *_number(
        "Q Qᴴ by qr",
        "linalg_qr",
        lambda A, W: (W.mH @ (lambda q: q @ q.mH)(ad.linalg.qr(A)[0])).sum(),
        lambda A, W: total((W.H @ (A @ (A.H @ A).inverse() @ A.H)).entries()),
        "tall",
        _POSITIVE,
    ),
    *_weighted(
        "cholesky", "linalg_cholesky", ad.linalg.cholesky, Matrix.cholesky, "symmetric", _POSITIVE
    ),
    *_number(
        "cholesky_solve",
        "cholesky_solve",
        lambda A, W: (W * ad.cholesky_solve(W, ad.linalg.cholesky(A))).sum(),
        lambda A, W: weighted(W, A.inverse() @ W),
        "symmetric",
        _POSITIVE,
    ),
    *_weighted(
        "cholesky_inverse",
        "cholesky_inverse",
        lambda A: ad.cholesky_inverse(ad.linalg.cholesky(A)),
        Matrix.inverse,
        "symmetric",
        _POSITIVE,
    ),
    *_number(
        "logdet",
        "logdet",
        lambda A, W: ad.logdet(A),
        lambda A, W: log(A.det()),
        "symmetric",
        _POSITIVE,
    ),
    *_number(
        "solve",
        "linalg_solve",
        lambda A, W: (W * ad.linalg.solve(A, W)).sum().real,
        lambda A, W: weighted(W, A.inverse() @ W),
        "square complex",
        _POSITIVE,
    ),
    *_number(
        "solve_triangular",
        "linalg_solve_triangular",
        lambda A, W: (W * ad.linalg.solve_triangular(ad.tril(A), W, upper=False)).sum(),
        lambda A, W: weighted(W, _lower(A).inverse() @ W),
        "symmetric",
        _POSITIVE,
    ),
    *_number(
        "L and U by lu",
        "linalg_lu",
        lambda A, W: _of_factors(ad.linalg.lu(A), W),
        lambda A, W: _of_factors_truly(*A.lu(), W),
        "general",
        _POSITIVE,
    ),
    *_number(
        "lu_solve",
        "linalg_lu_solve",
        lambda A, W: (W * ad.linalg.lu_solve(*ad.linalg.lu_factor(A), W)).sum(),
        lambda A, W: weighted(W, A.inverse() @ W),
        "general",
        _POSITIVE,
    ),
    *_number(
        "lstsq",
        "linalg_lstsq",
        lambda A, W: ad.linalg.lstsq(A, W).solution.sum(),
        lambda A, W: total(((A.H @ A).inverse() @ A.H @ W).entries()),
        "tall",
        _POSITIVE,
    ),
    *_weighted(
        "A³ by matrix_power",
        "linalg_matrix_power",
        lambda A: ad.linalg.matrix_power(A, 3),
        lambda A: A @ A @ A,
        "general",
        _ANY,
    ),
    *_weighted(
        "A⁻² by matrix_power",
        "linalg_matrix_power",
        lambda A: ad.linalg.matrix_power(A, -2),
        lambda A: A.inverse() @ A.inverse(),
        "general",
        _POSITIVE,
    ),
    *_weighted(
        "√A by sqrtm",
        "sl.sqrtm",
        lambda A: _scipy().sqrtm(A),
        lambda A: A.function(sqrt),
        "general",
        _POSITIVE,
    ),
    *_weighted(
        "log A by logm",
        "sl.logm",
        lambda A: _scipy().logm(A),
        lambda A: A.function(log),
        "general",
        _POSITIVE,
    ),
    *_number(
        "spectral norm",
        "linalg_matrix_norm",
        lambda A, W: ad.linalg.matrix_norm(A, 2),
        _singular(lambda s: s[-1]),
        "square",
        ("far", "pair", "zeros", "ratios"),
    ),
    *_number(
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
