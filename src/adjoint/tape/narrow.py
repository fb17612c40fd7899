"""Derivatives of float16 and bfloat16: computed in float32 from the arguments, and rounded once.

Note [Narrow derivatives]. A formula such as `grad * (1 + result * result)`, carried out in float16,
rounds after each step, and begins with a result that was rounded: an error of many ulp, which is
unbounded where terms cancel. So where the dtype is narrow, the rule of an elementwise row widens
its arguments, calls the operator again where its formula asks for `result`, and leaves the rounding
to the engine, which brings each gradient to the dtype of its value. On tensors widening is an
ordinary operator, so the derivative of a derivative is computed in float32, too.

Formulas that round no more than once (`grad * other`) stay as they are. For a formula that needs
only the result, the arguments are saved as well, if they are narrow tensors (`Save.narrow`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.promotion import converted, element
from adjoint.core.remembering import remembered
from adjoint.table.formula import EXACT, Formula, called, free_names, functions_used, roundings
from adjoint.table.prepared import PREPARED
from adjoint.table.rows import Row
from adjoint.tape.saving import TENSOR, VALUE, Save, result_names, saves_of
from adjoint.tensor.tensor import Tensor


@remembered
def reverse_formulas(row: Row) -> Mapping[int, Formula]:
    """The formulas for narrow dtypes that differ from the usual ones, by index in `row.reverse`."""
    if not row.widens:
        return {}
    return {
        number: _again(row, entry.formula)
        for number, entry in enumerate(row.reverse)
        if entry.formula is not None and not entry.word and _loses_digits(row, entry.formula)
    }


def narrowed(row: Row, formula: Formula) -> Formula | None:
    """The variant of a formula for narrow dtypes; None if the formula serves them as it stands."""
    return _again(row, formula) if _loses_digits(row, formula) else None


def _loses_digits(row: Row, formula: Formula) -> bool:
    """Whether a formula rounds more than once, or passes the rounded result to a function."""
    body, names = formula.tree.body, result_names(row).keys()
    if roundings(body) > 1 or functions_used(body, row.schema.names):
        return True
    calls = (n for n in ast.walk(body) if isinstance(n, ast.Call) and called(n) not in EXACT)
    given = (free_names(ast.Expression(a)) for call in calls for a in call.args)
    return any(found & names for found in given)


def _again(row: Row, formula: Formula) -> Formula:
    """The formula with a call of the operator in place of each `result`."""
    names = result_names(row).keys() & formula.names
    if not names:
        return formula.part(formula.tree.body)
    return formula.part(_Calls(row, names).visit(ast.fix_missing_locations(_copied(formula))))


def _copied(formula: Formula) -> ast.expr:
    return ast.parse(ast.unparse(formula.tree), mode="eval").body


class _Calls(ast.NodeTransformer):
    """Puts calls of a row's operator in the place of its result."""

    def __init__(self, row: Row, names: Iterable[str]) -> None:
        self.names, arguments = set(names), row.schema.arguments
        plain = [a.name for a in arguments if not a.keyword_only]
        named = [a.name for a in arguments if a.keyword_only]
        load = ast.Load()
        self.call = ast.Call(
            ast.Name(row.schema.name, load),
            [ast.Name(name, load) for name in plain],
            [ast.keyword(name, ast.Name(name, load)) for name in named],
        )

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.call if node.id in self.names else node


@remembered
def saves(row: Row) -> tuple[Save, ...]:
    """The values that reverse formulas need saved; last those for narrow dtypes only."""
    key = row.prepared_key("saves")
    found = PREPARED.once(key, lambda: [_FIELDS(s) for s in _saves(row)])
    return tuple(Save(*each) for each in found)


_FIELDS = attrgetter("name", "kind", "source", "number", "users", "condition", "narrow")


def _saves(row: Row) -> tuple[Save, ...]:
    users = {a.name: frozenset[str]() for a in row.schema.arguments}  # of narrow formulas
    for number, formula in reverse_formulas(row).items():
        for name in users.keys() & formula.names:
            users[name] |= frozenset(row.reverse[number].inputs)
    known = [replace(s, users=s.users | users.get(s.name, s.users)) for s in saves_of(row)]
    more = (users.keys() - {s.name for s in known}) & {n for n in users if users[n]}
    kinds = {a.name: TENSOR if a.type.is_tensor else VALUE for a in row.schema.arguments}
    added = (Save(n, kinds[n], n, -1, users[n], narrow=True) for n in users if n in more)
    return (*known, *added)


@remembered
def _numbers(row: Row) -> frozenset[str]:
    """The number arguments that a row's kernel rounds to float16, as NumPy does: an exponent."""
    if row.has_wide_numbers:
        return frozenset()
    return frozenset(a.name for a in row.promoted if not a.type.is_tensor)


def with_numbers(row: Row, names: Sequence[str], values: Sequence[Any]) -> Sequence[Any]:
    """The values for a row's formula, with numbers rounded to halves as the kernel does."""
    rounded = _numbers(row)
    halves = [d for d in map(_half_of, values) if d] if rounded.intersection(names) else []
    if not halves:
        return values
    return [
        float(element(value, halves[0])) if type(value) is float and name in rounded else value
        for name, value in zip(names, values, strict=True)
    ]


def _half_of(value: Any) -> dtypes.DType | None:
    if isinstance(value, Tensor):
        return value.dtype if value.dtype in dtypes.HALVES else None
    is_half = type(value) is np.ndarray and value.dtype in dtypes.REDUCED
    return dtypes.of(value.dtype) if is_half else None


def is_narrow(values: Iterable[Any]) -> bool:
    """Whether there is a tensor of float16 or bfloat16."""
    return any(isinstance(v, Tensor) and v.dtype.np in dtypes.REDUCED for v in values)


def wide(value: Any) -> Any:
    """A narrow array or tensor in float32, a NumPy scalar as a Python number; others unchanged."""
    if type(value) is np.ndarray:
        return converted(value, np.dtype(np.float32)) if value.dtype in dtypes.REDUCED else value
    if isinstance(value, np.generic):  # next to float16 the kernel rounded it
        return value.item()
    if isinstance(value, Tensor) and value.dtype.np in dtypes.REDUCED:
        return value.to(dtypes.float32)
    return value
