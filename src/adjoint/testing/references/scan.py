"""Running sums, products and extrema by loops over Python's numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.testing.references.elements import Array
from adjoint.testing.references.reduction import log_sum, total

Number = Any


def rows(function: Callable[[list[Number]], list[Number]], x: Array, dim: int) -> Array:
    """Apply a function of a list to every row along a dimension."""
    if not x.ndim:
        return np.array(function([x.item()])[0])
    if not x.size:
        return x
    return np.apply_along_axis(lambda row: np.array(function(row.tolist())), dim, x)


def prefixes(function: Callable[[list[Number]], Number]) -> Callable[..., Array]:
    """The function of the first k elements, for every k."""
    every = lambda row: [function(row[: k + 1]) for k in range(len(row))]
    return lambda x, dim, dtype=None: rows(every, x, dim)


def last_place(better: Callable[[Number, Number], bool]) -> Callable[[list[Number]], int]:
    """Where the best element so far is; the last of equals, and NaN wins."""

    def place(values: list[Number]) -> int:
        best = 0
        for k, value in enumerate(values):
            if value != value or (values[best] == values[best] and better(value, values[best])):
                best = k
        return best

    return place


def running(better: Callable[[Number, Number], bool]) -> Callable[..., list[Array]]:
    place = last_place(better)
    return lambda x, dim: [
        prefixes(lambda values: values[place(values)])(x, dim),
        prefixes(place)(x, dim),
    ]


def recurrence(a: Array, b: Array, dim: int, reverse: bool) -> Array:
    """y[k] = a[k]·y[k-1] + b[k] along a dimension, from either end."""
    if not np.broadcast(a, b).ndim:
        return b
    step = -1 if reverse else 1
    a, b = (np.moveaxis(v, dim, 0)[::step] for v in np.broadcast_arrays(a, b))
    found: list[Array] = []
    for factor, term in zip(a, b, strict=True):
        found.append(factor * found[-1] + term if found else term)
    return np.moveaxis(np.array(found)[::step], 0, dim) if found else np.moveaxis(b, 0, dim)


def shifted(x: Array, dim: int, by: int, fill: Number) -> Array:
    move = lambda row: [row[k - by] if 0 <= k - by < len(row) else fill for k in range(len(row))]
    return rows(move, x, dim)


def areas(y: Array, widths: Any, dim: int) -> Array:
    """The trapezoids between neighbours, of the given widths."""
    y = np.moveaxis(y, dim, -1)
    return (y[..., 1:] + y[..., :-1]) / 2 * widths


def widths_of(x: Any, dim: int) -> Any:
    if np.ndim(x) == 0:
        return x
    return np.diff(x if x.ndim == 1 else np.moveaxis(x, dim, -1))


def trapezoid(y: Array, x: Any = 1.0, dim: int = -1, dx: float = 1.0) -> Array:
    widths = widths_of(dx if np.ndim(x) == 0 else x, dim)
    return np.add.reduce(areas(y, widths, dim), -1)


def running_trapezoid(y: Array, x: Any = 1.0, dim: int = -1, dx: float = 1.0) -> Array:
    parts = areas(y, widths_of(dx if np.ndim(x) == 0 else x, dim), dim)
    sums = list(itertools.accumulate(np.moveaxis(parts, -1, 0)))
    return np.moveaxis(
        np.array(sums).reshape(len(sums), *parts.shape[:-1]), 0, -1 if dim < 0 else dim
    )


def slopes(
    x: Array, spacing: Any = None, dim: int | Sequence[int] | None = None, edge_order: Any = 1
) -> list[Array]:
    """NumPy's gradient, dimension by dimension."""
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    spacings = spacing if isinstance(spacing, list | tuple) else [spacing] * len(list(dims))
    return [
        np.gradient(x, 1.0 if s is None else s, axis=d, edge_order=edge_order)
        for d, s in zip(dims, spacings, strict=True)
    ]


REFERENCES: dict[str, Callable[..., Any]] = {
    "cumsum": prefixes(total), "cumprod": prefixes(lambda v: math.prod(v, start=1.0)),
    "_reverse_cumsum": lambda x, dim: rows(
        lambda row: [total(row[k:]) for k in range(len(row))], x, dim
    ),
    "logcumsumexp": prefixes(log_sum),
    "cummax": running(lambda a, b: a >= b), "cummin": running(lambda a, b: a <= b),
    "_shift": shifted, "_linear_recurrence": recurrence,
    "trapezoid": trapezoid, "trapz": trapezoid, "cumulative_trapezoid": running_trapezoid,
    "gradient": slopes,
}  # fmt: skip
