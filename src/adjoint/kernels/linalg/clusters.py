"""Clusters: eigenvalues or singular values that are close together, and matrices near such ones.

Note [Repeated values]. Vectors that belong to equal eigenvalues (or singular values) are determined
up to a rotation among themselves. A gradient arrives as slopes w̄ in the values and X = Vᴴ V̄. Let
i, j be such a pair.
  * The skew part of X at (i, j) is the derivative along the rotation. It is divided by w[j] - w[i],
    so where that is 0 it must vanish; otherwise the function depends on the basis: DegenerateError.
  * The result at (i, j) is then 0/0, and what arrives does not tell it. Where values are close, but
    not equal, it is a difference of rounded numbers, over w[j] - w[i], and a derivative of order n
    loses a factor of ε/(w[j] - w[i])ⁿ.
So the function is computed beside the matrix too, at A + tD for the t of a fan, where D spreads the
values of a cluster over a part of their distance to the others. Those matrices are ordinary ones;
all derivatives exist there, in every mode, and tend to the true ones with t: Note [Fans] in
kernels/linalg/limits.py. A tensor that stands for the whole fan is of `FANS`: homes/fans.py.
  * Singular values count as close to 0 where that matters: one of a complex matrix, or of one that
    is not square, two of others.
  * D is in general position within a cluster, so no basis in special position (the axes, for the
    identity) hides that a function depends on it, and values that are close do not meet on the way.
  * General matrices may be defective. They are moved as a whole.
  * In a graph the values are not known beforehand, so there is no fan: its derivatives check that
    there is no cluster (`require_distinct`). A compiled function that meets one runs eagerly for
    that call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from adjoint.core.lazy import Lazy
from adjoint.core.records import record
from adjoint.kernels.linalg.common import Array, mH

hierarchy, distance = Lazy("scipy.cluster.hierarchy"), Lazy("scipy.spatial.distance")

NEAR = 100  # values closer than this many ulp of the largest one count as equal


@record
class Cluster:
    """Neighbouring values of one matrix that are close together."""

    index: tuple[int, ...]  # which matrix of the batch
    block: slice  # where the values are
    reach: float  # how far they may go: about the distance to the others
    equal: bool  # whether some of them are equal up to rounding
    at_zero: bool = False  # whether they are close to 0, and that matters


def of_eigenvalues(values: Array, closeness: float) -> list[Cluster]:
    """The clusters of eigenvalues in ascending order.

    A run of m values may be one if their spread is at most half the distance to all others, and the
    least gap at most `closeness` of what it would be, were they spread over that distance.
    """
    return [
        Cluster(index, slice(run.start, run.stop), run.reach, run.equal)
        for index, run in _all_runs(values, closeness)
    ]


def of_singular_values(values: Array, closeness: float, with_zero: int) -> list[Cluster]:
    """The clusters of singular values in descending order; `with_zero` of them may not be near 0.

    It is 0 where zeros do not matter at all: for the values alone.
    """
    count = values.shape[-1]
    rising = values[..., ::-1]
    if with_zero:
        rising = np.concatenate([np.zeros_like(rising[..., :1]), rising], -1)
    found = []
    for index, run in _all_runs(rising, closeness):
        start, stop = (run.start - 1, run.stop - 1) if with_zero else (run.start, run.stop)
        at_zero = start < 0
        if not at_zero or stop >= with_zero:
            block = slice(count - stop, count - max(start, 0))
            found.append(Cluster(index, block, run.reach, run.equal, at_zero))
    return found


def zeros_that_matter(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """How many singular values near 0 make the vectors of matrices arbitrary; 0 of no number do.

    The vectors of one that is 0 may take any phase each, and turn into the complement.
    """
    return 2 if shape[-1] == shape[-2] and dtype.kind != "c" else 1


@record
class _CloseValues:
    start: int
    stop: int
    reach: float
    equal: bool


def _all_runs(values: Array, closeness: float) -> Iterator[tuple[tuple[int, ...], _CloseValues]]:
    """The clusters of each row of values in ascending order."""
    if values.shape[-1] < 2:
        return
    gaps = np.diff(values, axis=-1)
    low, high = np.abs(values[..., 0]), np.abs(values[..., -1])
    farthest = np.maximum(np.max(gaps, -1), 0.5 * np.abs(values[..., 0] + values[..., -1]))
    equal = NEAR * float(np.finfo(values.dtype).eps) * np.maximum(low, high)
    limit = np.maximum(equal, closeness * farthest)  # no cluster reaches farther
    for place in np.argwhere(np.min(gaps, -1) <= limit):
        index = tuple(int(i) for i in place)
        for run in _runs(values[index], gaps[index], closeness):
            yield index, run


def _runs(values: Array, gaps: Array, closeness: float) -> list[_CloseValues]:
    """The runs of a row of values in ascending order that are clusters."""
    top = float(max(abs(values[0]), abs(values[-1])))
    equal = NEAR * float(np.finfo(values.dtype).eps) * top
    return _parted(values, gaps, (0, len(values)), closeness, equal)[0]


def _parted(
    values: Array, gaps: Array, part: tuple[int, int], closeness: float, equal: float
) -> tuple[list[_CloseValues], float]:
    """The clusters of a part of a row, and the least gap once they are spread.

    The part itself is a cluster if spreading the two parts next to its widest gap helps much less.
    """
    start, stop = part
    if stop - start < 2:
        return [], np.inf
    inner, reach = gaps[start : stop - 1], _reach(values, start, stop)
    least, widest = float(np.min(inner)), int(np.argmax(inner))
    wide = float(inner[widest])
    if not least <= max(equal, closeness * max(reach, wide)):
        return [], least
    spread = 0.4 * reach / (stop - start - 1)
    run = _CloseValues(start, stop, max(reach, equal), least <= equal)
    if wide <= equal:  # nothing parts them
        return [run], spread
    middle = start + widest + 1
    below, low = _parted(values, gaps, (start, middle), closeness, equal)
    above, high = _parted(values, gaps, (middle, stop), closeness, equal)
    without = min(low, high, wide)
    isolated = values[stop - 1] - values[start] <= reach / 2
    close = least <= max(equal, closeness * reach / (stop - start - 1))
    if close and isolated and 4 * without < spread:
        return [run], spread
    return [*below, *above], without


def _reach(values: Array, start: int, stop: int) -> float:
    """The distance of a run to its neighbouring values; for a run of all values, to 0."""
    sides = []
    if start:
        sides.append(float(values[start] - values[start - 1]))
    if stop < len(values):
        sides.append(float(values[stop] - values[stop - 1]))
    if sides:
        return min(sides)
    return abs(float(values[0] + 0.5 * (values[-1] - values[0]))) or 1.0


# ---- eigenvalues of general matrices ------------------------------------------------------------


@record
class Set:
    """Eigenvalues of one general matrix that are close together."""

    index: tuple[int, ...]  # which matrix of the batch
    members: Array  # their places
    reach: float
    equal: bool


def of_general(values: Array, vectors: Array, closeness: float) -> list[Set]:
    """The clusters of eigenvalues of general matrices."""
    found = []
    for index in np.ndindex(*values.shape[:-1]):
        for members, reach, equal in _sets(values[index], vectors[index], closeness):
            found.append(Set(index, members, reach, equal))
    return found


_Found = tuple[Array, float, bool]  # members, reach, equal


def _sets(values: Array, vectors: Array, closeness: float) -> list[_Found]:
    """The clusters of one matrix.

    Rounding parts equal eigenvalues by ε times their condition, the size of V⁻¹'s rows.
    """
    count = len(values)
    top = float(np.max(np.abs(values), initial=0.0))
    if count < 2 or not np.isfinite(top):
        return []
    gaps = np.abs(values[:, None] - values)
    gaps[np.arange(count), np.arange(count)] = np.inf
    equal = NEAR * float(np.finfo(gaps.dtype).eps) * top * _conditions(vectors)
    equal = np.maximum(equal[:, None], equal)
    if not np.min(gaps - equal) <= 2 * closeness * top:
        return []
    return _linked(values, gaps, equal, np.arange(count), closeness)[0]


def _conditions(vectors: Array) -> Array:
    """The condition of each eigenvalue; 1/ε where the vectors are not independent."""
    most = 1 / float(np.finfo(vectors.dtype).eps)
    try:
        sizes = np.linalg.norm(np.linalg.inv(vectors), axis=-1)
    except np.linalg.LinAlgError:
        return np.full(len(vectors), most)
    return np.minimum(np.where(np.isfinite(sizes), sizes, most), most)


def _linked(
    values: Array, gaps: Array, equal: Array, part: Array, closeness: float
) -> tuple[list[_Found], float]:
    """Like `_parted`, for complex values: sets of values linked by gaps below one size."""
    size = len(part)
    if size < 2:
        return [], np.inf
    inner = gaps[np.ix_(part, part)]
    outer = np.delete(gaps[part], part, 1)
    reach = float(np.min(outer)) if outer.size else abs(complex(np.mean(values))) or 1.0
    least, widest = float(np.min(inner)), float(np.max(inner, initial=0, where=inner < np.inf))
    same = bool((inner <= equal[np.ix_(part, part)]).any())
    spread = 0.4 * reach / (size - 1)
    here = (part, max(reach, widest) if same else reach, same)
    pieces = _pieces(inner) if widest > 0 else []
    if len(pieces) < 2:
        return ([here], spread) if same else ([], least)
    below = [_linked(values, gaps, equal, part[p], closeness) for p in pieces]
    between = min(float(np.min(inner[p][:, np.delete(np.arange(size), p)])) for p in pieces)
    without = min([between, *(s for _, s in below)])
    close = same or least <= closeness * reach / (size - 1)
    parted = (inner > equal[np.ix_(part, part)])[~np.eye(size, dtype=bool)].any()
    if (close and widest <= reach / 2 and 4 * without < spread) or (same and not parted):
        return [here], spread
    return [f for found, _ in below for f in found], without


def _pieces(gaps: Array) -> list[Array]:
    """The sets into which the widest of the gaps that join everything parts a set."""
    distances = np.where(np.isfinite(gaps), gaps, 0)
    pairs = distance.squareform(0.5 * (distances + distances.T), checks=False)
    tree = hierarchy.linkage(pairs, "single")
    names = hierarchy.fcluster(tree, 2, "maxclust")
    return [np.nonzero(names == name)[0] for name in np.unique(names)]


# ---- matrices beside one with clusters ----------------------------------------------------------


def turn(size: int, dtype: np.dtype[Any]) -> Array:
    """An orthogonal matrix in general position."""
    return np.linalg.qr(np.random.default_rng(size).standard_normal((size, size)))[0].astype(dtype)


def spread_out(size: int, dtype: np.dtype[Any]) -> Array:
    """A symmetric matrix in general position, whose eigenvalues go in equal steps from -1 to 1."""
    Q = turn(size, dtype)
    return (Q * np.linspace(-1, 1, size, dtype=Q.real.dtype)) @ mH(Q)


def apart_at_zero(size: int, dtype: np.dtype[Any]) -> Array:
    """A matrix in general position, whose singular values go in equal steps up to 1."""
    both = turn(size + 1, dtype)[:size, :size]  # not the transpose of the other one
    left, _, right = np.linalg.svd(both)
    values = np.arange(1, size + 1, dtype=both.real.dtype) / size
    return (left * values) @ turn(size, dtype) @ right
