"""Changes of dtype, real and imaginary parts, conjugates and fills.

PyTorch marks a conjugate or negated view with a bit; arrays have no such bit, so `conj` of complex
numbers and `neg_view` copy. Everything that can share memory does: `real`, `imag`, `view_as_real`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from adjoint.c_kernels.conversions import astype
from adjoint.c_kernels.copies import write
from adjoint.checks.creation import check_fill
from adjoint.core import dtypes
from adjoint.core.dtypes import INTEGER, DType
from adjoint.core.errors import DtypeError, ShapeError
from adjoint.core.promotion import fit_number, parts_for
from adjoint.core.shapes import Spec, broadcast, show
from adjoint.core.storage import strides_in_elements
from adjoint.kernels.shape.copies import in_format
from adjoint.loops.gate import LARGE

Array = np.ndarray[Any, Any]

_COMPLEX_OF = {d.np: d.to_complex().np for d in (dtypes.float32, dtypes.float64)}


def to_copy(
    self: Array,
    dtype: DType | None,
    layout: Any,
    device: Any,
    pin_memory: Any,
    non_blocking: bool,
    memory_format: Any,
) -> Array:
    """Copy, to another dtype if one is given; complex to real drops the imaginary part."""
    if dtype is None:
        return in_format("to", self, memory_format, self.dtype)
    with np.errstate(all="ignore"):  # an out-of-range value becomes infinite or is unspecified
        return in_format("to", parts_for(self, dtype.np), memory_format, dtype.np)


def complex_(real: Array, imag: Array) -> Array:
    """Return real + i·imag."""
    dtype = _COMPLEX_OF.get(real.dtype)
    if dtype is None or real.dtype != imag.dtype:
        raise DtypeError(
            "complex: real and imag must both be float32 or both float64, got "
            f"{dtypes.of(real.dtype)} and {dtypes.of(imag.dtype)}."
        )
    result: Any = np.empty(broadcast("complex", real.shape, imag.shape), dtype)
    write(result.real, real)
    write(result.imag, imag)
    return result


def polar(abs: Array, angle: Array) -> Array:
    """Return abs · exp(i·angle)."""
    if abs.dtype not in _COMPLEX_OF or abs.dtype != angle.dtype:
        raise DtypeError(
            "polar: abs and angle must both be float32 or both float64, got "
            f"{dtypes.of(abs.dtype)} and {dtypes.of(angle.dtype)}."
        )
    return complex_(abs * np.cos(angle), abs * np.sin(angle))


def real(self: Array) -> Array:
    """Return the real part, sharing memory; all of a real tensor."""
    return self.real if self.dtype.kind == "c" else self.view()


def imag(self: Array) -> Array:
    """Return the imaginary part, sharing memory."""
    if self.dtype.kind != "c":
        raise DtypeError(
            f"imag: needs a complex tensor, got {dtypes.of(self.dtype)}, whose imaginary part is 0."
        )
    return self.imag


def conj(self: Array) -> Array:
    """Return the complex conjugate; all of a real tensor."""
    return np.conjugate(self) if self.dtype.kind == "c" else self.view()


def conj_physical(self: Array) -> Array:
    """Return the complex conjugate in memory of its own."""
    return np.conjugate(self) if self.dtype.kind == "c" else self.copy()


def view_as_real(self: Array) -> Array:
    """Return a complex tensor as pairs (real, imaginary) in a new last dimension."""
    if self.dtype.kind != "c":
        raise DtypeError(f"view_as_real: needs a complex tensor, got {dtypes.of(self.dtype)}.")
    part = self.real
    if self.flags.c_contiguous and self.ndim:
        return self.view(part.dtype).reshape((*self.shape, 2))
    return as_strided(part, (*self.shape, 2), (*self.strides, part.itemsize))


def view_as_complex(self: Array) -> Array:
    """Return pairs (real, imaginary) in the last dimension as complex numbers."""
    dtype = _COMPLEX_OF.get(self.dtype)
    if dtype is None:
        raise DtypeError(f"view_as_complex: needs float32 or float64, got {dtypes.of(self.dtype)}.")
    if not self.ndim or self.shape[-1] != 2:
        raise ShapeError(
            "view_as_complex: the last dimension must have size 2 (real, imaginary), "
            f"got {show(self.shape)}."
        )
    if not self.size:
        return np.empty(self.shape[:-1], dtype)  # NumPy gives strides of 0, which say nothing
    *outer, last = zip(self.strides, self.shape, strict=True)
    if last[0] != self.itemsize or any(s % dtype.itemsize for s, size in outer if size > 1):
        raise ShapeError(
            "view_as_complex: real and imaginary parts must lie side by side in memory, and the "
            f"other strides be even; got strides {strides_in_elements(self)}. "
            "Use .contiguous() first."
        )
    return self.view(dtype)[..., 0]


def view_dtype(self: Array, dtype: DType) -> Array:
    """Return the same bytes read as another dtype; the last dimension scales with the item size."""
    wanted = dtype.np
    if wanted.itemsize == self.itemsize:
        return self.view(wanted)
    if not self.ndim or (self.strides[-1] != self.itemsize and self.shape[-1] != 1):
        raise ShapeError(
            f"view: {dtypes.of(self.dtype)} as {dtype} changes the size of an element, which needs "
            f"a last dimension of adjacent elements; got {show(self.shape)}. "
            "Use .contiguous() first."
        )
    try:
        return self.view(wanted)
    except (ValueError, TypeError):
        raise ShapeError(
            f"view: {self.shape[-1]} elements of {dtypes.of(self.dtype)} in the last dimension "
            f"are no whole number of {dtype}."
        ) from None


def fill(self: Array, value: Any) -> Array:
    """Return a tensor like `self` in which every element is `value`, a number or 0-d array."""
    dtype = dtypes.of(self.dtype)
    if isinstance(value, np.ndarray):
        if value.ndim:
            raise ShapeError(
                f"fill: the value must be a number or a scalar, got {show(value.shape)}."
            )
        check_fill(dtype, Spec((), dtypes.of(value.dtype)))
    else:
        check_fill(dtype, value)
    if isinstance(value, int) and dtype.category == INTEGER:
        value = fit_number(value, dtype)
    result = np.empty_like(self)
    with np.errstate(all="ignore"):  # an infinity is no integer, and no reason to warn
        write(result, np.asarray(value).astype(self.dtype))
    return result


def copy(self: Array, src: Array, non_blocking: bool) -> Array:
    """`src` in the shape and dtype of `self`, in new memory."""
    if src.ndim > self.ndim:  # NumPy would drop leading ones
        raise ShapeError(
            f"copy_: a source of shape {show(src.shape)} does not fit into {show(self.shape)}."
        )
    result = np.empty(self.shape, self.dtype)
    source = parts_for(src, self.dtype)
    write(result, astype(source, self.dtype) if source.size >= LARGE else source)
    return result
