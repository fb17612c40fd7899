"""The types of a node's results, from the shape rule of its row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.dtypes import DEFAULT, FLOAT, DType
from adjoint.core.promotion import NUMBERS
from adjoint.core.remembering import Bounded, remembered
from adjoint.core.shapes import Spec
from adjoint.core.symbolic_sizes import is_open
from adjoint.graph.ir import GraphError, Type, Value, substitute
from adjoint.homes import meta
from adjoint.ops.operator import Operator
from adjoint.table.archetypes import NOT_PROMOTED
from adjoint.table.rows import KINDS, Row
from adjoint.table.schema import Argument
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import make


def result_types(op: Operator, args: tuple[Any, ...]) -> tuple[Any, tuple[Type, ...]]:
    """(kind, types): the results' container (None for one tensor, tuple or list), and types."""
    _refuse_dtypes(op, args)
    inferred = meta.infer(op, [_without_data(a) for a in args])
    needs = needs_gradient(op.row, args)
    if isinstance(inferred, Spec):
        return None, (_type(inferred, needs and op.row.differentiable_outputs[0]),)
    if not isinstance(inferred, (tuple, list)) or not all(isinstance(s, Spec) for s in inferred):
        raise GraphError(
            f"{op.full_name} gives a number that depends on values, which a graph cannot hold"
        )
    returns = op.schema.returns
    listed = len(returns) == 1 and returns[0].type.is_list
    flags = (
        op.row.differentiable_outputs * len(inferred) if listed else op.row.differentiable_outputs
    )
    types = tuple(
        _type(s, needs and flag) for s, flag in zip(inferred, flags, strict=listed is False)
    )
    if listed:
        return list, types
    return (tuple if len(returns) > 1 else None), types


def _refuse_dtypes(op: Operator, args: tuple[Any, ...]) -> None:
    """Raise if the kernel of an elementwise operator or a reduction does not take these arguments.

    Native code would not raise, since it has an expression of the operator and no kernel that
    checks. If the row does not say that the kernel takes the arguments, the operator runs on one
    element, and raises as it would for all tensors of these dtypes.
    """
    row = op.row
    if not row.kernel or op.schema.replaces or row.random:
        return
    if (row.archetype.promotes or row.archetype.name == "reduction") and not takes(row, args):
        with no_grad():
            op.call([_of_one_element(a) for a in args])


def takes(row: Row, args: Sequence[Any]) -> bool:
    """Whether a row, elementwise or a reduction, says that its kernel takes these arguments."""
    specs = [a.type.spec if type(a) is Value else a for a in args]
    if row.promoted:
        dtype = row.computes_in(dict(zip(row.schema.names, specs, strict=True)))
    else:  # a reduction has one tensor; an elementwise row without promotion says nothing
        dtype = None if row.archetype.promotes else specs[0].dtype
    return (
        dtype is not None
        and KINDS[dtype.category] in row.dtypes
        and all(
            _fits(row, argument, value, dtype)
            for argument, value in zip(row.schema.arguments, specs, strict=True)
        )
    )


def _fits(row: Row, argument: Argument, value: Any, dtype: DType) -> bool:
    """Whether a row says that its kernel, which computes in `dtype`, takes an argument."""
    is_promoted, is_number = argument in row.promoted, argument.type.base == "Scalar"
    if type(value) is Spec:  # tensors next to promoted ones are conditions
        return is_promoted or not row.promoted or value.dtype is dtypes.bool_
    if is_number and value is not None and not _holds(dtype, value):
        return False
    if argument.name in ("dim", "keepdim"):  # checked by shape rules
        return True
    if type(value) is DType:
        return value.category >= dtype.category and KINDS[value.category] in row.dtypes
    scales = argument.name in NOT_PROMOTED and not isinstance(row.promote, list)
    is_usual = value is None or (argument.has_default and bool(value == argument.default))
    return is_usual or (is_number and (is_promoted or scales))


def _holds(dtype: DType, number: Any) -> bool:
    """Whether all dtypes of this category surely hold a Python number."""
    if dtype.category >= FLOAT:
        return type(number) in NUMBERS and (dtype.is_complex or type(number) is not complex)
    return type(number) in (bool, int) and 0 <= number < 128


def _of_one_element(argument: Any) -> Any:
    if type(argument) is Value:
        kind = argument.type
        return make(np.ones((1,) * len(kind.shape), kind.dtype.np))
    return [_of_one_element(a) for a in argument] if type(argument) is tuple else argument


# The length of a while_loop's stack is known only when it runs: it is -1 in types, and this number
# in shape rules.
_STAND_IN = 104_729


# shared by all traces, which ask for the same types; a large model has some thousand calls
_KNOWN: Bounded[Any, tuple[Any, tuple[Type, ...]]] = Bounded(1 << 14)


def known_types(op: Operator, args: tuple[Any, ...]) -> tuple[Any, tuple[Type, ...]]:
    """As `result_types`, remembered."""
    try:
        key = (DEFAULT.dtype, op, *[_key(a) for a in args])
        found = _KNOWN.get(key)
    except TypeError:  # a list of floats, a generator
        return result_types(op, args)
    if found is None:
        found = _KNOWN[key] = result_types(op, args)
    return found


_INT = {int}
_PLAIN = {type(None), *NUMBERS}


def _key(argument: Any) -> Any:
    """A key of an argument that decides types; 1, 1.0 and True have different keys, and so have
    symbolic sizes with different examples, which types hold.
    """
    if type(argument) is Value:
        shape = argument.type.shape
        return argument.type if {*map(type, shape)} <= _INT else (argument.type, *map(int, shape))
    if type(argument) is tuple:
        return tuple([_key(a) for a in argument])
    if type(argument) not in _PLAIN and is_open(argument):
        return (type(argument), argument, float(argument))
    return (type(argument), argument)


def _type(spec: Spec, needs: bool) -> Type:
    shape = tuple([-1 if n == _STAND_IN else n for n in spec.shape])
    return Type(shape, spec.dtype, needs and spec.dtype.is_differentiable)


def needs_gradient(row: Row, args: tuple[Any, ...]) -> bool:
    """Whether a gradient passes through a node to one of its arguments."""
    names = differentiable_names(row)
    for name, argument in zip(row.schema.names, args, strict=True):
        if name in names:
            if isinstance(argument, Value):
                if argument.type.requires_grad:
                    return True
            elif isinstance(argument, tuple) and any(
                isinstance(v, Value) and v.type.requires_grad for v in argument
            ):
                return True
    return False


@remembered
def differentiable_names(row: Row) -> frozenset[str]:
    """The names of arguments to which a gradient may pass, by a formula or by the decomposition."""
    if row.decompose and not row.reverse and not row.forward:
        return frozenset(a.name for a in row.schema.tensors)
    return frozenset(a.name for a in row.differentiable) | frozenset(row.refused)


def _without_data(value: Any) -> Any:
    if isinstance(value, Value):
        return Spec(tuple([_STAND_IN if n < 0 else int(n) for n in value.shape]), value.dtype)
    if isinstance(value, tuple) and any(isinstance(v, Value) for v in value):
        return [_without_data(v) for v in value]
    return value


def substitute_needing(args: tuple[Any, ...], change: Callable[[Value], Value]) -> tuple[Any, ...]:
    """Arguments, with `change` applied to values that require a gradient."""
    if not any(v.type.requires_grad for v in _flat(args)):
        return args
    return substitute(args, lambda v: change(v) if v.type.requires_grad else v)


def _flat(args: tuple[Any, ...]) -> list[Value]:
    found: list[Value] = []
    for a in args:
        if isinstance(a, Value):
            found.append(a)
        elif isinstance(a, tuple):
            found.extend(v for v in a if isinstance(v, Value))
    return found
