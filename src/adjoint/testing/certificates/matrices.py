"""Functions of matrices, value to third derivative: errors over ε times the condition.

Each function is computed with our eigenvalues, singular values or factors, and once more in
hundreds of digits by other formulas (`exact.py`). The matrices have eigenvalues or singular values
that are far apart, equal, close together to all degrees, zero, or many powers of ten apart. The
derivatives are those along a direction, in all compositions of modes. The unit of a derivative q is
ε(|q| + |A| |dq|), where dq is how quickly q changes with A: as much as q moves when A is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.records import record
from adjoint.testing.certificates import exact
from adjoint.testing.certificates.exact import Matrix, diagonal, exp, log, sqrt, total, weighted

Array = np.ndarray[Any, Any]
GAPS = (0.0, 2.0**-52, 1e-15, 1e-13, 1e-11, 1e-9, 1e-7, 1e-5, 1e-3, 1e-2, 1e-1)
# f: forward, r: reverse; the innermost derivative first
MODES = ("r", "f", "rr", "rf", "fr", "ff", "rrr", "rff", "frf", "fff", "ffr", "rfr")


@record
class Function:
    """A number that depends on a matrix."""

    name: str  # "exp of eigh"
    ours: Callable[[Any, Any], Any]  # of a tensor A and weights W
    truth: Callable[[Matrix, Matrix], Any]
    kind: str  # "symmetric", "hermitian", "general", "square", "tall", "wide"
    spectra: tuple[str, ...]  # the situations in which it is smooth


@record
class Error:
    """The error of one derivative over ε times the condition."""

    function: str  # "exp of eigh"
    situation: str  # "a pair, gap 1e-11"
    dtype: str  # "float64"
    order: int
    mode: str  # "rf"
    error: float


# -- functions -------------------------------------------------------------------------------------


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
    Function("exp(A) by eigh", _eigh(lambda w: w.exp()), _hermitian(exp), "symmetric", _ANY),
    Function("A³ by eigh", _eigh(lambda w: w**3), _hermitian(lambda z: z * z * z), "symmetric", _ANY),
    Function("√A by eigh", _eigh(lambda w: w.sqrt()), _hermitian(sqrt), "symmetric", _POSITIVE),
    Function("log A by eigh", _eigh(lambda w: w.log()), _hermitian(log), "symmetric", _POSITIVE),
    Function("A⁻¹ by eigh", _eigh(lambda w: 1 / w), _hermitian(lambda z: 1 / z), "symmetric", _POSITIVE),
    Function("Fermi function by eigh", _eigh(_fermi), _hermitian(lambda z: 1 / (1 + exp((z - 1) * 20))),
             "symmetric", _ANY),
    Function("exp(A) by eigh", _eigh(lambda w: w.exp()), _hermitian(exp), "hermitian", _ANY),
    Function("projector", _projector, _true_projector, "symmetric", ("far", "pair")),
    Function("projector", _projector, _true_projector, "hermitian", ("far", "pair")),
    Function("tr A³ by eigvalsh", _eigvalsh(lambda w: (w**3).sum()),
             _of_values(lambda z: total([x * x * x for x in z])), "symmetric", _ANY),
    Function("log det by eigvalsh", _eigvalsh(lambda w: w.log().sum()),
             _of_values(lambda z: total([log(x) for x in z])), "symmetric", _POSITIVE),
    Function("sum of the two smallest", _eigvalsh(lambda w: w[:2].sum()),
             _of_values(lambda z: z[0] + z[1]), "symmetric", ("far", "pair")),
    Function("U S³ Vᴴ", _svd(lambda s: s**3), _odd(lambda z: z), "square", _ANY),
    Function("U S³ Vᴴ", _svd(lambda s: s**3), _odd(lambda z: z), "tall", _ANY),
    Function("U S³ Vᴴ", _svd(lambda s: s**3), _odd(lambda z: z), "wide", _ANY),
    Function("U sinh(S) Vᴴ", _svd(lambda s: s.sinh()), _odd(lambda z: _sinhc(z)), "square", _ANY),
    Function("polar factor", _svd(lambda s: s**0), _odd(lambda z: 1 / sqrt(z)), "square", _POSITIVE),
    Function("polar factor", _svd(lambda s: s**0), _odd(lambda z: 1 / sqrt(z)), "tall", _POSITIVE),
    Function("polar factor", _svd(lambda s: s**0), _odd(lambda z: 1 / sqrt(z)), "complex", _POSITIVE),
    Function("pseudo-inverse by svd", _svd(lambda s: 1 / s), _odd(lambda z: 1 / z), "tall", _POSITIVE),
    Function("nuclear norm", lambda A, W: ad.linalg.matrix_norm(A, "nuc"), _singular(total),
             "square", _POSITIVE),
    Function("nuclear norm", lambda A, W: ad.linalg.matrix_norm(A, "nuc"), _singular(total),
             "tall", _POSITIVE),
    Function("Σ S⁴ by svdvals", lambda A, W: (ad.linalg.svdvals(A) ** 4).sum(),
             _singular(lambda s: total([x * x * x * x for x in s])), "wide", _ANY),
    Function("A² by eig", _eig(lambda w: w**2), lambda A, W: weighted(W, A @ A), "general", _ANY),
    Function("exp(A) by eig", _eig(lambda w: w.exp()), lambda A, W: weighted(W, A.function(exp)),
             "general", _ANY),
    Function("tr A³ by eigvals", lambda A, W: (ad.linalg.eigvals(A) ** 3).sum().real,
             lambda A, W: total((A @ A @ A).diagonal()), "general", _ANY),
    Function("matrix_exp", lambda A, W: (W * ad.linalg.matrix_exp(A)).sum().real,
             lambda A, W: weighted(W, A.function(exp)), "general", _ANY),
    Function("inv", lambda A, W: (W * ad.linalg.inv(A)).sum().real,
             lambda A, W: weighted(W, A.inverse()), "square", _POSITIVE),
    Function("pinv", lambda A, W: (W.mH * ad.linalg.pinv(A)).sum().real,
             lambda A, W: weighted(W.H, (A.H @ A).inverse() @ A.H), "tall", _POSITIVE),
    Function("det", lambda A, W: ad.linalg.det(A), lambda A, W: A.det(), "square", _ANY),
    Function("slogdet", lambda A, W: ad.linalg.slogdet(A)[1], lambda A, W: log(A.det() * A.det()) * 0.5,
             "square", _POSITIVE),
    Function("QR", lambda A, W: (W * (lambda q: q[0] @ q[1])(ad.linalg.qr(A)) ** 2).sum(),
             lambda A, W: weighted(W, _squares(A)), "tall", _ANY),
)  # fmt: skip


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


# -- matrices --------------------------------------------------------------------------------------


def spectrum(name: str, gap: float) -> list[float]:
    """Four values; those that are close together differ by multiples of `gap`."""
    return {
        "far": [0.5, 1.25, 2.0, 3.5],
        "pair": [1.0, 1 + gap, 2.0, 3.0],
        "triple": [1.0, 1 + gap, 1 + 2 * gap, 3.0],
        "two pairs": [1.0, 1 + gap, 2.0, 2 + 2 * gap],
        "ladder": [1.0, 1 + gap, 1 + 100 * gap if gap < 1e-4 else 1.5, 2.5],
        "all": [2.0, 2 + gap, 2 + 2 * gap, 2 - gap],
        "zeros": [0.0, gap, 1.0, 2.5],
        "near zero": [gap, 2 * gap, 3 * gap, 1.0],
        "ratios": [1e-9, 1e-6, 1e-3, 1.0],
    }[name]


def situations(
    function: Function, gaps: Sequence[float] = GAPS
) -> Iterator[tuple[str, list[float]]]:
    """Names of spectra, and their values."""
    for name in function.spectra:
        if name in ("far", "ratios"):
            yield name, spectrum(name, 0.0)
            continue
        for gap in gaps:
            yield f"{name}, gap {gap:.0e}", spectrum(name, gap)


def matrix(kind: str, values: Sequence[float], rng: np.random.Generator) -> Array:
    """A matrix with these eigenvalues, or singular values, up to rounding."""
    n = len(values)
    if kind == "general":
        V = rng.standard_normal((n, n)) + 2 * np.eye(n)
        return V @ np.diag(values) @ np.linalg.inv(V)
    is_complex = kind in ("hermitian", "complex")
    rows, columns = {"tall": (n + 1, n), "wide": (n, n + 2)}.get(kind, (n, n))
    P, Q = (_unitary(size, rng, is_complex=is_complex) for size in (rows, columns))
    if kind in ("symmetric", "hermitian"):
        A = (P * values) @ P.conj().T
        return 0.5 * (A + A.conj().T)
    return (P[:, :n] * values) @ Q[:, :n].conj().T


def _unitary(size: int, rng: np.random.Generator, *, is_complex: bool) -> Array:
    """Sometimes one with few bits, so that values which should be equal are."""
    draw = rng.integers(3)
    if draw == 0:
        return np.eye(size, dtype=complex if is_complex else float)[rng.permutation(size)]
    if draw == 1 and size == 4 and not is_complex:
        v = rng.choice([-1.0, 1.0], 4)
        return np.eye(4) - np.outer(v, v) / 2
    G = rng.standard_normal((size, size))
    if is_complex:
        G = G + 1j * rng.standard_normal((size, size))
    return np.linalg.qr(G)[0]


def direction(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """A direction of norm 1 in the space of the matrices."""
    E = rng.standard_normal(shape)
    if kind in ("hermitian", "complex"):
        E = E + 1j * rng.standard_normal(shape)
    if kind in ("symmetric", "hermitian"):
        E = E + E.conj().T
    return E / np.linalg.norm(E)


# -- derivatives -----------------------------------------------------------------------------------


def derivative(f: Callable[[Any], Any], mode: str, E: Any) -> Callable[[Any], Any]:
    """The derivative of f along E, E, …, by reverse or forward mode upon one another."""
    for letter in mode:
        f = _forward(f, E) if letter == "f" else _reverse(f, E)
    return f


def _forward(f: Callable[[Any], Any], E: Any) -> Callable[[Any], Any]:
    return lambda x: ad.jvp(f, (x,), (E,))[1]


def _reverse(f: Callable[[Any], Any], E: Any) -> Callable[[Any], Any]:
    return lambda x: (ad.grad(f)(x) * E.conj()).sum().real


@record
class Known:
    """The truth of a function at a matrix, along a direction."""

    values: tuple[float, ...]  # the value and three derivatives
    units: tuple[float, ...]  # ε times the condition of each


def truth(function: Function, A: Array, W: Array, E: Array, eps: float) -> Known:
    """The value and the derivatives, and the units by which errors are divided."""
    weights = Matrix.of(W)
    found = exact.along(lambda X: function.truth(X, weights), A, E)
    size = float(np.linalg.norm(A))
    units = [eps * (abs(q) + size * abs(dq)) for q, dq in zip(found, found[1:])]
    return Known(tuple(found[:4]), tuple(units))


def weights_for(function: Function, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Random weights of what the function makes."""
    W = rng.standard_normal(shape)
    return W + 1j * rng.standard_normal(shape) if function.kind in ("hermitian", "complex") else W


def measure(
    function: Function, situation: str, values: Sequence[float], dtype: str, seed: int,
    modes: Sequence[str] = MODES,
) -> Iterator[Error]:  # fmt: skip
    """The errors of the derivatives of a function at one matrix."""
    rng = np.random.default_rng(seed)
    A = _rounded(matrix(function.kind, values, rng), dtype)
    E = _rounded(direction(function.kind, A.shape, rng), dtype)
    W = _rounded(weights_for(function, A.shape, rng), dtype)
    known = truth(function, A, W, E, float(np.finfo(dtype).eps))
    x, e, w = (ad.tensor(_typed(part, dtype)) for part in (A, E, W))
    for mode in modes:
        order = len(mode)
        found = float(derivative(lambda y: function.ours(y, w), mode, e)(x))
        error = abs(found - known.values[order]) / known.units[order]
        yield Error(function.name, situation, dtype, order, mode, error)


def _typed(array: Array, dtype: str) -> Array:
    return array.astype(np.result_type(dtype, np.complex64) if np.iscomplexobj(array) else dtype)


def _rounded(array: Array, dtype: str) -> Array:
    return _typed(array, dtype).astype(complex if np.iscomplexobj(array) else float)


@cache
def measure_matrices(seeds: int = 1) -> tuple[Error, ...]:
    """The worst error of each function, situation, dtype, order and mode."""
    worst: dict[Any, Error] = {}
    for function in functions():
        for situation, values in situations(function):
            for dtype in ("float64", "float32"):
                for seed in range(seeds):
                    for error in measure(function, situation, values, dtype, seed):
                        key = (function.kind, *(getattr(error, n) for n in _KEY))
                        if key not in worst or not worst[key].error >= error.error:
                            worst[key] = error
    return tuple(worst.values())


_KEY = ("function", "situation", "dtype", "order", "mode")
