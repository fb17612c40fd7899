"""Pseudo-inverses along a direction, least squares, and distances between points."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from adjoint.c_kernels import distance as native
from adjoint.checks.linalg import (
    batch_shape,
    check_point_dtypes,
    check_points,
    check_same_dtype,
    cross_axis,
)
from adjoint.core import dtypes
from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError
from adjoint.core.lazy import Lazy
from adjoint.core.promotion import result_type
from adjoint.core.shapes import broadcast
from adjoint.kernels.halves import widen
from adjoint.kernels.linalg.common import Array, each, mH
from adjoint.kernels.linalg.spectral import tolerance
from adjoint.kernels.reduction.norms import quotient, vector_norm
from adjoint.loops.element_loops import Loops

distance = Lazy("scipy.spatial.distance")


def pinv_tangent(self: Array, tangent: Array, atol: Array | None, rtol: Array | None) -> Array:
    """The derivative of the pseudo-inverse along E, the rank of its range kept.

    With B = Uᴴ E V: where both values are kept, -B[i,j]/(s[i] s[j]); where one is (s, the other t):
    (conj(B[j,i]) + B[i,j] t/s)/(s² - t²). Exact also where t is small but not 0.
    """
    *_, m, n = self.shape
    shape = (*np.broadcast_shapes(self.shape[:-2], tangent.shape[:-2]), n, m)
    if not self.size or not tangent.size:
        return np.zeros(shape, self.dtype)
    U, S, Vh = np.linalg.svd(self)
    keep = tolerance(S[..., 0], self.shape, atol, rtol)[..., None] < S
    rows, kept_rows = _extended(S, keep, n)
    columns, kept_columns = _extended(S, keep, m)
    s, t = rows[..., :, None], columns[..., None, :]
    both = kept_rows[..., :, None] & kept_columns[..., None, :]
    one = kept_rows[..., :, None] ^ kept_columns[..., None, :]
    large = np.where(kept_rows[..., :, None], s, t)
    small = np.where(kept_rows[..., :, None], t, s)
    inner = mH(U) @ tangent @ mH(Vh)
    crossed = np.where(one, 1 / np.where(one, large**2 - small**2, 1), 0)
    straight = np.where(one, small / np.where(one, large, 1), 0) * crossed
    straight = straight - np.where(both, 1 / np.where(both, s * t, 1), 0)
    core = crossed * mH(inner) + straight * _resized(inner, n, m)
    return np.asarray(mH(Vh) @ core @ mH(U), self.dtype)


def _extended(S: Array, keep: Array, size: int) -> tuple[Array, Array]:
    """Singular values with zeros after them, and which are kept."""
    pad = [(0, 0)] * (S.ndim - 1) + [(0, size - S.shape[-1])]
    return np.pad(S, pad), np.pad(keep, pad)


def _resized(x: Array, rows: int, columns: int) -> Array:
    """The matrices cut or filled with zeros to a shape; only what both shapes share is used."""
    result = np.zeros((*x.shape[:-2], rows, columns), x.dtype)
    m, n = min(rows, x.shape[-2]), min(columns, x.shape[-1])
    result[..., :m, :n] = x[..., :m, :n]
    return result


def lstsq(self: Array, b: Array, rcond: float) -> tuple[Array, Array, Array]:
    """The shortest X that minimises |A X - B|; the rank and singular values of A."""
    what = "linalg_lstsq(A, B)"
    check_same_dtype(what, dtypes.of(self.dtype), dtypes.of(b.dtype))
    if self.shape[-2] != b.shape[-2]:
        raise ShapeError(
            f"{what}: A has {self.shape[-2]} rows, and B {b.shape[-2]} "
            f"(A: {self.shape}, B: {b.shape})."
        )
    batch_shape(what, self.shape, b.shape)
    U, S, Vh = np.linalg.svd(self, full_matrices=False)
    keep = rcond * np.max(S, -1, initial=0.0, keepdims=True) < S
    inverse = np.where(keep, 1 / np.where(keep, S, 1), 0).astype(S.dtype)
    solution = mH(Vh) @ (inverse[..., None] * (mH(U) @ b))
    return np.asarray(solution, b.dtype), keep.sum(-1), S


_CROSSED = Loops("a * b - c * d", "a", "b", "c", "d")


def cross(self: Array, other: Array, dim: int) -> Array:
    """c[i] = a[i+1] b[i+2] - a[i+2] b[i+1], counted modulo 3."""
    axis = cross_axis(self.shape, other.shape, dim)
    shape = broadcast("linalg_cross(a, b)", self.shape, other.shape)
    dtype = result_type(self, other)
    if dtype is dtypes.bool_:
        raise DtypeError("linalg_cross(a, b): booleans are not subtracted; convert them first.")
    result = np.empty(shape, dtype.np)
    arrays = self.astype(dtype.np, copy=False), other.astype(dtype.np, copy=False), result
    a, b, c = (x.swapaxes(axis, 0) for x in arrays)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        if _CROSSED(a[j], b[k], a[k], b[j], out=c[i, ...]) is None:
            c[i, ...] = a[j] * b[k] - a[k] * b[j]
    return result


_BLOCK = 128  # rows whose distances from all after them are found at once


def cdist(x1: Array, x2: Array, p: float, compute_mode: int | None) -> Array:
    """The p-norm of each row of x1 minus each row of x2."""
    check_distance("cdist(x1, x2)", x1, x2, p)
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    shape = (*batch, x1.shape[-2], x2.shape[-2])
    if 0 in shape or not x1.shape[-1]:
        return np.zeros(shape, x1.dtype)
    if not batch:
        return _distances(x1, x2, p).astype(x1.dtype, copy=False)
    result = np.empty(shape, x1.dtype)
    a = np.broadcast_to(x1, (*batch, *x1.shape[-2:]))
    b = np.broadcast_to(x2, (*batch, *x2.shape[-2:]))
    for out, rows, others in each(result, a, b):
        out[...] = _distances(rows, others, p)
    return result


def euclidean_dist_backward(factor: Array, x1: Array, x2: Array, cdist: Array) -> Array:
    """Σⱼ F[i,j] (x[i] - y[j])/D[i,j], and 0 where points coincide."""
    cloud = _Cloud("the gradient of distances", factor, x1, x2, cdist)
    result = np.zeros((*cloud.batch, *x1.shape[-2:]), x1.dtype)
    if not x1.size or not x2.size:
        return result
    with np.errstate(all="ignore"):
        weights = factor * cloud.inverse
        result += weights.sum(-1, keepdims=True) * cloud.x - weights @ cloud.y
        factors = np.broadcast_to(factor, cloud.shape)
        for pairs, directions in cloud.near_pairs():
            np.add.at(result, pairs[:-1], factors[pairs][:, None] * directions)
    return result


def euclidean_dist_along(tangent: Array, x1: Array, x2: Array, cdist: Array) -> Array:
    """⟨T[i], x[i] - y[j]⟩/D[i,j], and 0 where points coincide."""
    cloud = _Cloud("the derivative of distances", tangent, x1, x2, cdist)
    result = np.zeros(cloud.shape, x1.dtype)
    if not x1.size or not x2.size:
        return result
    with np.errstate(all="ignore"):
        own = (tangent * cloud.x).sum(-1, keepdims=True)
        result += (own - tangent @ cloud.y.swapaxes(-2, -1)) * cloud.inverse
        tangents = np.broadcast_to(tangent, (*cloud.batch, *x1.shape[-2:]))
        for pairs, directions in cloud.near_pairs():
            result[pairs] = np.einsum("ij,ij->i", tangents[pairs[:-1]], directions)
    return result


# Of the size of all points: differences of points that are nearer have lost digits by the size.
NEAR = {"f": 2.0**-6, "d": 2.0**-12}


class _Cloud:
    """Two sets of points and their distances, for products of matrices in place of differences.

    Points are counted from the middle of y, so that far from the origin no digits are lost, and in
    their largest coordinate. Pairs that are much nearer than that are looked at one by one.
    """

    def __init__(self, what: str, first: Array, x1: Array, x2: Array, cdist: Array) -> None:
        given = (first, x1, x2, cdist)
        check_point_dtypes(what, *(dtypes.of(a.dtype) for a in given))
        self.batch = np.broadcast_shapes(*[a.shape[:-2] for a in given])
        self.shape = (*self.batch, *cdist.shape[-2:])
        self.points, self.distances = (x1, x2), cdist
        if not x1.size or not x2.size:
            return
        with np.errstate(all="ignore"):
            middle = x2.mean(-2, keepdims=True)
            x, y = x1 - middle, x2 - middle
            size = np.maximum(_largest(x), _largest(y))
            size = np.where((size > 0) & (size < math.inf), size, size.dtype.type(1))
            self.x, self.y = x / size, y / size
            self.near = (cdist < size * NEAR[x.dtype.char]) & (cdist > 0)
            self.inverse = np.where(self.near, 0, quotient(size, cdist))

    def near_pairs(self) -> Iterator[tuple[tuple[Array, ...], Array]]:
        """Some near pairs after others, as indices into all pairs, and their directions."""
        if not self.near.any():
            return
        x, y = [np.broadcast_to(p, (*self.batch, *p.shape[-2:])) for p in self.points]
        distances = np.broadcast_to(self.distances, self.shape)
        found = np.nonzero(np.broadcast_to(self.near, self.shape))
        for start in range(0, found[0].size, _PAIRS):
            pairs = tuple(index[start : start + _PAIRS] for index in found)
            difference = x[pairs[:-1]] - y[(*pairs[:-2], pairs[-1])]
            yield pairs, difference / distances[pairs][:, None]


def _largest(x: Array) -> Array:
    """The largest |x| of each matrix."""
    return np.abs(x).max((-2, -1), keepdims=True, initial=0)


def pdist(self: Array, p: float) -> Array:
    """The distances of all pairs of rows, the first with the others first."""
    check_points(self.shape, dtypes.of(self.dtype), p)
    count, width = self.shape
    result = np.zeros(count * (count - 1) // 2, np.abs(self[:0]).dtype)
    place = 0
    for first in range(0, count - 1 if width else 0, _BLOCK):
        rows = _to_others(self, first, min(first + _BLOCK, count - 1), p)
        for k, row in enumerate(rows):
            result[place : place + row.size - k] = row[k:]
            place += row.size - k
    return result


def _to_others(x: Array, first: int, last: int, p: float) -> Array:
    """The distances of some rows from all rows after the first of them."""
    a, b = x[first:last], x[first + 1 :]
    if dtypes.of(x.dtype) in (dtypes.float32, dtypes.float64):
        return _distances(a, b, p)
    gaps = np.abs(a[:, None] - b)
    wide = widen(gaps)
    norms = np.linalg.norm(wide, p, -1)
    return np.where(np.isnan(wide).any(-1), np.nan, norms) if p == 0 else norms


# Points whose largest coordinate is in between, and distances that are, have lost nothing, but for
# pairs that are much nearer than the points are large.
_SIZES = {"f": (2.0**-40, 2.0**60), "d": (2.0**-400, 2.0**500)}
_PAIRS = 1 << 16  # that are looked at one by one together


def _distances(a: Array, b: Array, p: float) -> Array:
    found = native.distances(a, b, p)
    if found is not None:
        return found
    found = _quick_distances(a, b, p)
    if p in (0, 1, math.inf):
        return found
    least, most = _SIZES[a.dtype.char] if p == 2 else _OF_POWERS
    if np.minimum.reduce(found, None) > least and np.maximum.reduce(found, None) < most:
        return found
    top = max(np.maximum.reduce(np.abs(x), None) for x in (a, b))
    if not (least < top < most) and np.isfinite(top) and top:
        exponent = np.frexp(top)[1]
        near, others = np.ldexp(a, -exponent), np.ldexp(b, -exponent)
        return np.ldexp(_pair_by_pair(near, others, p, _quick_distances(near, others, p)), exponent)
    return _pair_by_pair(a, b, p, found)


_OF_POWERS = (2.0**-16, 2.0**16)


def _pair_by_pair(a: Array, b: Array, p: float, found: Array) -> Array:
    """The distances, computed again where terms underflow although the points are large."""
    least = _SIZES[a.dtype.char][0] if p == 2 else _SIZES[a.dtype.char][0] ** (2 / p)
    size = np.abs(np.concatenate([a, b]))
    if not ((size > 0) & (size < least)).any():  # differences of larger ones are no smaller
        return found
    i, j = np.nonzero(found < least)
    for start in range(0, i.size, _PAIRS):
        own = slice(start, start + _PAIRS)
        found[i[own], j[own]] = vector_norm(a[i[own]] - b[j[own]], p, (1,), False, None)
    return found


def _quick_distances(a: Array, b: Array, p: float) -> Array:
    if p in (0, math.inf):  # SciPy passes over NaN there
        is_count = p == 0
        found = distance.cdist(a, b, "hamming" if is_count else "chebyshev")
        found = found * a.shape[-1] if is_count else found
        if np.isfinite(a).all() and np.isfinite(b).all():
            return found
        with np.errstate(invalid="ignore"):  # ∞ - ∞
            unknown = np.isnan(a[:, None] - b).any(-1)
        return np.where(unknown, np.nan, found)
    if p == 1:
        return distance.cdist(a, b, "cityblock")
    return distance.cdist(a, b, "euclidean") if p == 2 else distance.cdist(a, b, "minkowski", p=p)


def check_distance(what: str, x1: Array, x2: Array, p: float) -> None:
    """Raise unless the operands hold points of one space and p is a norm's."""
    check_point_dtypes(what, dtypes.of(x1.dtype), dtypes.of(x2.dtype))
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(
            f"{what}: needs matrices with equally many columns, got {x1.shape} and {x2.shape}."
        )
    if p < 0:
        raise ValueRangeError(f"{what}: p must not be negative, got {p}")
