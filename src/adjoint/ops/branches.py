"""Kinks of operators: which calls meet one, and which argument is approached from above.

An operator with the column `above` has a branch point where that argument is 0, as √x has. There x
becomes `_above(x)`, a tensor from a kink: Note [Kinks] in homes/limits.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core.remembering import remembered
from adjoint.core.state import State, changed, current
from adjoint.ops import binding, runtime
from adjoint.ops.kinks import is_limit
from adjoint.ops.operator import Operator, packet
from adjoint.table import formula as language
from adjoint.table.rows import Row


def from_above(op: Operator, values: list[Any]) -> list[Any]:
    """The arguments of an operator; one that is 0 at a branch point becomes `_above` of it."""
    name = op.row.texts.get("above")
    if name is None or not at_kink(op, values):
        return values
    place = op.schema.names.index(name)
    given = values[place]
    if not given.is_floating_point() or is_limit(given):  # it already is near a kink
        return values
    return [*values[:place], packet("_above")(given), *values[place + 1 :]]


def run_asked(op: Operator, below: list[Any], values: list[Any], before: State) -> Any:
    """Run an operator that may meet a kink on `below`, the arguments one level below `values`. It
    may ask how fast they change: `before` is the state on their level.
    """
    asked = current().asked
    if asked is not None and asked[0].row is op.row:
        return runtime.again(op, below)
    with changed(asked=(op, values, before)):
        return runtime.again(op, below)


def at_kink(op: Operator, values: list[Any]) -> bool:
    """Whether an operator with these arguments has a kink at results of 0, as norms with p = 2."""
    if "kink" not in op.row.texts:
        return False
    test, places = _kink(op.row)
    return bool(test(*[values[i] for i in places]))


@remembered
def _kink(row: Row) -> tuple[Callable[..., Any], tuple[int, ...]]:
    """The condition of the column `kink` as a function, and the indices of its arguments."""
    condition = language.parse(row.texts["kink"], row.place("kink"), set())
    names = tuple(sorted(condition.names & set(row.schema.names)))
    test = binding.bind(condition, "kink", names, raw=False, key=row.prepared_key("kink"))
    return test, tuple(row.schema.names.index(n) for n in names)
