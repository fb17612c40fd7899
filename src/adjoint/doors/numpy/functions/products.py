"""Sums of products: einsum, convolutions, covariances, cross products."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.checks.einsum import from_sublists
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import Array, Dtype, Float, common
from adjoint.doors.numpy.words import doubles, in_dtype_of
from adjoint.tensor.tensor import Tensor


def einsum(*operands: Any, optimize: Any, dtype: Any = None, **ignored: Any) -> Tensor:
    """Sums of products by an equation, of operands of any dtypes."""
    if isinstance(operands[0], str):
        equation, given = operands[0], operands[1:]
    else:
        equation, given = from_sublists(tuple(_unless_sublist(operands)))
    tensors = common(*(Array(o) for o in given))
    result = ad.einsum(equation, list(tensors))
    return in_dtype_of(tensors[0], result) if dtype is None else result.to(Dtype(dtype))


def _unless_sublist(operands: Any) -> list[Any]:
    """Operands as tensors, each before the list of its indices."""
    pairs = len(operands) // 2 * 2
    return [v if i % 2 or i >= pairs else Array(v) for i, v in enumerate(operands)]


def products_of_rows(a: Tensor, b: Tensor) -> Tensor:
    """NumPy's inner: sums of products over the last dimensions; of a number, the product."""
    return a * b if not a.ndim or not b.ndim else ad.inner(a, b)


def convolution(a: Tensor, v: Tensor, mode: str) -> Tensor:
    """Σᵢ a[i] v[n-i], where they overlap at all, or wholly, or as long as the longer one."""
    if a.shape[0] < v.shape[0]:
        a, v = v, a
    return _slid(a, v.flip(0), mode)


def correlation(a: Tensor, v: Tensor, mode: str) -> Tensor:
    """Σᵢ a[n+i] conj(v[i])."""
    v = v.conj() if v.dtype.is_complex else v
    if a.shape[0] >= v.shape[0]:
        return _slid(a, v, mode)
    return _slid(v, a, mode).flip(0)


def _slid(a: Tensor, v: Tensor, mode: str) -> Tensor:
    """Sums of products of v and the windows of the longer a."""
    count, size = a.shape[0], v.shape[0]
    if not size or not count:
        raise ShapeError("convolve: the arrays must not be empty")
    if mode not in ("full", "same", "valid"):
        raise ValueRangeError(f"mode={mode!r} is one of 'full', 'same', 'valid'")
    if mode != "valid":
        left = size - 1 if mode == "full" else size // 2
        right = size - 1 if mode == "full" else (size - 1) // 2
        a = ad.constant_pad_nd(a, (left, right))
    if a.dtype.is_differentiable and not a.dtype.is_complex:
        return ad.conv1d(a.reshape((1, 1, -1)), v.reshape((1, 1, -1))).reshape(-1)
    return ad.matmul(a.unfold(0, size, 1), v)


def cov(
    m: Tensor,
    y: Any,
    rowvar: bool,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Tensor:
    """Covariances of variables, which are rows, or columns without `rowvar`."""
    m = doubles(m)[0] if dtype is None else m.to(dtype)
    rows = _rows(m, rowvar)
    if y is not None:
        rows = ad.cat(list(common(rows, _rows(Float(y), rowvar))), 0)
    correction = (0 if bias else 1) if ddof is None else ddof
    return ad.cov(
        rows if rows.shape[0] > 1 else rows.reshape(-1),
        correction=correction,
        fweights=None if fweights is None else Array(fweights),
        aweights=None if aweights is None else Float(aweights),
    )


def _rows(m: Tensor, rowvar: bool) -> Tensor:
    m = ad.atleast_2d(m)
    return m if rowvar or m.shape[0] == 1 else m.mT


def correlations(covariances: Tensor) -> Tensor:
    """Covariances divided by the standard deviations."""
    if covariances.ndim == 0:
        return covariances / covariances
    scale = ad.sqrt(ad.real(covariances.diagonal()))
    found = covariances / scale[:, None] / scale[None, :]
    return found if found.dtype.is_complex else found.clamp(-1, 1)


def cross(a: Tensor, b: Tensor, axisa: int, axisb: int, axisc: int, axis: int | None) -> Tensor:
    """Cross products of vectors along a dimension; of two components, the third one alone."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = common(a.movedim(axisa, -1), b.movedim(axisb, -1))
    lengths = a.shape[-1], b.shape[-1]
    if not {*lengths} <= {2, 3}:
        raise ShapeError(f"cross: vectors have 2 or 3 components, got {lengths}")
    if lengths == (2, 2):
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    a, b = (v if v.shape[-1] == 3 else ad.constant_pad_nd(v, (0, 1)) for v in (a, b))
    shape = np.broadcast_shapes(tuple(a.shape), tuple(b.shape))
    return ad.linalg_cross(a.expand(shape), b.expand(shape)).movedim(-1, axisc)
