"""Derivatives as sums of diagonals: each takes one column, and a weight, for every element.

In a function whose results depend on few neighbours each (a stencil, a residual, a spring) the
derivative of every value is a short sum of diagonals: moves of elements act on columns and weights
alike, and elementwise operators scale weights. The weights are tensors of the shape of the value,
so a traced program computes the entries of the whole matrix in the loops of the function itself,
without seeds. `TooMany` is raised where a value has too many diagonals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from adjoint.core.errors import AdjointError
from adjoint.core.records import record
from adjoint.core.remembering import cached_property
from adjoint.graph.ir import Value
from adjoint.ops.operator import packet
from adjoint.sparse_derivatives.blocks import Entries
from adjoint.sparse_derivatives.propagation import Algebra, Array, Collection, Run
from adjoint.tensor.tensor import is_plain, make

MOST = 48  # diagonals of a value


class TooMany(AdjointError, RuntimeError):
    """A value has too many diagonals for this form of its derivative."""


@record
class Diagonal:
    """One column for each element of a value."""

    columns: Array  # in the shape of the value, plus 1; 0: none
    weight: Any  # a tensor of the shape of the value; where there is no column it is arbitrary

    @cached_property
    def there(self) -> Array:
        """Where there is a column."""
        return self.columns != 0

    @cached_property
    def is_full(self) -> bool:
        return bool(self.there.all())


Sum = list[Diagonal]


class Diagonals(Algebra[Sum]):
    """Sums of diagonals with weights."""

    takes_any = False

    def moved(self, parts: dict[Value, Sum], run: Run) -> list[Sum | None]:
        results: list[Sum] = []
        for level in zip_longest(*parts.values()):
            given = dict(zip(parts, level, strict=True))
            columns = run({v: make(_columns(v, d).astype(float)) for v, d in given.items()})
            weights = run({v: _weight(v, d) for v, d in given.items()})
            results = results or [[] for _ in columns]
            for found, places, weight in zip(results, columns, weights, strict=True):
                places = np.broadcast_to(places.value.astype(np.int64), places.shape)
                if places.any():
                    found.append(Diagonal(places, weight))
        return [_merged(found) or None for found in results]

    def scaled(self, part: Sum, value: Value, run: Run, *, is_known: bool) -> Sum | None:
        found = []
        for each in part:
            (weight,) = run({value: each.weight})
            columns = each.columns
            if is_plain(weight):  # known, so that zeros are zeros at every point
                columns = np.where(weight.value == 0, 0, columns)
            if columns.any():
                found.append(Diagonal(columns, weight))
        return found or None

    def collected(self, part: Sum, value: Value, into: Collection) -> Sum:
        targets = into.targets.ravel()
        sources = np.argsort(targets, kind="stable")
        sources = sources[targets[sources] != 0]
        reached, starts, counts = np.unique(targets[sources], return_index=True, return_counts=True)
        most = int(counts.max(initial=0))
        if most * len(part) > MOST:
            raise TooMany
        found = []
        for turn in range(most):
            places = np.zeros(math.prod(into.result.shape), np.int64)
            there = counts > turn
            places[reached[there] - 1] = sources[starts[there] + turn] + 1
            found += [_taken(each, places, into) for each in part]
        return _merged(found)

    def spread(self, part: Sum, result: Value) -> Sum:
        raise TooMany

    def joined(self, parts: list[Sum]) -> Sum:
        return _merged([diagonal for part in parts for diagonal in part])


def _columns(value: Value, diagonal: Diagonal | None) -> Array:
    return np.zeros(value.shape) if diagonal is None else diagonal.columns


def _weight(value: Value, diagonal: Diagonal | None) -> Any:
    return make(np.zeros(value.shape, value.dtype.np)) if diagonal is None else diagonal.weight


def _taken(diagonal: Diagonal, places: Array, into: Collection) -> Diagonal:
    """The elements at some places, times their factors; place 0: none."""
    shape, there, at = into.result.shape, places != 0, np.maximum(places - 1, 0)
    columns = np.where(there, diagonal.columns.ravel()[at], 0).reshape(shape)
    weight = diagonal.weight.reshape((-1,))[make(at)].reshape(shape)
    factors = np.where(there, into.factors.ravel()[at], 0).reshape(shape)
    if (factors != 1).any():
        weight = weight * make(factors.astype(into.result.dtype.np))
    return Diagonal(columns, weight)


def _merged(found: Sum) -> Sum:
    """The same sum, with diagonals added that nowhere have different columns."""
    kept: Sum = []
    for each in found:
        for number, other in enumerate(kept):
            if ((each.columns == other.columns) | ~each.there | ~other.there).all():
                kept[number] = _added(other, each)
                break
        else:
            kept.append(each)
    if len(kept) > MOST:
        raise TooMany
    return kept


def _added(one: Diagonal, other: Diagonal) -> Diagonal:
    weight = _where_there(one) + _where_there(other)
    return Diagonal(np.maximum(one.columns, other.columns), weight)


def _where_there(diagonal: Diagonal) -> Any:
    """The weight, with 0 where there is no column."""
    if diagonal.is_full:
        return diagonal.weight
    if is_plain(diagonal.weight):
        return make(np.where(diagonal.there, diagonal.weight.value, 0))
    return packet("where")(make(diagonal.there), diagonal.weight, 0.0)


def entries_of(found: Sequence[Sum | None], outputs: Sequence[Value]) -> Entries:
    """The entries of the derivatives of several outputs."""
    nothing = np.zeros(0, np.int64)
    rows, columns, places, values = [nothing], [nothing], [nothing], []
    row = place = 0
    for part, output in zip(found, outputs, strict=True):
        size = math.prod(output.shape)
        for diagonal in part or []:
            there = np.flatnonzero(diagonal.columns)
            rows.append(row + there)
            columns.append(diagonal.columns.ravel()[there] - 1)
            places.append(place + there)
            values.append(_as(output, diagonal.weight).reshape((-1,)))
            place += size
        row += size
    joined = np.concatenate
    values = values or [make(np.zeros(0, outputs[0].dtype.np))]
    whole = values[0] if len(values) == 1 else packet("cat")(values, 0)
    return Entries(joined(rows), joined(columns), joined(places), whole)


def _as(output: Value, weight: Any) -> Any:
    """A weight in the dtype of its output: a number that was traced has lost its weakness."""
    return weight if weight.dtype is output.dtype else weight.to(output.dtype)
