"""Fourier transforms as products with the matrix exp(∓2πi jk/n)."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.testing.references.elements import Array

Norm = str | None


def dft(x: Array, sign: int, dim: int, scale: float = 1.0) -> Array:
    """scale · Σⱼ x[j] exp(sign·2πi jk/n) along a dimension."""
    n = x.shape[dim]
    matrix = [
        [cmath.exp(sign * 2j * cmath.pi * ((j * k) % n) / n) for j in range(n)] for k in range(n)
    ]
    product = np.einsum("kj,j...->k...", np.array(matrix).reshape(n, n), np.moveaxis(x, dim, 0))
    return np.moveaxis(scale * product, 0, dim)


def fitted(x: Array, n: int | None, dim: int) -> Array:
    """Trimmed, or filled with zeros, to n elements along a dimension."""
    if n is None or n == x.shape[dim]:
        return x
    kept = np.moveaxis(x, dim, 0)[:n]
    rest = np.zeros((n - len(kept), *kept.shape[1:]), x.dtype)
    return np.moveaxis(np.concatenate([kept, rest]), 0, dim)


def scale_of(norm: Norm, n: int, *, forward: bool) -> float:
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "forward") == forward else 1.0


def fft(x: Array, n: int | None = None, dim: int = -1, norm: Norm = None) -> Array:
    x = fitted(x, n, dim)
    return dft(x, -1, dim, scale_of(norm, x.shape[dim], forward=True))


def ifft(x: Array, n: int | None = None, dim: int = -1, norm: Norm = None) -> Array:
    x = fitted(x, n, dim)
    return dft(x, 1, dim, scale_of(norm, x.shape[dim], forward=False))


def half(x: Array, dim: int) -> Array:
    return fitted(x, x.shape[dim] // 2 + 1, dim)


def whole(x: Array, size: int | None, dim: int) -> Array:
    """A Hermitian sequence of which the first half is given; of even size unless that is given."""
    n = 2 * (x.shape[dim] - 1) if size is None else size
    rows = list(np.moveaxis(fitted(x, n // 2 + 1, dim), dim, 0))
    rows[0] = rows[0].real + 0j
    if n % 2 == 0:
        rows[n // 2] = rows[n // 2].real + 0j
    every = [rows[k] if k <= n // 2 else rows[n - k].conj() for k in range(n)]
    return np.moveaxis(np.array(every), 0, dim)


def rfft(x: Array, n: int | None = None, dim: int = -1, norm: Norm = None) -> Array:
    return half(fft(x, n, dim, norm), dim)


def irfft(x: Array, n: int | None = None, dim: int = -1, norm: Norm = None) -> Array:
    return ifft(whole(x, n, dim), None, dim, norm).real


def hfft(x: Array, n: int | None = None, dim: int = -1, norm: Norm = None) -> Array:
    return fft(whole(x, n, dim), None, dim, norm).real


def ihfft(x: Array, n: int | None = None, dim: int = -1, norm: Norm = None) -> Array:
    return half(ifft(x, n, dim, norm), dim)


def over(
    others: Callable[..., Array], last: Callable[..., Array], *, last_first: bool,
    default: Sequence[int] | None = None,
) -> Callable[..., Array]:  # fmt: skip
    """A transform of several dimensions: one function for the last, another for the others."""

    def transform(
        x: Array, s: Sequence[int] | None = None, dim: Any = default, norm: Norm = None
    ) -> Array:
        if dim is None:
            dim = range(-x.ndim, 0) if s is None else range(-len(s), 0)
        steps = list(zip(dim, s or [None] * len(dim), strict=True))
        *rest, end = [(d, None if n == -1 else n) for d, n in steps]
        order = [(last, end), *((others, r) for r in rest)]
        for function, (d, n) in order if last_first else order[1:] + order[:1]:
            x = function(x, n, d, norm)
        return x

    return transform


def raw(
    x: Array, dim: Sequence[int], normalization: int, sign: int, count: int | None = None
) -> Array:
    """Over several dimensions, divided by nothing, √n or n; `count` is n where it is not known."""
    sizes = [x.shape[d] for d in dim]
    for d in dim:
        x = dft(x, sign, d)
    n = math.prod(sizes) if count is None else count
    return x / (1, math.sqrt(n), n)[normalization] if n else x


def real_to_complex(x: Array, dim: Sequence[int], normalization: int, onesided: bool) -> Array:
    found = raw(x, dim, normalization, -1)
    return half(found, dim[-1]) if onesided else found


def complex_to_real(x: Array, dim: Sequence[int], normalization: int, size: int) -> Array:
    """The half dimension is made whole after the others, where the sequence is Hermitian."""
    *rest, last = dim
    count = math.prod([size, *(x.shape[d] for d in rest)])
    for d in rest:
        x = dft(x, 1, d)
    return raw(whole(x, size, last), (last,), normalization, 1, count).real


def frequencies(n: int, d: float = 1.0, **_: Any) -> Array:
    return np.array([(k if k < (n + 1) // 2 else k - n) / (n * d) for k in range(n)])


_TWO = (-2, -1)
REFERENCES: dict[str, Callable[..., Any]] = {
    "fft_fft": fft, "fft_ifft": ifft, "fft_rfft": rfft, "fft_irfft": irfft,
    "fft_hfft": hfft, "fft_ihfft": ihfft,
    "fft_fft2": over(fft, fft, last_first=True, default=_TWO),
    "fft_ifft2": over(ifft, ifft, last_first=True, default=_TWO),
    "fft_rfft2": over(fft, rfft, last_first=True, default=_TWO),
    "fft_irfft2": over(ifft, irfft, last_first=False, default=_TWO),
    "fft_hfft2": over(fft, hfft, last_first=False, default=_TWO),
    "fft_ihfft2": over(ifft, ihfft, last_first=True, default=_TWO),
    "fft_fftn": over(fft, fft, last_first=True), "fft_ifftn": over(ifft, ifft, last_first=True),
    "fft_rfftn": over(fft, rfft, last_first=True),
    "fft_irfftn": over(ifft, irfft, last_first=False),
    "fft_hfftn": over(fft, hfft, last_first=False),
    "fft_ihfftn": over(ifft, ihfft, last_first=True),
    "_fft_c2c": lambda x, dim, normalization, forward: raw(
        x, dim, normalization, -1 if forward else 1
    ),
    "_fft_r2c": real_to_complex, "_fft_c2r": complex_to_real, "fft_fftfreq": frequencies,
    "fft_rfftfreq": lambda n, d=1.0, **_: np.arange(n // 2 + 1) / (n * d),
}  # fmt: skip
