"""Make calls in a graph independent of the default dtype at the time when the graph runs.

Without a floating-point argument an operator uses the default dtype: `ad.rand(3)`, `x / 2` of whole
numbers, `ad.where(mask, 0.5, 1.5)`. A trace makes the dtype explicit, by the argument `dtype`, by a
conversion of the tensors, or by the operator's decomposition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core.dtypes import BOOL, DEFAULT, INTEGER, DType, float32, float64
from adjoint.core.errors import AdjointError
from adjoint.graph import typing
from adjoint.graph.ir import Value, substitute, values_in
from adjoint.ops.operator import Operator, packet
from adjoint.tensor.modes import default_dtype

Arguments = tuple[Any, ...]


def explicit(level: Any, op: Operator, args: Arguments, wanted: Any) -> Arguments | None:
    """The arguments of an equal call with the same result dtype under every default.

    None if no arguments achieve that, and the operator's decomposition can.
    """
    if [v for v in values_in(args) if v.dtype.is_differentiable]:
        return args
    if _is_fixed(op, args, wanted):
        return args
    for change in _CHANGES:
        changed = change(level, op, args, wanted[1][0].dtype)
        if changed is not None and _is_fixed(op, changed, wanted):
            return changed
    return None if op.row.decompose else args


def _is_fixed(op: Operator, args: Arguments, wanted: Any) -> bool:
    """Whether the results also have the wanted types under another default dtype."""
    with default_dtype(float64 if DEFAULT.dtype is float32 else float32):
        try:
            return typing.known_types(op, args) == wanted
        except AdjointError:  # the operator does not take the changed arguments
            return False


def _with_dtype(level: Any, op: Operator, args: Arguments, wanted: DType) -> Arguments | None:
    names = list(op.schema.names)
    if "dtype" not in names or args[names.index("dtype")] is not None:
        return None
    place = names.index("dtype")
    return (*args[:place], wanted, *args[place + 1 :])


def _converted(lowest: int) -> Callable[..., Arguments]:
    """A change that converts the tensors whose category is at least `lowest`."""

    def change(level: Any, op: Operator, args: Arguments, wanted: DType) -> Arguments:
        def converted(value: Value) -> Value:
            if value.dtype.category < lowest:
                return value
            return level.value(packet("_to_copy")(level.lift(value), dtype=DEFAULT.dtype))

        return substitute(args, converted)

    return change


_CHANGES = (_with_dtype, _converted(INTEGER), _converted(BOOL))
