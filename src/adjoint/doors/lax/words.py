"""Words of the door to `jax.lax`: slices that lie inside, updates, totals from the end."""

from __future__ import annotations

import builtins
import os
import string
from collections.abc import Callable, Sequence
from typing import Any

from adjoint import ops
from adjoint.calls.methods import as_tensor
from adjoint.core.dtypes import to_dtype

TABLE = os.path.join(os.path.dirname(__file__), "names.txt")


def cut(x: Any, dim: int, start: Any, size: int) -> Any:
    """A slice that starts at a number, perhaps in a tensor, and lies inside."""
    return x.index_select(dim, within(x.shape[dim], start, size))


def within(count: int, start: Any, size: int) -> Any:
    start = as_tensor(start)  # one below 0 counts from the end
    return ops.where(start < 0, start + count, start).clamp(0, count - size) + ops.arange(size)


def window(x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    for dim, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        x = cut(x, dim, start, size)
    return x


def updated(x: Any, update: Any, starts: Sequence[Any]) -> Any:
    """A tensor with another written to it, from these starts on."""
    places = []
    for dim, start in enumerate(starts):
        index = within(x.shape[dim], start, update.shape[dim])
        places.append(index.reshape([-1, *(1,) * (x.ndim - dim - 1)]))
    return x.index_put(places, update.to(x.dtype))


def updated_along(x: Any, update: Any, start: Any, dim: int) -> Any:
    dim = dim % x.ndim
    if update.ndim < x.ndim:
        update = update.unsqueeze(dim)
    return updated(x, update, [start if d == dim else 0 for d in range(x.ndim)])


def one_of(x: Any, index: int, dim: int, keepdims: bool) -> Any:
    return x.narrow(dim, index, 1) if keepdims else x.select(dim, index)


def from_the_end(running: Callable[..., Any], x: Any, dim: int, reverse: bool) -> Any:
    """A running total of a dimension, or one that starts at its end."""
    found = running(x.flip((dim,)) if reverse else x, dim)
    found = found if isinstance(found, type(x)) else found[0]
    return found.flip((dim,)) if reverse else found


def contracted(a: Any, b: Any, numbers: Any) -> Any:
    """Sums of products over pairs of dimensions; batch dimensions come first."""
    (left, right), (left_batch, right_batch) = numbers
    letters = iter(string.ascii_letters)
    names = [next(letters) for _ in range(a.ndim)]
    others = [next(letters) for _ in range(b.ndim)]
    for i, j in (*zip(left, right, strict=True), *zip(left_batch, right_batch, strict=True)):
        others[j] = names[i]
    batch = [names[i] for i in left_batch]
    free = [n for i, n in enumerate(names) if i not in (*left, *left_batch)]
    free += [n for i, n in enumerate(others) if i not in (*right, *right_batch)]
    equation = f"{''.join(names)},{''.join(others)}->{''.join([*batch, *free])}"
    return ops.einsum(equation, [a, b])


def chosen(which: Any, cases: Sequence[Any]) -> Any:
    """Elements of one of several tensors, by truth value or number."""
    found = cases[0]
    for number, case in enumerate(cases[1:], 1):
        found = ops.where(which == number, case, found)
    return found


def counted(dtype: Any, shape: Sequence[int], dim: int) -> Any:
    sizes = [-1 if d == dim else 1 for d in range(len(shape))]
    return ops.arange(shape[dim], dtype=to_dtype(dtype)).reshape(sizes).expand(tuple(shape))


def steps(starts: Sequence[int], ends: Sequence[int], steps: Sequence[int] | None) -> Any:
    """The index of a slice in every dimension; `slice` itself is a name of jax.lax."""
    steps = [1] * len(ends) if steps is None else steps
    return tuple(builtins.slice(*given) for given in zip(starts, ends, steps, strict=True))


def with_values(keys: Any, values: Any, dim: int) -> Any:
    ordered, order = ops.sort(keys, dim=dim, stable=True)
    return ordered, values.gather(dim, order)


def widened(x: Any, dims: Sequence[int]) -> Any:
    count = x.ndim + len(dims)
    for d in sorted(d % count for d in dims):
        x = x.unsqueeze(d)
    return x


def converted(x: Any, dtype: Any) -> Any:
    return as_tensor(x).to(to_dtype(dtype))


def filled(shape: Sequence[int], value: Any, dtype: Any) -> Any:
    return ops.full(tuple(shape), value, dtype=None if dtype is None else to_dtype(dtype))


def sliced(x: Any, dim: int, start: int, end: int, step: int) -> Any:
    return ops.slice(x, dim, start, end, step)
