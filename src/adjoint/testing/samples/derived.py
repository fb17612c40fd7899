"""Samples of a row that is made of others: those of an operator that it calls.

`cudnn_convolution(self, weight, padding, …)` calls `convolution(self, weight, None, stride, …)`: a
sample of `convolution` becomes one of `cudnn_convolution`, each argument in the place of its name.
The reference follows: that of `convolution`, and on it what the row does with the result.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.records import record
from adjoint.ops import binding
from adjoint.table import TABLE
from adjoint.table import formula as language
from adjoint.table.formula import Formula
from adjoint.table.rows import Row
from adjoint.table.schema import Argument
from adjoint.testing.samples.automatic import split

MOST = 4  # samples of a row: the operator that it calls has them all

Reference = Callable[..., Any]
Pairs = Iterator[tuple[Any, Reference | None]]


@record
class Called:
    """The call of another operator in a decomposition."""

    row: Row
    given: Mapping[str, ast.expr]  # the arguments of that operator, as they are written
    rest: str  # the decomposition with `result` in the place of the call


def samples(row: Row, make: Any, sample: Callable[..., Any], of: Callable[..., Any]) -> Pairs:
    """Yield samples of a row and their references, of those that `of(row)` gives of another."""
    called = _called(row)
    if called is None:
        return
    known = [(each, reference, _values(called.row, each)) for each, reference in of(called.row)]
    whole = [entry for entry in known if _is_whole(row, called, entry[2])]
    alike = [entry for entry in whole if _agrees(called, entry[2])] or whole
    for each, reference, values in itertools.islice(alike, MOST):
        named = _named(called, values)
        rest = {a.name: _any(a, make) for a in row.schema.arguments if a.name not in named}
        args, kwargs = split(row, named | rest)
        facts = {"name": each.name, "kink": each.kink, "order": each.order}
        yield sample(*args, **kwargs, **facts), reference and _reference(row, called, reference)


# --- the call -------------------------------------------------------------------------------------


def _called(row: Row) -> Called | None:
    """The first call, the outermost ones first, whose arguments give those of the row."""
    if row.kernel or not row.decompose or row.names_decomposition:
        return None
    tree = language.expression(row.decompose, row.place("decompose"))
    for call in ast.walk(tree):
        name = _operator(call)
        for overload in TABLE.overloads(name) if name in TABLE else ():
            assert isinstance(call, ast.Call)
            other = TABLE.row(name, overload)
            given = _bound(row, other, call)
            if given is not None and _gives_all(row, given):
                return Called(other, given, ast.unparse(_Replaced(call).visit(tree)))
    return None


def _operator(node: ast.AST) -> str:
    """The name of the operator that an expression calls; "" if it calls none."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else _name(node.func)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _bound(row: Row, other: Row, call: ast.Call) -> dict[str, ast.expr] | None:
    """The arguments of a call by their names; None if they are not those of this overload."""
    own = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    values = [*own, *call.args]
    given = dict(zip(other.schema.names, values, strict=False))
    given |= {k.arg: k.value for k in call.keywords if k.arg in other.schema.names}
    tensors = {a.name: a.type.is_tensor for a in row.schema.arguments}
    for argument in other.schema.arguments:
        if argument.name not in given:
            if not argument.has_default:
                return None
        elif tensors.get(_name(given[argument.name]), argument.type.is_tensor) != (
            argument.type.is_tensor
        ):
            return None
    return given if len(given) == len(values) + len(call.keywords) else None


def _gives_all(row: Row, given: Mapping[str, ast.expr]) -> bool:
    """Whether the arguments of a call are those of the row, constants, or computed of them; and the
    row asks for nothing else but what may be anything.
    """
    listed = [e for node in given.values() if isinstance(node, ast.List) for e in node.elts]
    named, own = set(map(_name, [*given.values(), *listed])), set(row.schema.names)
    flags = {a.name for a in row.schema.arguments if a.type.base == "bool"}
    inside = set[str]().union(*map(language.free_names, given.values()))
    return bool(named & own) and inside & own <= named | flags and own <= named | _any_of(row)


def _any_of(row: Row) -> set[str]:
    """The arguments that a row has defaults for, or that may be anything."""
    every = row.schema.arguments
    return {a.name for a in every if a.has_default or a.type.is_optional or a.type.base in _ANY}


class _Replaced(ast.NodeTransformer):
    """Puts `result` in the place of a call."""

    def __init__(self, call: ast.Call) -> None:
        self.call = call

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return ast.Name("result", ast.Load()) if node is self.call else self.generic_visit(node)


# --- its samples ----------------------------------------------------------------------------------


def _values(row: Row, sample: Any) -> dict[str, Any]:
    """All arguments of a sample by their names."""
    given = dict(zip(row.schema.names, sample.args, strict=False)) | sample.kwargs
    return {a.name: given.get(a.name, a.default) for a in row.schema.arguments}


def _named(called: Called, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the row."""
    found = {_name(node): values[name] for name, node in called.given.items()}
    for name, node in called.given.items():
        if isinstance(node, ast.List):
            found |= zip(map(_name, node.elts), values[name], strict=False)
    return {name: value for name, value in found.items() if name}


def _is_whole(row: Row, called: Called, values: Mapping[str, Any]) -> bool:
    """Whether a sample has all that the row needs, and lists as long as the call writes them."""
    for name, node in called.given.items():
        names = list(map(_name, node.elts)) if isinstance(node, ast.List) else []
        if any(names) and len(names) != len(values[name]):
            return False
    named = _named(called, values)
    absent = {a.name for a in row.schema.arguments if named.get(a.name) is None}
    rest = {a.name for a in row.schema.arguments if _may_be_none(a)}
    return absent <= rest | (_any_of(row) - named.keys())


def _may_be_none(argument: Argument) -> bool:
    return argument.type.is_optional or (argument.has_default and argument.default is None)


def _agrees(called: Called, values: Mapping[str, Any]) -> bool:
    """Whether a sample has the constants of the call; what the call leaves out, and which results
    it wants, may be any.
    """
    for name, node in called.given.items():
        try:
            wanted = ast.literal_eval(node)
        except ValueError:
            continue
        if wanted is not None and not name.endswith("_mask") and not _same(values[name], wanted):
            return False
    return True


def _same(value: Any, wanted: Any) -> bool:
    """Whether an argument is a constant; [0] is the same as (0, 0)."""
    if isinstance(value, ad.Tensor):
        return False
    if isinstance(value, str) or isinstance(wanted, str):
        return bool(value == wanted)
    count = len(value) if isinstance(value, (tuple, list)) else 1
    return np.array_equal(np.ravel(value), np.resize(wanted, count))


_ANY = {"Tensor": None, "bool": True, "float": 0.0}  # of arguments of no consequence


def _any(argument: Argument, make: Any) -> Any:
    if argument.has_default or argument.type.is_optional:
        return argument.default
    value = make() if argument.type.is_tensor else _ANY[argument.type.base]
    return [value] * (argument.type.length or 1) if argument.type.is_list else value


def _reference(row: Row, called: Called, reference: Reference) -> Reference:
    """The value of a row by the reference of the operator that it calls."""
    names = row.schema.names

    def bound(text: str, *more: str) -> Callable[..., Any]:
        formula = Formula(text, row.place("decompose"))
        return binding.bind(formula, row.schema.symbol, (*names, *more), raw=True)

    given = bound(f"[{', '.join(map(ast.unparse, called.given.values()))}]")
    rest = bound(called.rest, "result")

    def value(*args: Any, **kwargs: Any) -> Any:
        args = *args, *(kwargs[n] for n in names[len(args) :])
        return rest(*args, reference(*given(*args)))

    return value
