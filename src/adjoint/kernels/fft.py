"""Kernels of Fourier transforms: native code (c_kernels/fourier.c), or SciPy's for small arrays.

`normalization` is 0 (none), 1 (divide by √n) or 2 (divide by n), for either direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.c_kernels import fourier
from adjoint.core import dtypes
from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError
from adjoint.core.lazy import Lazy
from adjoint.core.shapes import wrap_dims

fft = Lazy("scipy.fft")

Array = np.ndarray[Any, Any]

# SciPy's names for our numbers; what is not normalised forward is so backward.
FORWARD = ("backward", "ortho", "forward")
BACKWARD = ("forward", "ortho", "backward")
LEAST_COVER = 1e-11  # the smallest sum of window² that istft divides by


def _check(what: str, self: Array, dim: Sequence[int], normalization: int, kinds: str) -> Any:
    wanted = "complex64 or complex128" if kinds == "FD" else "float32 or float64"
    if self.dtype.char not in kinds:
        raise DtypeError(f"{what}: needs {wanted}, got {dtypes.of(self.dtype)}.")
    if normalization not in (0, 1, 2):
        raise ValueRangeError(f"{what}(normalization={normalization}): use 0, 1 or 2.")
    axes = wrap_dims(what, tuple(dim), self.ndim) if len(dim) else ()
    for axis in axes:
        if self.shape[axis] == 0:
            raise ShapeError(f"{what}: dimension {axis} is empty; there is nothing to transform.")
    return axes


def c2c(self: Array, dim: Sequence[int], normalization: int, forward: bool) -> Array:
    """Complex to complex, with exp(-2πi kn/N) forward and its conjugate backward."""
    axes = _check("_fft_c2c", self, dim, normalization, "FD")
    if not axes or not self.size:
        return self.copy()
    found = fourier.complex_to_complex(self, axes, normalization, forward=forward)
    if found is not None:
        return found
    if forward:
        return np.asarray(fft.fftn(self, axes=axes, norm=FORWARD[normalization]))
    return np.asarray(fft.ifftn(self, axes=axes, norm=BACKWARD[normalization]))


def r2c(self: Array, dim: Sequence[int], normalization: int, onesided: bool) -> Array:
    """Real to complex; `onesided` keeps the first half of the last dimension named."""
    axes = _check("_fft_r2c", self, dim, normalization, "fd")
    if not axes:
        return self.astype(np.result_type(self.dtype, np.complex64))
    shape = list(self.shape)
    if onesided:
        shape[axes[-1]] = shape[axes[-1]] // 2 + 1
    if not self.size:
        return np.empty(shape, np.result_type(self.dtype, np.complex64))
    found = fourier.real_to_complex(self, axes, normalization, tuple(shape))
    if found is not None:
        return found
    transform = fft.rfftn if onesided else fft.fftn
    return np.asarray(transform(self, axes=axes, norm=FORWARD[normalization]))


def c2r(self: Array, dim: Sequence[int], normalization: int, last_dim_size: int) -> Array:
    """Half a spectrum to real numbers, backward."""
    axes = _check("_fft_c2r", self, dim, normalization, "FD")
    if not axes or self.shape[axes[-1]] != last_dim_size // 2 + 1:
        raise ShapeError(
            f"_fft_c2r(last_dim_size={last_dim_size}): dimension {dim[-1] if axes else dim} must "
            f"have size {last_dim_size // 2 + 1}, got a tensor of shape {self.shape}."
        )
    shape = list(self.shape)
    shape[axes[-1]] = last_dim_size
    if not self.size:
        return np.empty(shape, self.real.dtype)
    found = fourier.complex_to_real(self, axes, normalization, tuple(shape))
    if found is not None:
        return found
    sizes = [shape[a] for a in axes]
    return np.asarray(fft.irfftn(self, s=sizes, axes=axes, norm=BACKWARD[normalization]))


def require_cover(self: Array) -> Array:
    """A copy, unless an element is too small to be divided by."""
    if (np.abs(self) <= LEAST_COVER).any():
        raise ValueRangeError(
            "istft: the windows leave points of the signal uncovered; use a smaller hop_length, "
            "a window without zeros, or center=True."
        )
    return self.copy()
