"""Values that are one number everywhere: a backward's first ones, zeros of unused branches.

Found in one walk: creation operators say their number, moving elements about keeps it, and an
operator that is linear in all its tensors (the table says so) makes zeros of zeros.
"""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.remembering import remembered
from adjoint.graph.facts import filled
from adjoint.graph.ir import Constant, Node, Value
from adjoint.ops.operator import Operator
from adjoint.table.rows import Row
from adjoint.tensor.tensor import is_plain

_SMALL = 64


class Uniform:
    """The numbers found so far."""

    def __init__(self) -> None:
        self.numbers: dict[Value, Any] = {}

    def of(self, value: Any) -> Any:
        """The number that a value is everywhere, or None; a plain number is itself."""
        if isinstance(value, Value):
            return self.numbers.get(value)
        return value if isinstance(value, (int, float, complex)) else None

    def note(self, node: Node) -> Any:
        """Look at a node whose inputs were seen; return its number, if it has one."""
        if len(node.outputs) != 1:
            return None
        number = self._number(node)
        if number is not None:
            self.numbers[node.outputs[0]] = number
        return number

    def _number(self, node: Node) -> Any:
        if isinstance(node.op, Constant):
            return _of_constant(node.op.tensor)
        if not isinstance(node.op, Operator):
            return None
        row = node.op.row
        if row.fills:
            return _fitting(filled(node))
        if row.moves and node.args[0].dtype is node.outputs[0].dtype:
            return self.numbers.get(node.args[0])
        return 0 if _is_linear(row) and self._all_zero(node) else None

    def _all_zero(self, node: Node) -> bool:
        values = list(node.inputs())
        if any(not v.dtype.is_differentiable for v in values):
            return False  # indices, which may be out of range
        return bool(values) and all(self.numbers.get(v) == 0 for v in values)


@remembered
def _is_linear(row: Row) -> bool:
    """Whether an operator is linear in all its tensors together."""
    if len(row.linear) == len(row.schema.arguments) == 1:  # no number, which may be infinite
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
    if not (tensor.value == first).all():  # NaN is not even itself
        return None
    if not first and any(map(_has_minus, tensor.value.reshape(-1).tolist())):
        return None
    return _fitting(first.item() if tensor.value.dtype.kind != "V" else float(first))


def _fitting(number: Any) -> Any:
    """0 and 1 are what rules ask for; other numbers are rounded by their dtype, and left alone, and
    so is -0.0, which is equal to 0 and another number.
    """
    if not isinstance(number, (bool, int, float, complex)) or number not in (0, 1):
        return None
    return None if _has_minus(number) else number


def _has_minus(number: Any) -> bool:
    return any(math.copysign(1, part) < 0 for part in (number.real, number.imag))
