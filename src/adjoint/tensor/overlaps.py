"""Writes to views whose elements share places in memory: windows that overlap.

As in PyTorch an element is written as often as it appears: `x.unfold(0, 3, 1).add_(y)` adds all
that meets in an element. So an operator of elements runs on one part of the view after the other,
in which no place appears twice. Such a write has no derivative; what was expanded, where every
place appears as often as there are elements, takes one number alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.errors import InplaceError
from adjoint.core.promotion import check_inplace_cast
from adjoint.core.storage import imagined, overlaps
from adjoint.core.symbolic_sizes import is_open
from adjoint.elements.large import write
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
    """An array without memory that lies as a view of a traced tensor would."""
    shape, dtype = view.base.shape, view.base.dtype.np
    if is_open(tuple(shape)):
        return imagined((), dtype)
    return replay(view.path, make(imagined(shape, dtype))).value


def refuse(what: str) -> None:
    """Raise for a write that would have a derivative, or depend on what is written first."""
    raise InplaceError(
        f"{what}: elements of this view share places in memory (its windows overlap), so the write "
        "has no derivative, or no single result; clone() it first"
    )


def overwrites(row: Row) -> bool:
    """Whether an operator that writes makes its values of something else than what was there."""
    return "self" in row.flat and not row.archetype.promotes


def is_of_elements(row: Row) -> bool:
    """Whether an operator makes each element of those in the same place."""
    return row.archetype.promotes


def write_in_turns(what: str, compute: Callable[[Values], Tensor], values: Values) -> None:
    """Write results over the first of the values, part by part."""
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
