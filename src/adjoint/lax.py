"""`ad.lax`: control flow and operators under the names of `jax.lax`.

Functions that `ad` has under the same names, and the rows of lax.txt.

>>> import adjoint as ad
>>> from adjoint import lax
>>> lax.scan is ad.scan, lax.rsqrt is ad.rsqrt
(True, True)
>>> lax.dynamic_slice(ad.arange(5), (3,), (3,)), lax.cumsum(ad.arange(3), reverse=True)
(tensor([2, 3, 4]), tensor([3, 3, 2]))
"""

from __future__ import annotations

import builtins
import os
import string
from collections.abc import Callable, Sequence
from typing import Any

from adjoint import doors, ops
from adjoint.calls.methods import as_tensor
from adjoint.core.dtypes import to_dtype
from adjoint.graph.control.associative_scan import associative_scan, map
from adjoint.graph.control.callbacks import pure_callback
from adjoint.graph.control.cond import cond, switch
from adjoint.graph.control.implicit import custom_linear_solve, custom_root
from adjoint.graph.control.scan import scan
from adjoint.graph.control.while_loop import fori_loop, while_loop
from adjoint.transforms.reverse import stop_gradient

__all__ = [
    "associative_scan",
    "cond",
    "custom_linear_solve",
    "custom_root",
    "fori_loop",
    "map",
    "pure_callback",
    "scan",
    "stop_gradient",
    "switch",
    "while_loop",
]

# -- the words of lax.txt -------------------------------------------------------------------------


def _cut(x: Any, dim: int, start: Any, size: int) -> Any:
    """A slice that starts at a number, perhaps in a tensor, and lies inside."""
    return x.index_select(dim, _within(x.shape[dim], start, size))


def _within(count: int, start: Any, size: int) -> Any:
    start = as_tensor(start)  # one below 0 counts from the end
    return ops.where(start < 0, start + count, start).clamp(0, count - size) + ops.arange(size)


def _window(x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    for dim, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        x = _cut(x, dim, start, size)
    return x


def _updated(x: Any, update: Any, starts: Sequence[Any]) -> Any:
    """A tensor with another written to it, from these starts on."""
    places = []
    for dim, start in enumerate(starts):
        index = _within(x.shape[dim], start, update.shape[dim])
        places.append(index.reshape([-1, *(1,) * (x.ndim - dim - 1)]))
    return x.index_put(places, update.to(x.dtype))


def _updated_along(x: Any, update: Any, start: Any, dim: int) -> Any:
    dim = dim % x.ndim
    if update.ndim < x.ndim:
        update = update.unsqueeze(dim)
    return _updated(x, update, [start if d == dim else 0 for d in range(x.ndim)])


def _one_of(x: Any, index: int, dim: int, keepdims: bool) -> Any:
    return x.narrow(dim, index, 1) if keepdims else x.select(dim, index)


def _from_the_end(running: Callable[..., Any], x: Any, dim: int, reverse: bool) -> Any:
    """A running total of a dimension, or one that starts at its end."""
    found = running(x.flip((dim,)) if reverse else x, dim)
    found = found if isinstance(found, type(x)) else found[0]
    return found.flip((dim,)) if reverse else found


def _contracted(a: Any, b: Any, numbers: Any) -> Any:
    """Sums of products over pairs of dimensions; those of batches come first."""
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


def _chosen(which: Any, cases: Sequence[Any]) -> Any:
    """Elements of one of several tensors, by truth value or number."""
    found = cases[0]
    for number, case in enumerate(cases[1:], 1):
        found = ops.where(which == number, case, found)
    return found


def _counted(dtype: Any, shape: Sequence[int], dim: int) -> Any:
    sizes = [-1 if d == dim else 1 for d in range(len(shape))]
    return ops.arange(shape[dim], dtype=to_dtype(dtype)).reshape(sizes).expand(tuple(shape))


def _steps(starts: Sequence[int], ends: Sequence[int], steps: Sequence[int] | None) -> Any:
    """The index of a slice in every dimension; `slice` itself is a name of jax.lax."""
    steps = [1] * len(ends) if steps is None else steps
    return tuple(builtins.slice(*given) for given in zip(starts, ends, steps, strict=True))


def _with_values(keys: Any, values: Any, dim: int) -> Any:
    ordered, order = ops.sort(keys, dim=dim, stable=True)
    return ordered, values.gather(dim, order)


def _widened(x: Any, dims: Sequence[int]) -> Any:
    count = x.ndim + len(dims)
    for d in sorted(d % count for d in dims):
        x = x.unsqueeze(d)
    return x


_WORDS: dict[str, Any] = {
    "chosen": _chosen,
    "contracted": _contracted,
    "converted": lambda x, dtype: as_tensor(x).to(to_dtype(dtype)),
    "counted": _counted,
    "cut": _cut,
    "filled": lambda shape, value, dtype: ops.full(
        tuple(shape), value, dtype=None if dtype is None else to_dtype(dtype)
    ),
    "from_the_end": _from_the_end,
    "one_of": _one_of,
    "sliced": lambda x, d, i, j, step: ops.slice(x, d, i, j, step),
    "steps": _steps,
    "updated": _updated,
    "updated_along": _updated_along,
    "widened": _widened,
    "window": _window,
    "with_values": _with_values,
}
_TABLE = os.path.join(os.path.dirname(__file__), "lax.txt")
__getattr__, _names = doors.door(globals(), _TABLE, "", _WORDS)


def __dir__() -> list[str]:
    return sorted({*__all__, *doors.read(_TABLE)[""]})
