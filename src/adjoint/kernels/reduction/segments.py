"""Reductions over segments: consecutive pieces of a dimension, given by lengths or by offsets."""

from __future__ import annotations

import math

import numpy as np

from adjoint.core import dtypes
from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError
from adjoint.core.promotion import cast
from adjoint.core.shapes import show, wrap_dim
from adjoint.kernels.reduction.common import Array, widened

_UFUNCS: dict[str, np.ufunc] = {
    "sum": np.add, "mean": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip
_IDENTITY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


def _bounds(
    lengths: Array | None, offsets: Array | None, axis: int, shape: tuple[int, ...], *, unsafe: bool
) -> tuple[Array, Array, int]:
    """Where segments start and end, in rows of the data flattened to `axis`; how many."""
    given = offsets if lengths is None else lengths
    if given is None:
        raise ValueRangeError("segment_reduce: give either lengths or offsets")
    if given.ndim - 1 != axis or given.shape[:-1] != shape[:axis]:
        raise ShapeError(
            f"segment_reduce: along axis {axis} of {show(shape)} the lengths or offsets must have "
            f"shape {show(shape[:axis])} and one more dimension, got {show(given.shape)}"
        )
    size = shape[axis]
    if lengths is not None:
        ends = np.cumsum(lengths, axis=-1)
        starts = ends - lengths
        if not unsafe and ((lengths < 0).any() or (np.add.reduce(lengths, axis=-1) != size).any()):
            raise ValueRangeError(
                f"segment_reduce: the lengths must be non-negative and add up to {size}, the size "
                f"of dimension {axis}; unsafe=True leaves the sum unchecked"
            )
    else:
        starts, ends = given[..., :-1], given[..., 1:]
    if (starts < 0).any() or (ends > size).any() or (starts > ends).any():
        raise ValueRangeError(f"segment_reduce: segments must be increasing and within 0 to {size}")
    rows = np.arange(math.prod(shape[:axis])).reshape((*shape[:axis], 1)) * size
    return (starts + rows).ravel(), (ends + rows).ravel(), starts.shape[-1]


def segment_ids(
    lengths: Array | None, offsets: Array | None, axis: int, shape: tuple[int, ...]
) -> Array:
    """The number of the segment of each row of the data flattened up to `axis`; -1 for none."""
    axis = wrap_dim("segment_reduce", axis, len(shape))
    starts, ends, _ = _bounds(lengths, offsets, axis, shape, unsafe=True)
    ids = np.full(math.prod(shape[: axis + 1]), -1, np.int64)
    counts = ends - starts
    first = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    ids[first + np.arange(len(first))] = np.repeat(np.arange(len(starts)), counts)
    return ids


def segment_reduce(
    data: Array, reduce: str, lengths: Array | None, indices: Array | None, offsets: Array | None,
    axis: int, unsafe: bool, initial: float | None,
) -> Array:  # fmt: skip
    """Reduce each segment of `data` along `axis`; an empty one gives `initial` or the identity."""
    if reduce not in _UFUNCS:
        known = ", ".join(_UFUNCS)
        raise ValueRangeError(f"segment_reduce: reduce is one of {known}, got {reduce!r}")
    if indices is not None:
        raise ValueRangeError("segment_reduce: indices are not supported; use lengths or offsets")
    if data.dtype.kind in "biuc":
        raise DtypeError(f"segment_reduce: needs floating point data, got {dtypes.of(data.dtype)}")
    axis = wrap_dim("segment_reduce", axis, data.ndim)
    starts, ends, segments = _bounds(lengths, offsets, axis, data.shape, unsafe=unsafe)
    x = widened(data)
    rows, inner = math.prod(x.shape[: axis + 1]), x.shape[axis + 1 :]
    flat = x.reshape((rows, *inner))
    empty = _IDENTITY[reduce] if initial is None else initial
    result = np.full((len(starts), *inner), empty, x.dtype)
    filled = np.flatnonzero(ends > starts)
    if filled.size:
        ufunc = _UFUNCS[reduce]
        # each piece as a pair (start, end); every second result, between pieces, is dropped
        pairs = np.stack([starts[filled], ends[filled]], axis=1).ravel()
        if pairs[-1] == rows:
            pairs = pairs[:-1]
        pieces = _reduce_pairs(ufunc, flat, pairs)
        result[filled] = pieces if initial is None else ufunc(pieces, result[filled])
    if reduce == "mean":
        counts = (ends - starts).reshape((-1,) + (1,) * len(inner))
        missing = x.dtype.type(np.nan if initial is None else initial)
        result = np.where(counts > 0, result / np.maximum(counts, 1).astype(x.dtype), missing)
    result = result.reshape((*data.shape[:axis], segments, *inner))
    return cast(result, dtypes.of(data.dtype)) if result.dtype != data.dtype else result


def _reduce_pairs(ufunc: np.ufunc, flat: Array, pairs: Array) -> Array:
    if (np.diff(pairs) >= 0).all() and pairs[-1] < len(flat):
        return ufunc.reduceat(flat, pairs, axis=0)[::2]
    padded = np.concatenate([flat, flat[:1]])  # an end may be one past the last row
    return ufunc.reduceat(padded, pairs, axis=0)[::2]
