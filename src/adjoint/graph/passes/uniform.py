"""Values with one number everywhere: the first values of a backward, zeros of unused branches.

They are found in one walk: creation operators have a known number, moving elements keeps it, and an
operator that is linear in all its tensors (by its row) makes zeros of zeros.
"""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.remembering import remembered
from adjoint.graph.facts import filled
from adjoint.graph.ir import Constant, Node, Value, values_in
from adjoint.ops.operator import Operator
from adjoint.table.rows import Row
from adjoint.tensor.tensor import is_plain

_SMALL = 64


class Uniform:
    """The numbers found so far, by value."""

    def __init__(self) -> None:
        self.numbers: dict[Value, Any] = {}

    def of(self, value: Any) -> Any:
        """The number that a value has everywhere, or None; a plain number is returned as it is."""
        if isinstance(value, Value):
            return self.numbers.get(value)
        return value if isinstance(value, (int, float, complex)) else None

    def note(self, node: Node) -> Any:
        """Note and return the number of a node's result, given those of its inputs; or None."""
        op, number = node.op, None
        if len(node.outputs) != 1:
            return None
        if isinstance(op, Constant):
            number = _of_constant(op.tensor)
        elif isinstance(op, Operator):
            row = op.row
            if row.fills:
                number = _fitting(filled(node))
            elif row.moves and node.args[0].dtype is node.outputs[0].dtype:
                number = self.numbers.get(node.args[0])
            elif self.numbers and _is_linear(row) and self._all_zero(node):
                number = 0
        if number is not None:
            self.numbers[node.outputs[0]] = number
        return number

    def _all_zero(self, node: Node) -> bool:
        values = values_in(node.args)
        zeros = [v for v in values if self.numbers.get(v) == 0]
        if not values or len(zeros) < len(values):
            return False
        return all(v.dtype.is_differentiable for v in values)  # an index of 0 may be out of range


@remembered
def _is_linear(row: Row) -> bool:
    """Whether an operator is linear in all its tensors together."""
    if len(row.linear) == len(row.schema.arguments) == 1:  # and no number, maybe infinite
        return True
    return (
        bool(row.forward)
        and all(f.automatic == "auto_linear" for f in row.forward)
        and len(row.differentiable) == len(row.schema.tensors)
    )


def _of_constant(tensor: Any) -> Any:
    if not is_plain(tensor) or tensor.edge is not None or not 0 < tensor.numel() <= _SMALL:
        return None
    first = tensor.value.reshape(-1)[0]
    if not (tensor.value == first).all():  # also false for NaN
        return None
    if not first and any(map(_has_minus, tensor.value.reshape(-1).tolist())):
        return None
    return _fitting(first.item() if tensor.value.dtype.kind != "V" else float(first))


def _fitting(number: Any) -> Any:
    """The number if it is 0 or 1, for which there are rules; else None.

    Other numbers are rounded by their dtype. -0.0 is equal to 0 but a different number.
    """
    if not isinstance(number, (bool, int, float, complex)) or number not in (0, 1):
        return None
    return None if _has_minus(number) else number


def _has_minus(number: Any) -> bool:
    return any(math.copysign(1, part) < 0 for part in (number.real, number.imag))
