"""Samples of nested tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Sample, made, sampler

Samples = Iterator[Sample]
Array = np.ndarray[Any, Any]


def _padded(x: Array, starts: Array, lengths: Array, size: int, padding: Any) -> Array:
    result = np.full((len(starts), size, *x.shape[1:]), padding, x.dtype)
    for i, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        for j in range(min(length, size)):
            result[i, j] = x[start + j]
    return result


@sampler("_padded_rows", reference=_padded)
def ragged_rows(make: Any) -> Samples:
    starts, lengths = ad.tensor([0, 2, 2]), ad.tensor([2, 0, 3])
    yield Sample(make(5, 2), starts, lengths, 3, 0.5, name="plain")
    yield Sample(make(5), starts, lengths, 4, 0, name="wide")
    yield Sample(make(5, 2), starts, lengths, 1, 0, name="cut")
    yield Sample(make(6, 2), ad.tensor([1, 3]), ad.tensor([1, 2]), 2, -1, name="gaps")
    yield Sample(make(4), ad.tensor([0, 1]), ad.tensor([3, 3]), 3, 0, name="overlap")
    none = ad.zeros(0, dtype=ad.int64)
    yield Sample(make(0, 2), none, none, 2, 0, name="empty")


def _packed(x: Array, starts: Array, lengths: Array, total: int) -> Array:
    result = np.zeros((total, *x.shape[2:]), x.dtype)
    for i, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        for j in range(min(length, x.shape[1])):
            result[start + j] += x[i, j]
    return result


@sampler("_packed_rows", reference=_packed)
def padded_rows(make: Any) -> Samples:
    starts, lengths = ad.tensor([0, 2, 2]), ad.tensor([2, 0, 3])
    yield Sample(make(3, 3, 2), starts, lengths, 5, name="plain")
    yield Sample(make(3, 1, 2), starts, lengths, 5, name="cut")
    yield Sample(make(2, 3), ad.tensor([1, 3]), ad.tensor([1, 2]), 6, name="gaps")
    yield Sample(make(2, 3), ad.tensor([0, 1]), ad.tensor([3, 3]), 4, name="overlap")


@sampler(
    "_jagged_to_padded_dense_forward",
    reference=lambda x, offsets, sizes, padding: _padded(
        x, offsets[0][:-1], np.diff(offsets[0]), sizes[0], padding
    ),
)
def offset_rows(make: Any) -> Samples:
    yield Sample(make(5, 2), [ad.tensor([0, 2, 2, 5])], (3,), 0.5, name="plain")
    yield Sample(make(5, 2), [ad.tensor([0, 2, 2, 5])], (2,), 0.0, name="cut")


@sampler(
    "_padded_dense_to_jagged_forward",
    reference=lambda x, offsets, total: _packed(x, offsets[0][:-1], np.diff(offsets[0]), total),
)
def offset_padded(make: Any) -> Samples:
    yield Sample(make(3, 3, 2), [ad.tensor([0, 2, 2, 5])], 5, name="plain")
    yield Sample(make(3, 2, 2), [ad.tensor([0, 2, 2, 5])], 5, name="cut")


# --- nested tensors: what is compared is their components ----------------------------------------


@sampler("_nested_tensor_from_tensor_list", reference=lambda parts: parts)
def lists(make: Any) -> Samples:
    yield Sample([make(2, 3), make(1, 3), make(0, 3)], name="rows")
    yield Sample([make(2, 3), make(3, 2)], name="two dimensions differ")
    yield Sample([make(3, 2).t(), make(2, 2)], name="transposed")
    yield Sample([make(), make()], name="numbers")
    yield Sample([make(2)], name="one")


def _rows_of(padded: Array, lengths: Any) -> list[Array]:
    return [row[:n] for row, n in zip(padded, lengths, strict=True)]


@sampler("_nested_tensor_from_mask", reference=lambda t, mask, check: _rows_of(t, mask.sum(1)))
def masks(make: Any) -> Samples:
    mask = ad.tensor([[True, True, False], [True, False, False], [False] * 3])
    yield Sample(make(3, 3, 2), mask, True, name="plain")
    yield Sample(make(3, 3, 2), ad.ones(3, 3, dtype=ad.bool), True, name="all")


def _corners(padded: Array, sizes: Any, *_: Any) -> list[Array]:
    return [p[tuple(map(slice, s))] for p, s in zip(padded, sizes, strict=True)]


@sampler("_nested_from_padded", reference=_corners)
def padded(make: Any) -> Samples:
    yield Sample(make(2, 3, 2), ad.tensor([[1, 2], [3, 2]]), name="rows")
    yield Sample(make(2, 3, 3), ad.tensor([[1, 2], [3, 2]]), name="cut columns")
    yield Sample(make(2, 3, 3), ad.tensor([[1, 3], [3, 2]]), name="corners")


@sampler(
    "_nested_from_padded",
    reference=lambda x, sizes, turned: _corners(np.swapaxes(x, 1, 2).reshape(2, 3, 4), sizes),
)
def padded_heads(make: Any) -> Samples:
    yield Sample(make(2, 2, 3, 2), ad.tensor([[1, 4], [3, 4]]), True, name="heads")


@sampler(
    "_nested_from_padded_and_nested_example",
    reference=lambda x, example: _corners(x, [p.shape for p in example]),
)
def padded_like(make: Any) -> Samples:
    example = made(_nested, make(1, 2).detach(), make(3, 2).detach())
    yield Sample(make(2, 3, 2), example, name="rows")


@sampler(
    "_nested_from_padded_tensor", reference=lambda x, offsets, *_: _rows_of(x, np.diff(offsets))
)
def padded_jagged(make: Any) -> Samples:
    yield Sample(make(3, 3, 2), ad.tensor([0, 2, 2, 5]), ad.zeros(0), name="plain")


@sampler(
    "_nested_from_padded_tensor",
    reference=lambda x, offsets, *_: [r[:, :n] for r, n in zip(x, np.diff(offsets), strict=True)],
)
def padded_jagged_last(make: Any) -> Samples:
    yield Sample(make(2, 2, 3), ad.tensor([0, 1, 4]), ad.zeros(0), 2, name="ragged last")


def _in_buffer(x: Array, sizes: Array, strides: Array, offsets: Array) -> list[Array]:
    found = []
    for size, stride, offset in zip(sizes, strides, offsets, strict=True):
        part = np.empty(tuple(size), x.dtype)
        for place in np.ndindex(*size):
            part[place] = x[offset + np.dot(place, stride)]
        found.append(part)
    return found


@sampler("_nested_view_from_buffer", "_nested_view_from_buffer_copy", reference=_in_buffer)
def buffers(make: Any) -> Samples:
    sizes = ad.tensor([[2, 2], [1, 3]])
    ordered, turned = ad.tensor([[2, 1], [3, 1]]), ad.tensor([[1, 2], [1, 1]])
    yield Sample(make(7), sizes, ordered, ad.tensor([0, 4]), name="plain")
    yield Sample(make(9), sizes, ordered, ad.tensor([1, 6]), name="gaps")
    yield Sample(make(7), sizes, turned, ad.tensor([0, 4]), name="transposed")


def _between(x: Array, offsets: Array, dummy: Array, lengths: Any = None, dim: int = 1) -> Any:
    sizes = np.diff(offsets) if lengths is None else lengths
    pairs = zip(offsets, sizes, strict=False)
    return [np.take(x, range(a, a + n), dim - 1) for a, n in pairs]


@sampler("_nested_view_from_jagged", "_nested_view_from_jagged_copy", reference=_between)
def jagged(make: Any) -> Samples:
    dummy = ad.zeros(0)
    yield Sample(make(5, 2), ad.tensor([0, 2, 2, 5]), dummy, name="plain")
    yield Sample(make(5, 2), ad.tensor([0, 2, 5]), dummy, ad.tensor([1, 2]), name="gaps")
    yield Sample(make(2, 4), ad.tensor([0, 1, 4]), dummy, None, 2, name="ragged last")


def _nested(*parts: Any) -> Any:
    return ad.nested.as_nested_tensor(list(parts))


def _grown(parts: Any, padding: float, size: Any = None) -> Array:
    shape = tuple(size)[1:] if size else tuple(np.max([p.shape for p in parts], 0))
    result = np.full((len(parts), *shape), padding, parts[0].dtype)
    for row, part in zip(result, parts, strict=True):
        row[tuple(map(slice, part.shape))] = part
    return result


@sampler("to_padded_tensor", "nested_to_padded_tensor", reference=_grown)
def ragged(make: Any) -> Samples:
    yield Sample(made(_nested, make(2, 3), make(1, 3)), 0.5, name="rows")
    yield Sample(made(_nested, make(2, 3), make(1, 3)), 0.0, (2, 3, 4), name="larger")
    yield Sample(made(_nested, make(2, 3), make(3, 1)), -1.0, name="corners")


@sampler(
    "_nested_get_values",
    "_nested_get_values_copy",
    reference=lambda parts: np.concatenate([p.reshape(-1) for p in parts]),
)
def packed(make: Any) -> Samples:
    yield Sample(made(_nested, make(2, 3), make(1, 3)), name="rows")
    yield Sample(made(_nested, make(2, 3), make(3, 1)), name="flat")


@sampler("_nested_get_offsets", reference=lambda parts: np.cumsum([0, *map(len, parts)]))
@sampler("_nested_tensor_size", reference=lambda parts: [[p.shape for p in parts]])
def geometries(make: Any) -> Samples:
    yield Sample(made(_nested, make(2, 3), make(1, 3)), name="rows")


@sampler(
    "_nested_compute_contiguous_strides_offsets",
    reference=lambda sizes: [np.array([[3, 1], [2, 1]]), np.array([0, 6])],
)
def sizes(make: Any) -> Samples:
    yield Sample(ad.tensor([[2, 3], [4, 2]]), name="plain")
