"""Selections and writes one element at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from adjoint.testing.references.elements import Array

Place = tuple[int, ...]
COMBINE: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum, "add": sum, "prod": math.prod, "multiply": math.prod, "amax": max, "amin": min,
    "mean": lambda values: sum(values) / len(values),
}  # fmt: skip


def writable(x: Array) -> Array:
    return x.copy()


# -- along one dimension ---------------------------------------------------------------------------


def places_along(index: Array, dim: int, ndim: int) -> Iterator[tuple[Place, Place]]:
    """Each place of `index`, and the place in a tensor of so many dimensions that it names."""
    for place in np.ndindex(*index.shape):
        named = list(place) if ndim else []
        if named:
            named[dim] = int(index[place])
        yield place, tuple(named) if place or not ndim else (int(index),)


def gathered(x: Array, dim: int, index: Array, **_: Any) -> Array:
    found = np.zeros(index.shape, x.dtype)
    for place, named in places_along(index, dim, x.ndim):
        found[place] = x[named]
    return found


def scattered(
    x: Array, dim: int, index: Array, source: Any, reduce: str = "", include_self: bool = True
) -> Array:
    """The source's elements at the places that the index names; the last one wins, or all count."""
    arrived: dict[Place, list[Any]] = {}
    for place, named in places_along(index, dim, x.ndim):
        value = source[place[: source.ndim]] if isinstance(source, np.ndarray) else source
        arrived.setdefault(named, []).append(value)
    found = writable(x)
    for named, values in arrived.items():
        if not reduce:
            found[named] = values[-1]
        else:
            found[named] = COMBINE[reduce]([x[named], *values] if include_self else values)
    return found


def taken_along(x: Array, indices: Array, dim: int | None = None) -> Array:
    if dim is None:
        return gathered(x.ravel(), 0, indices.ravel())
    shape = list(np.broadcast_shapes(*[
        [1 if d == dim % x.ndim else n for d, n in enumerate(a.shape)] for a in (x, indices)
    ]))  # fmt: skip
    wide = [
        (*shape[: dim % x.ndim], a.shape[dim], *shape[dim % x.ndim + 1 :]) for a in (x, indices)
    ]
    return gathered(np.broadcast_to(x, wide[0]), dim, np.broadcast_to(indices, wide[1]))


# -- slices by number ------------------------------------------------------------------------------


def front(x: Array, dim: int) -> Array:
    """A view with `dim` first; a number is a vector of one."""
    return np.moveaxis(x, dim, 0) if x.ndim else x.reshape(1)


def slices_combined(
    x: Array, dim: int, index: Array, source: Any, combine: Callable[[Any, list[Any]], Any]
) -> Array:
    """Slices along `dim`, with those of the source that the index sends there."""
    found = writable(x)
    arrived: dict[int, list[Any]] = {}
    for k, row in enumerate(np.atleast_1d(index).tolist()):
        value = front(source, dim)[k] if isinstance(source, np.ndarray) and source.ndim else source
        arrived.setdefault(row, []).append(value)
    rows = front(found, dim)
    for row, values in arrived.items():
        rows[row] = combine(rows[row].copy(), values)
    return found


def index_reduce(
    x: Array, dim: int, index: Array, source: Array, reduce: str, include_self: bool = True
) -> Array:
    functions: dict[str, Callable[..., Any]] = {
        "prod": np.multiply, "amax": np.maximum, "amin": np.minimum, "mean": np.add,
    }  # fmt: skip

    def combine(old: Any, values: list[Any]) -> Any:
        every = [old, *values] if include_self else values
        result = every[0]
        for value in every[1:]:
            result = functions[reduce](result, value)
        return result / len(every) if reduce == "mean" else result

    return slices_combined(x, dim, index, source, combine)


# -- many dimensions at once -----------------------------------------------------------------------


def chosen(sizes: Sequence[int], indices: Sequence[Any]) -> Array:
    """The numbers of the elements that `x[indices]` selects; None is a whole dimension."""
    numbers = np.arange(math.prod(sizes)).reshape(sizes)
    return numbers[tuple(slice(None) if i is None else i for i in indices)]


def put(
    x: Array, indices: Sequence[Any], values: Array, accumulate: bool = False, *_: Any
) -> Array:
    return put_at(x, chosen(x.shape, indices), values, accumulate)


def put_at(x: Array, numbers: Array, values: Array, accumulate: bool) -> Array:
    found = x.ravel().copy()
    for number, value in zip(
        numbers.ravel().tolist(), np.broadcast_to(values, numbers.shape).ravel(), strict=True
    ):
        found[number] = found[number] + value if accumulate else value
    return found.reshape(x.shape)


def sliced(
    sizes: Sequence[int], dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Array:
    """The numbers of the elements of a slice."""
    numbers = np.arange(math.prod(sizes)).reshape(sizes)
    length = numbers.shape[dim]
    kept = range(length)[slice(start, None if end is None else min(end, length), step)]
    return numbers.take(list(kept), dim)


def on_diagonal(sizes: Sequence[int], offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """The numbers of the elements of a diagonal, which is the last dimension."""
    numbers = np.moveaxis(np.arange(math.prod(sizes)).reshape(sizes), (dim1, dim2), (-2, -1))
    rows, columns = numbers.shape[-2:]
    pairs = [(i, i + offset) for i in range(rows) if 0 <= i + offset < columns]
    parts = [numbers[..., i, j] for i, j in pairs]
    return np.stack(parts, -1) if parts else numbers[..., 0, :0]


def selected(sizes: Sequence[int], dim: int, index: int) -> Array:
    return np.asarray(np.arange(math.prod(sizes)).reshape(sizes).take(index, dim))


def at(numbers: Callable[..., Array]) -> Callable[..., Array]:
    """The elements that a view selects."""
    return lambda x, *args: np.array(x.ravel()[numbers(x.shape, *args)])


def over(numbers: Callable[..., Array]) -> Callable[..., Array]:
    """The source written over a selection: (self, src, …)."""
    return lambda x, source, *args: put_at(x, numbers(x.shape, *args), source, accumulate=False)


# -- masks -----------------------------------------------------------------------------------------


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    values = iter(source.ravel())
    shape = np.broadcast_shapes(x.shape, mask.shape)
    wide, where = np.broadcast_to(x, shape), np.broadcast_to(mask, shape)
    return np.array([
        next(values) if m else v for v, m in zip(wide.ravel(), where.ravel(), strict=True)
    ], x.dtype).reshape(shape)  # fmt: skip


def nonzero_places(x: Array) -> Array:
    found = [place for place in np.ndindex(*x.shape) if x[place] != 0]
    return np.array(found, np.int64).reshape(len(found), x.ndim)


def nonzero_columns(x: Array) -> list[Array]:
    return list(np.moveaxis(nonzero_places(np.atleast_1d(x)), -1, 0))


def nonzero_static(x: Array, *, size: int, fill_value: int = -1) -> Array:
    found = np.full((size, x.ndim), fill_value)
    places = nonzero_places(x)[:size]
    found[: len(places)] = places
    return found


def choice(condition: Array, x: Any, y: Any) -> Array:
    arrays = np.broadcast_arrays(condition, x, y)
    values = [a if c else b for c, a, b in zip(*[v.ravel() for v in arrays], strict=True)]
    return np.array(values).reshape(arrays[0].shape)


_fill = lambda x, dim, index, value: slices_combined(
    x, dim, index, np.asarray(value)[()], lambda old, values: values[-1]
)

REFERENCES: dict[str, Callable[..., Any]] = {
    "where": choice, "where.default": nonzero_columns,
    "masked_scatter": masked_scatter,
    "nonzero": nonzero_places, "argwhere": nonzero_places, "nonzero_numpy": nonzero_columns,
    "nonzero_static": nonzero_static,
    "gather": gathered,
    "scatter": scattered,
    "scatter_add": lambda x, dim, index, source: scattered(x, dim, index, source, "sum"),
    "scatter_reduce": scattered, "take_along_dim": taken_along,
    "index_select": lambda x, dim, index: np.stack(
        [front(x, dim)[k] for k in np.atleast_1d(index).tolist()], dim
    ) if x.ndim and index.size else x.take(index, dim) if x.ndim else x,
    "index_add": lambda x, dim, index, source, alpha=1: slices_combined(
        x, dim, index, source, lambda old, values: old + alpha * sum(values)
    ),
    "index_copy": lambda x, dim, index, source: slices_combined(
        x, dim, index, source, lambda old, values: values[-1]
    ),
    "index_fill": _fill, "index_reduce": index_reduce,
    "index_put": put, "_unsafe_index_put": put, "_index_put_impl_": put,
    "put": lambda x, index, source, accumulate=False: put_at(
        x, index % x.size if x.size else index, source.reshape(index.shape), accumulate
    ),
    "slice": at(sliced), "slice_scatter": over(sliced),
    "select": at(selected), "select_scatter": over(selected),
    "diagonal": at(on_diagonal), "diagonal_scatter": over(on_diagonal),
    "_mostly": np.where, "_trusted": lambda condition, x: x,
}  # fmt: skip
