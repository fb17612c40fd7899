"""Writes to views whose elements share places in memory: windows that overlap.

As in PyTorch an element is written as often as it appears: `x.unfold(0, 3, 1).add_(y)` adds every
value that the view places on an element. So an elementwise operator runs on one part of the view
after another, and no place appears twice in a part. Such a write has no derivative. An expanded
tensor, in which every element is the same place, takes a single number only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.c_kernels.copies import write
from adjoint.core.errors import InplaceError
from adjoint.core.promotion import check_inplace_cast
from adjoint.core.storage import imagined, overlaps
from adjoint.core.symbolic_sizes import is_open
from adjoint.table.rows import Row
from adjoint.tensor.tensor import Tensor, make
from adjoint.tensor.views import View, replay

Values = list[Any]


def is_view_of_windows(tensor: Tensor) -> bool:
    """Whether elements of a view share places."""
    extra = tensor.extra
    if extra is None or extra.view is None:
        return False
    value: Any = tensor.value
    while isinstance(value, Tensor):
        value = value.value
    return overlaps(value if isinstance(value, np.ndarray) else _as_traced(extra.view))


def _as_traced(view: View) -> Any:
    """An array without memory that has the strides of a traced view."""
    shape, dtype = view.base.shape, view.base.dtype.np
    if is_open(tuple(shape)):
        return imagined((), dtype)
    path = [(op, tuple([_geometry(a) for a in rest]), number) for op, rest, number in view.path]
    return replay(tuple(path), make(imagined(shape, dtype))).value


def _geometry(argument: Any) -> Any:
    """A tensor that a view takes its shape from (slice_inverse), without memory and transforms."""
    if not isinstance(argument, Tensor):
        return argument
    return make(imagined(tuple(argument.shape), argument.dtype.np))


def refuse(what: str) -> None:
    """Raise for a write that would need a derivative, or depend on the order of its parts."""
    raise InplaceError(
        f"{what}: elements of this view share places in memory (its windows overlap), so the write "
        "has no derivative, or no single result; clone() it first"
    )


def overwrites(row: Row) -> bool:
    """Whether an in-place operator ignores the old values (fill_, copy_)."""
    return "self" in row.flat and not row.archetype.promotes


def is_of_elements(row: Row) -> bool:
    """Whether an operator computes each element from elements at the same index."""
    return row.archetype.promotes


def write_in_turns(what: str, compute: Callable[[Values], Tensor], values: Values) -> None:
    """Write the results over the first of `values`, part by part."""
    target = values[0].value
    if not overlaps(target):
        result = compute(values)
        check_inplace_cast(what, result.dtype, values[0].dtype)
        write(target, result.value)
        return
    dim = min((d for d in range(target.ndim) if target.shape[d] > 1), key=lambda d: target.shape[d])
    spread = [v.expand(target.shape) if isinstance(v, Tensor) else v for v in values[1:]]
    for i in range(target.shape[dim]):
        part = make(target[(slice(None),) * dim + (i, ...)])
        others = [v.select(dim, i) if isinstance(v, Tensor) else v for v in spread]
        write_in_turns(what, compute, [part, *others])
