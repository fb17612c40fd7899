"""QR factorisations, Householder reflections, and the check of a gauge."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.checks.linalg import check_reflections, check_same_dtype, check_tall
from adjoint.core import dtypes
from adjoint.core.errors import GradError, ValueRangeError
from adjoint.kernels.linalg.common import Array, each, gauge_limit, lapack, matrices


def qr(A: Array, mode: str) -> tuple[Array, Array]:
    """Q with orthonormal columns and upper triangular R."""
    matrices("linalg_qr(A)", A)
    if mode not in ("reduced", "complete", "r"):
        raise ValueRangeError(f"linalg_qr(A): mode is reduced, complete or r, got {mode!r}")
    if mode == "r":
        upper: Any = np.linalg.qr(A, mode="r")
        return np.empty((0,), A.dtype), upper
    Q, R = np.linalg.qr(A, mode=mode)  # type: ignore[call-overload]
    return Q, R


def require_gauge(self: Array, turn: Array, what: str) -> Array:
    """`self`, after checking that `turn` vanishes up to rounding."""
    if np.max(np.abs(turn), initial=0.0) > gauge_limit(self):
        raise GradError(
            f"{what} are only determined up to a rotation among themselves, and the function "
            "depends on that rotation, so it has no derivative. Use a function of the space that "
            "they span."
        )
    return self.copy()


def geqrf(self: Array) -> tuple[Array, Array]:
    """R on and above the diagonal, the reflections' vectors below it, and their factors."""
    matrices("geqrf(A)", self)
    *batch, m, n = self.shape
    packed = np.empty(self.shape, self.dtype)
    factors = np.empty((*batch, 1, min(m, n)), self.dtype)
    if self.size:
        routine = lapack("geqrf", self)
        for a, out, tau in each(self, packed, factors):
            out[...], tau[0], _, _ = routine(a)
    return packed, factors[..., 0, :]


def householder_product(input: Array, tau: Array) -> Array:
    """The first columns of H₁ H₂ … Hₖ, Hᵢ = 1 - τᵢ vᵢ vᵢᴴ, vᵢ below the diagonal of column i."""
    what = "linalg_householder_product(A, tau)"
    check_same_dtype(what, dtypes.of(input.dtype), dtypes.of(tau.dtype))
    check_reflections(what, input.shape, tau.shape)
    check_tall(what, input.shape)
    result = np.empty(input.shape, input.dtype)
    if not result.size:
        return result
    if tau.shape[-1] == 0:
        result[...] = np.eye(*input.shape[-2:])
        return result
    routine = lapack("orgqr", input)
    for out, a, t in each(result, input, tau[..., None, :]):
        out[...] = routine(a, t[0])[0]
    return result
