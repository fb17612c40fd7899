"""Derivatives of the transforms between real numbers and half spectra.

A spectrum Y of N real numbers has Y[N-k] = conj(Y[k]). The half that is kept holds the constant
term and, for even N, the alternating one once, and each of the others for two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops

Tensor = Any


def _times_middle(half: Tensor, factor: float, dim: int, size: int) -> Tensor:
    """The half spectrum with all but the constant and the alternating term times `factor`."""
    dim = dim % half.ndim
    count = half.shape[dim]
    k = ops.arange(count)
    single = (k == 0) | (k * 2 == size)
    weights = ops.where(single, 1.0, factor).to(half.dtype.to_real())
    return half * weights.reshape((count, *(1,) * (half.ndim - dim - 1)))


def r2c_vjp(
    grad: Tensor, shape: Sequence[int], dim: Sequence[int], normalization: int, onesided: bool
) -> Tensor:
    """Re Fᴴ ȳ. Of a half spectrum: c2r counts the middle twice, so half of it goes in."""
    if not onesided or not dim:
        return ops._fft_c2c(grad, dim, normalization, False).real
    size = shape[dim[-1]]
    return ops._fft_c2r(_times_middle(grad, 0.5, dim[-1], size), dim, normalization, size)


def c2r_vjp(grad: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    """The half spectrum of ȳ, its middle twice."""
    half = ops._fft_r2c(grad, dim, normalization, True)
    return _times_middle(half, 2.0, dim[-1], last_dim_size)
