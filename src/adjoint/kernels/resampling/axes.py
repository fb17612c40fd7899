"""Resizing: a table of taps along each dimension, and its product with an array.

The coordinates are PyTorch's; those of nearest modes are rounded to float32 before they are cut.
uint8 images are mixed with weights that are multiples of a power of two, one dimension after the
other from the last, each time rounded to uint8, as PyTorch and Pillow do.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.c_kernels import indexing
from adjoint.c_kernels import resampling as native
from adjoint.checks import resampling
from adjoint.core.dtypes import OF, DType
from adjoint.core.lazy import Lazy
from adjoint.core.records import record
from adjoint.core.shapes import Shape
from adjoint.kernels.halves import widen
from adjoint.kernels.resampling import filters
from adjoint.kernels.resampling.common import memory_order

Array = np.ndarray[Any, np.dtype[Any]]
Taps = tuple[Array, Array, Array]  # indices, weights, and whether they are used: (output, taps)
Blocks = tuple[tuple[int, int, int, int, Array], ...]  # rows from, to, columns from, to, matrix

sparse = Lazy("scipy.sparse")
_CACHED = 64  # matrices that are kept; each has some taps for each element along one dimension
_BLOCK = 64  # rows that are multiplied together as a dense matrix
_SMALL = 32  # elements along a dimension up to which BLAS is faster for vectors side by side
_DENSE = 64  # elements of a dense matrix for each tap up to which BLAS is faster


@record
class Matrix:
    """What is done along one dimension, in two forms."""

    rows: Any  # sparse, for interleaved vectors and for infinite numbers
    entries: tuple[Array, Array, Array]  # its own: where rows begin and end, columns, numbers
    blocks: Blocks  # dense parts, for contiguous vectors; () if the matrix is mostly 0


def resample(
    self: Array, output_size: Shape, mode: str, align_corners: bool, scales: Sequence[float]
) -> Array:
    """The array in another size along its last dimensions."""
    resampling.check_input(self.shape, output_size, OF[self.dtype], mode)
    sizes = self.shape[2:]
    return _resized(self, sizes, output_size, mode, align_corners, scales, transposed=False)


def resample_backward(
    grad_output: Array, output_size: Shape, input_size: Shape, mode: str, align_corners: bool,
    scales: Sequence[float],
) -> Array:  # fmt: skip
    """The transpose: each element is spread over the elements that it was made of."""
    dtype = OF[grad_output.dtype]
    resampling.check_gradient(grad_output.shape, output_size, input_size, dtype, mode)
    sizes = input_size[2:]
    return _resized(grad_output, sizes, output_size, mode, align_corners, scales, transposed=True)


def resampling_taps(
    size: int, output_size: int, mode: str, align_corners: bool, scale: float, dtype: DType
) -> tuple[Array, Array]:
    """The indices and weights; unused taps have the index of the first, and weight 0. An unchanged
    element comes from itself, without weights 0, which times infinity would be NaN.

    The weights for uint8 are exact in float64.
    """
    kind = _kind(dtype.np)
    indices, weights, used = _taps(size, output_size, mode, align_corners, scale, kind)
    real = np.float32 if kind == "f" else np.float64
    if size == output_size and not scale:
        halves = 0.5 ** np.minimum(np.arange(1, indices.shape[1] + 1), indices.shape[1] - 1)
        places = np.arange(size)[:, np.newaxis]
        return places + 0 * indices, (halves + 0 * weights).astype(real)
    return np.where(used, indices, indices[:, :1]), np.where(used, weights, 0).astype(real)


def _resized(
    x: Array, sizes: Shape, output_size: Shape, mode: str, align_corners: bool,
    scales: Sequence[float], *, transposed: bool,
) -> Array:  # fmt: skip
    order = memory_order(x)
    dtype, dims = x.dtype, len(sizes)
    selects = resampling.TAPS.get(mode) == 1
    rounds = dtype.char == "B" and not selects
    kind = _kind(resampling.taps_dtype(OF[dtype], mode, dims).np)
    y = np.ascontiguousarray(widen(x).transpose(order))
    for n in _in_turn(sizes, output_size, rounds=rounds, transposed=transposed):
        geometry = (sizes[n], output_size[n], mode, align_corners)
        scale = resampling.used_scale(*geometry, scales[n], dims, OF[dtype])
        if scale is None:
            continue
        axis = order.index(x.ndim - dims + n)
        if selects and not transposed:
            chosen = _taps(*geometry, scale, kind)[0][:, 0]
            found = indexing.select(y, axis, chosen.astype(np.int64))
            y = y.take(chosen, axis) if found is None else found
            continue
        times = resampling.repeats(sizes[n], output_size[n], mode, scale)
        if times:
            y = _summed(y, axis, times)
            continue
        y = _along(_matrix(*geometry, scale, kind, transposed), y, axis)
        if rounds:
            y = np.clip(np.floor(y + 0.5), 0, 255)
    back = np.argsort(order)
    result = np.ascontiguousarray(y).astype(dtype, copy=False).transpose(back)
    return result.copy("K") if np.may_share_memory(result, x) else result


def _in_turn(
    sizes: Sequence[int], output_size: Sequence[int], *, rounds: bool, transposed: bool
) -> list[int]:
    """The dimensions in the order in which they are resampled: rows that shrink before anything
    else, rows that grow last, since along them vectors are whole. Results that are rounded in
    between depend on it: the last dimension comes first there, as in PyTorch.
    """
    shrinks = [not rounds and out < size for size, out in zip(sizes, output_size, strict=True)]
    dims = range(len(shrinks))
    found = [n for n in dims if shrinks[n]] + [n for n in reversed(dims) if not shrinks[n]]
    return found[::-1] if transposed else found


def _summed(x: Array, axis: int, times: int) -> Array:
    """Every so many elements along a dimension added up."""
    parts = [x[(slice(None),) * axis + (slice(i, None, times),)] for i in range(times)]
    return functools.reduce(np.add, parts)


def _along(matrix: Matrix, x: Array, axis: int) -> Array:
    """The product of a matrix with every vector along one dimension, without moving any."""
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    size, wanted = matrix.rows.shape[::-1]
    shape = (*x.shape[:axis], wanted, *x.shape[axis + 1 :])
    x = x.astype(np.result_type(x, matrix.rows.dtype), copy=False)
    # BLAS takes 16 short numbers at once, which pays where there are many
    if inner > 1 or x.itemsize == 8 or wanted <= size or not matrix.blocks:
        found = native.along(*matrix.entries, x.reshape(outer, size, inner))
        if found is not None:
            return found.reshape(shape)
    blocks = matrix.blocks if inner == 1 or matrix.rows.shape[1] <= _SMALL else ()
    if blocks and np.isfinite(x.sum()):  # 0 times another number is not 0
        result = np.empty((outer, wanted, inner), x.dtype)
        x = x.reshape(outer, size, inner)
        for start, end, low, high, block in blocks:
            if inner > 1:
                np.matmul(block.T, x[:, low:high], out=result[:, start:end])
            else:
                np.matmul(x[:, low:high, 0], block, out=result[:, start:end, 0])
    elif inner > 1:
        result = _repeated(matrix.rows, outer) @ x.reshape(outer * size, inner)
    else:
        result = np.ascontiguousarray((matrix.rows @ x.reshape(outer, size).T).T)
    return result.reshape(shape)


def _repeated(matrix: Any, count: int) -> Any:
    """A matrix `count` times along the diagonal."""
    rows, columns = matrix.shape
    parts = np.arange(count)[:, None]
    whole: Any = np.int32 if count * max(columns, matrix.nnz) < 2**31 else np.int64
    indices = (parts * columns + matrix.indices).astype(whole).reshape(-1)
    ends = (parts * matrix.nnz + matrix.indptr[1:]).astype(whole).reshape(-1)
    ends = np.concatenate((np.zeros(1, whole), ends))
    data = np.tile(matrix.data, count)
    return sparse.csr_array((data, indices, ends), (count * rows, count * columns))


def _kind(dtype: np.dtype[Any]) -> str:
    """The letter of the dtype of weights; "B" for weights of uint8 images."""
    return {"d": "d", "D": "d", "B": "B"}.get(dtype.char, "f")


@functools.lru_cache(_CACHED)
def _matrix(
    size: int, output_size: int, mode: str, align_corners: bool, scale: float, kind: str,
    transposed: bool,
) -> Matrix:  # fmt: skip
    indices, weights, used = _taps(size, output_size, mode, align_corners, scale, kind)
    ends = np.concatenate(([0], np.cumsum(used.sum(1))))
    rows = sparse.csr_array((weights[used], indices[used], ends), (output_size, size))
    if transposed:
        rows = rows.T.tocsr()
    entries = rows.indptr.astype(np.int32), rows.indices.astype(np.int32), rows.data
    return Matrix(rows, entries, _blocks(rows))


def _blocks(rows: Any) -> Blocks:
    """Rows in groups, each with the columns between its first and last as a dense matrix."""
    found: list[Any] = []
    for start in range(0, rows.shape[0], _BLOCK):
        part = rows[start : start + _BLOCK]
        low, high = (part.indices.min(), part.indices.max() + 1) if part.nnz else (0, 1)
        dense = np.ascontiguousarray(part[:, low:high].toarray().T)
        found.append((start, start + part.shape[0], int(low), int(high), dense))
    dense = sum(block.size for *_, block in found)
    return tuple(found) if dense <= _DENSE * rows.nnz else ()


# --- tables of taps ------------------------------------------------------------------------------


@functools.lru_cache(_CACHED)
def _taps(
    size: int, output_size: int, mode: str, align_corners: bool, scale: float, kind: str
) -> Taps:
    """The taps of every element of the result along one dimension."""
    real: Any = np.float32 if kind == "f" else np.float64
    at = np.arange(output_size, dtype=real)
    step = real(resampling.step(size, output_size, align_corners, scale))
    count = resampling.taps(size, output_size, mode, align_corners, scale)
    if mode in resampling.WIDTHS:
        indices, weights, used = _filtered(mode, at, step, size, count)
    else:
        indices, weights = _interpolated(mode, at, step, size, align_corners)
        used = np.ones(indices.shape, np.bool_)
    return indices, _binary(indices, weights) if kind == "B" else weights, used


def _interpolated(
    mode: str, at: Array, step: Any, size: int, align_corners: bool
) -> tuple[Array, Array]:
    half = at.dtype.type(0.5)
    if mode in ("nearest", "nearest-exact"):
        place = (at + half) * step if mode == "nearest-exact" else at * step
        indices = np.minimum(np.floor(place.astype(np.float32)), size - 1).astype(np.intp)[:, None]
        return indices, np.ones(indices.shape, at.dtype)
    place = at * step if align_corners else (at + half) * step - half
    if mode == "linear":
        place = np.maximum(place, 0)
    first = np.floor(place)
    if mode == "linear":
        first = np.minimum(first, size - 1)
    t = np.clip(place - first, 0, 1)[:, None]
    near = np.arange(2) if mode == "linear" else np.arange(-1, 3)
    kernel = filters.triangle if mode == "linear" else filters.cubic
    indices = np.clip(first.astype(np.intp)[:, None] + near, 0, size - 1)
    return indices, kernel(t - near.astype(at.dtype))


def _filtered(mode: str, at: Array, step: Any, size: int, count: int) -> Taps:
    """The filter, stretched where elements become fewer, on all elements that it covers."""
    half = at.dtype.type(0.5)
    stretch = max(step, at.dtype.type(1))
    support = at.dtype.type(resampling.WIDTHS[mode]) * half * stretch
    centre = step * (at + half)
    first = np.maximum((centre - support + half).astype(np.intp), 0)
    end = np.minimum((centre + support + half).astype(np.intp), size)
    indices = first[:, None] + np.arange(count)
    used = indices < end[:, None]
    weights = filters.ANTIALIAS[mode]((indices - centre[:, None] + half).astype(at.dtype) / stretch)
    weights = np.where(used, weights, 0)
    total = weights.sum(1, keepdims=True)
    return indices, weights / np.where(total == 0, 1, total), used


def _binary(indices: Array, weights: Array) -> Array:
    """Weights rounded to multiples of the power of two with which the largest has 15 bits.

    Those of one element, which the border gave several times, are one weight.
    """
    weights = weights.copy()
    for k in range(1, weights.shape[1]):
        again = indices[:, k] == indices[:, k - 1]
        weights[:, k] += np.where(again, weights[:, k - 1], 0)
        weights[again, k - 1] = 0
    largest = weights.max()
    bits = next((p for p in range(22) if int(0.5 + largest * (1 << (p + 1))) >= 1 << 15), 22)
    scaled = weights * (1 << bits)
    return np.trunc(scaled + np.copysign(0.5, scaled)) / (1 << bits)
