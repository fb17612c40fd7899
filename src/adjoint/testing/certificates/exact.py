"""Matrices of numbers with hundreds of digits: by python-flint if it is there, else by mpmath.

Functions of matrices are computed from eigenvalues and vectors in general position: a truth is
asked for at matrices beside the one in question, whose values differ by 2⁻¹⁰⁰, and 600 bits have
enough digits left. They are no proofs: what is left over is some 10⁻⁵⁰.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from adjoint.core.importing import imported

Array = np.ndarray[Any, Any]
Scalar = Any  # a complex number of flint or mpmath
BITS, STEP = 600, 100  # of numbers; A is moved by multiples of 2⁻¹⁰⁰
ORDERS = 5  # the value and four derivatives
_PLACES = (-5, -3, -1, 1, 3, 5)  # in steps; not 0, where values may be equal


@cache
def _flint() -> Any:
    """The module, or None."""
    try:
        return imported("flint")
    except ImportError:
        return None


@cache
def _mp() -> Any:
    context = imported("mpmath").mp.clone()
    context.prec = BITS
    return context


def is_available() -> bool:
    """Whether there is a library of long numbers."""
    try:
        return _flint() is not None or _mp() is not None
    except ImportError:
        return False


class Matrix:
    """A matrix of complex numbers."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data

    @classmethod
    def of(cls, array: Array) -> Matrix:
        """An array, exactly."""
        flint = _flint()
        rows = np.asarray(array, np.complex128).tolist()
        if flint is not None:
            return cls(flint.acb_mat([[flint.acb(z.real, z.imag) for z in row] for row in rows]))
        mp = _mp()
        return cls(mp.matrix([[mp.mpc(z) for z in row] for row in rows]))

    @property
    def shape(self) -> tuple[int, int]:
        if _flint() is not None:
            return self.data.nrows(), self.data.ncols()
        return self.data.rows, self.data.cols

    def __matmul__(self, other: Matrix) -> Matrix:
        return Matrix(self.data * other.data)

    def __add__(self, other: Matrix) -> Matrix:
        return Matrix(self.data + other.data)

    def __mul__(self, factor: Any) -> Matrix:
        return Matrix(self.data * factor)

    @property
    def T(self) -> Matrix:
        return Matrix(self.data.transpose())

    @property
    def H(self) -> Matrix:
        """The conjugate transpose."""
        if _flint() is not None:
            return Matrix(self.data.conjugate().transpose())
        return Matrix(self.data.H)

    def inverse(self) -> Matrix:
        return Matrix(self.data.inv() if _flint() is not None else _mp().inverse(self.data))

    def det(self) -> Scalar:
        return self.data.det() if _flint() is not None else _mp().det(self.data)

    def entries(self) -> list[Scalar]:
        rows, columns = self.shape
        return [self.data[i, j] for i in range(rows) for j in range(columns)]

    def diagonal(self) -> list[Scalar]:
        return [self.data[i, i] for i in range(min(self.shape))]

    def part(self, columns: slice) -> Matrix:
        """Some of the columns."""
        rows, count = self.shape
        chosen = range(count)[columns]
        return matrix_of([[self.data[i, j] for j in chosen] for i in range(rows)])

    def eig(self) -> tuple[list[Scalar], Matrix]:
        """Eigenvalues, by their real parts, and vectors of a matrix whose values differ."""
        if _flint() is not None:
            values, vectors = self.data.eig(right=True, algorithm="approx")
        else:
            values, vectors = _mp().eig(self.data)
        order = sorted(range(len(values)), key=lambda k: _real(values[k]))
        rows = range(len(values))
        moved = matrix_of([[vectors[i, k] for k in order] for i in rows])
        return [values[k] for k in order], moved

    def cholesky(self) -> Matrix:
        """The lower triangle L with positive diagonal and L Lᴴ = A."""
        n = self.shape[0]
        zero = self.data[0, 0] * 0
        L = [[zero] * n for _ in range(n)]
        for j in range(n):
            for i in range(j, n):
                row, other = matrix_of([L[i]]), matrix_of([L[j]])
                rest = self.data[i, j] - (row @ other.H).entries()[0]
                L[i][j] = sqrt(rest) if i == j else rest / L[j][j]
        return matrix_of(L)

    def lu(self) -> tuple[Matrix, Matrix, Matrix]:
        """A = P L U, pivots being the largest of their columns."""
        n, zero = self.shape[0], self.data[0, 0] * 0
        U = [[self.data[i, j] for j in range(n)] for i in range(n)]
        L, order = [[zero] * n for _ in range(n)], list(range(n))
        for k in range(n):
            pivot = max(range(k, n), key=lambda i: abs(complex(U[i][k])))
            for rows in (U, L):
                rows[k], rows[pivot] = rows[pivot], rows[k]
            order[k], order[pivot] = order[pivot], order[k]
            L[k][k] = zero + 1
            for i in range(k + 1, n):
                L[i][k] = U[i][k] / U[k][k]
                U[i] = [u - L[i][k] * v for u, v in zip(U[i], U[k])]
        P = [[zero + (1 if order[j] == i else 0) for j in range(n)] for i in range(n)]
        return matrix_of(P), matrix_of(L), matrix_of(U)

    def function(self, of: Callable[[Scalar], Scalar]) -> Matrix:
        """V f(w) V⁻¹."""
        values, V = self.eig()
        return V @ diagonal([of(w) for w in values]) @ V.inverse()


def matrix_of(rows: list[list[Scalar]]) -> Matrix:
    """A matrix of long numbers."""
    flint = _flint()
    return Matrix(flint.acb_mat(rows) if flint is not None else _mp().matrix(rows))


def _real(value: Scalar) -> Any:
    return value.real.mid() if _flint() is not None else value.real


def diagonal(values: list[Scalar]) -> Matrix:
    """A diagonal matrix."""
    n = len(values)
    return matrix_of([[values[i] if i == j else values[i] * 0 for j in range(n)] for i in range(n)])


def exp(z: Scalar) -> Scalar:
    return z.exp() if _flint() is not None else _mp().exp(z)


def log(z: Scalar) -> Scalar:
    return z.log() if _flint() is not None else _mp().log(z)


def sqrt(z: Scalar) -> Scalar:
    return z.sqrt() if _flint() is not None else _mp().sqrt(z)


def total(numbers: list[Scalar]) -> Scalar:
    return sum(numbers[1:], numbers[0])


def weighted(W: Matrix, X: Matrix) -> Scalar:
    """Σ W[i,j] X[i,j]."""
    return total([w * x for w, x in zip(W.entries(), X.entries(), strict=True)])


def along(function: Callable[[Matrix], Scalar], A: Array, E: Array) -> list[float]:
    """The value and derivatives of s ↦ Re f(A + sE) at 0."""
    flint = _flint()
    bits = flint.ctx.prec if flint is not None else 0
    if flint is not None:
        flint.ctx.prec = BITS
    try:
        base, moved = Matrix.of(A), Matrix.of(E)
        found = [_real(function(base + moved * _dyadic(p))) for p in _PLACES]
        return [float(_combined(found, row)) for row in _weights()]
    finally:
        if flint is not None:
            flint.ctx.prec = bits


def _dyadic(place: int) -> Scalar:
    """A multiple of the step."""
    flint = _flint()
    if flint is not None:
        return flint.acb(flint.arb(place) * flint.arb(2) ** -STEP)
    return _mp().mpf(place) * _mp().mpf(2) ** -STEP


def _combined(numbers: list[Any], weights: list[Fraction]) -> Any:
    flint = _flint()
    exact = flint.arb if flint is not None else _mp().mpf
    parts = [y * exact(w.numerator) / exact(w.denominator) for y, w in zip(numbers, weights)]
    return total(parts)


@cache
def _weights() -> list[list[Fraction]]:
    """By which the values at the places are multiplied to give each derivative at 0."""
    n = len(_PLACES)
    rows = [[Fraction(p) ** k for p in _PLACES] + [Fraction(0)] * n for k in range(n)]
    for k in range(n):
        rows[k][n + k] = Fraction(1)
    for k in range(n):  # Gauss and Jordan
        pivot = next(i for i in range(k, n) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(n):
            if i != k:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k])]
    step, factorial = Fraction(1, 2**STEP), 1
    found = []
    for order in range(ORDERS):
        factorial *= max(order, 1)
        found.append([rows[i][n + order] * factorial / step**order for i in range(n)])
    return found
