"""Functions of matrices, value to third derivative: errors over ε times the condition.

Each function is computed with our eigenvalues, singular values or factors, and once more in
hundreds of digits by other formulas (`exact.py`). The matrices have eigenvalues or singular values
that are far apart, equal, close together to all degrees, zero, or many powers of ten apart. The
derivatives are those along a direction, in compositions of modes. The unit of a derivative q is as
much as q moves when A, and the derivatives below it, are rounded: ε(|q| + |A| |dq| + …).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from zlib import crc32

# Capitals are matrices here, not constants.
# pyright: reportConstantRedefinition=false
import numpy as np

import adjoint as ad
from adjoint.core.records import record
from adjoint.testing.certificates import exact
from adjoint.testing.certificates.exact import Matrix
from adjoint.testing.certificates.matrix_functions import Function, functions
from adjoint.testing.certificates.measuring import Cell, Measured, said
from adjoint.testing.certificates.ways import is_asked, letters

__all__ = ["Function", "functions"]

Array = np.ndarray[Any, Any]
DTYPES = ("float64", "float32")
GAPS = (0.0, 1e-13, 1e-7, 1e-3)
# f: forward, r: reverse; the innermost derivative first
MODES = ("r", "f", "rr", "rf", "fr", "ff", "rrr", "frf", "fff")
_WAYS = ("eager value", *(f"eager {mode}" for mode in MODES), "compiled r", "compiled fr")


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


def _reach(function: Function, A: Array) -> Array:
    """How far a direction moves each column, beside the largest one."""
    sizes = np.linalg.norm(A, axis=0)
    if not function.by_columns or not sizes.any():
        return np.ones_like(sizes)
    return np.where(sizes > 0, sizes / sizes.max(), 1.0)


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
    return Known(tuple(found[:4]), tuple(_unit(found, n, size, eps) for n in range(4)))


def _unit(found: Sequence[float], order: int, size: float, eps: float) -> float:
    """How far a derivative moves when A and the lower derivatives are rounded."""
    rounded = sum(eps * abs(q) / size ** (order - k) for k, q in enumerate(found[: order + 1]))
    moved = (
        abs(q) * (eps * size) ** n / math.factorial(n) for n, q in enumerate(found[order + 1 :], 1)
    )
    return rounded + sum(moved) + float(np.finfo(float).smallest_normal)


def weights_for(function: Function, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Random weights of what the function makes."""
    W = rng.standard_normal(shape)
    return W + 1j * rng.standard_normal(shape) if function.kind in ("hermitian", "complex") else W


def measure(function: Function, dtype: str, ways: Sequence[str]) -> Measured | None:
    """The worst error of each way and order over all situations; None for half types."""
    if dtype not in DTYPES:
        return None
    worst: dict[tuple[str, int], Cell] = {}
    refused: dict[str, str] = {}
    runs = {way: _run(function, way) for way in _WAYS if is_asked(way, ways)}
    for situation, values in situations(function):
        x, w, e, known = case(
            function, values, dtype, crc32(f"{function.title} {situation}".encode())
        )
        for way, run in runs.items():
            order = len(letters(way))
            try:
                found = float(run(x, w, e))
            except Exception as error:
                refused[way] = f"{situation}: {said(error)}"
                continue
            cell = compared(found, known, order, situation)
            if (way, order) not in worst or cell.error > worst[way, order].error:
                worst[way, order] = cell
    return Measured(function.title, f"{dtype} condition", worst, refused, {})


def case(
    function: Function, values: Sequence[float], dtype: str, seed: int
) -> tuple[Any, Any, Any, Known]:
    """A matrix, weights and a direction as tensors, and what is true there."""
    rng = np.random.default_rng(seed)
    A = _rounded(matrix(function.kind, values, rng), dtype)
    E = _rounded(direction(function.kind, A.shape, rng) * _reach(function, A), dtype)
    W = _rounded(weights_for(function, A.shape, rng), dtype)
    known = truth(function, A, W, E, float(np.finfo(dtype).eps))
    x, w, e = (ad.tensor(_typed(part, dtype)) for part in (A, W, E))
    return x, w, e, known


def compared(found: float, known: Known, order: int, situation: str) -> Cell:
    """The error of a derivative in units; infinite for a NaN."""
    value = known.values[order]
    error = abs(found - value) / known.units[order]
    return Cell(error if math.isfinite(found) else math.inf, situation, found, value)


def _run(function: Function, way: str) -> Callable[[Any, Any, Any], Any]:
    """The derivative of a function along a direction, by one way."""
    means, mode = way.split()[0], letters(way)

    def run(x: Any, w: Any, e: Any) -> Any:
        return derivative(lambda y: function.ours(y, w), mode, e)(x)

    return ad.compile(run) if means == "compiled" else run


def _typed(array: Array, dtype: str) -> Array:
    return array.astype(np.result_type(dtype, np.complex64) if np.iscomplexobj(array) else dtype)


def _rounded(array: Array, dtype: str) -> Array:
    return _typed(array, dtype).astype(complex if np.iscomplexobj(array) else float)
