"""Types of the results of a node, from the shape rule of its row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.dtypes import DEFAULT
from adjoint.core.remembering import remembered
from adjoint.core.shapes import Spec
from adjoint.graph.ir import GraphError, Type, Value, substitute
from adjoint.homes import meta
from adjoint.homes.meta import meta_tensor
from adjoint.ops.operator import Operator
from adjoint.table.rows import Row
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import make


def result_types(op: Operator, args: tuple[Any, ...]) -> tuple[Any, tuple[Type, ...]]:
    """How the results are put together (None: one tensor; tuple; list), and the type of each."""
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
    """Raise if the kernel of an elementwise operator or a reduction does not take these dtypes.

    Native code would: it has an expression of the operator, and no kernel that looks. So the
    operator is run on one element, and says what it says of all tensors of the dtypes.
    """
    archetype = op.row.archetype
    if not op.row.kernel or op.schema.replaces or op.row.random:
        return
    if archetype.promotes or archetype.name == "reduction":
        with no_grad():
            op.call([_of_one_element(a) for a in args])


def _of_one_element(argument: Any) -> Any:
    if type(argument) is Value:
        kind = argument.type
        return make(np.ones((1,) * len(kind.shape), kind.dtype.np))
    return [_of_one_element(a) for a in argument] if type(argument) is tuple else argument


# What a while_loop stacks has a length known when it runs: -1 in its type, this in shape rules.
_STAND_IN = 104_729


_MOST_KNOWN = 1 << 14  # calls of operators; a large model has some thousand
_known: dict[Any, tuple[Any, tuple[Type, ...]]] = {}  # shared by all traces, which ask the same


def known_types(op: Operator, args: tuple[Any, ...]) -> tuple[Any, tuple[Type, ...]]:
    """As `result_types`, remembered."""
    try:
        key = (DEFAULT.dtype, op, *[_key(a) for a in args])
        found = _known.get(key)
    except TypeError:  # a list of floats, a generator
        return result_types(op, args)
    if found is None:
        if len(_known) == _MOST_KNOWN:
            _known.clear()
        found = _known[key] = result_types(op, args)
    return found


def _key(argument: Any) -> Any:
    """The part of an argument that decides a type; 1, 1.0 and True make different types."""
    if type(argument) is Value:
        return argument.type
    if type(argument) is tuple:
        return tuple([_key(a) for a in argument])
    return (type(argument), argument)


def _type(spec: Spec, needs: bool) -> Type:
    shape = tuple([-1 if n == _STAND_IN else n for n in spec.shape])
    return Type(shape, spec.dtype, needs and spec.dtype.is_differentiable)


def needs_gradient(row: Row, args: tuple[Any, ...]) -> bool:
    """Whether a gradient goes through a node to one of its arguments."""
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
    """The arguments that a gradient may go to, by a formula or the decomposition."""
    if row.decompose and not row.reverse and not row.forward:
        return frozenset(a.name for a in row.schema.tensors)
    return frozenset(a.name for a in row.differentiable) | frozenset(row.refused)


def _without_data(value: Any) -> Any:
    if isinstance(value, Value):
        return meta_tensor(
            tuple([_STAND_IN if n < 0 else n for n in value.type.shape]), value.type.dtype
        )
    if isinstance(value, tuple) and any(isinstance(v, Value) for v in value):
        return [_without_data(v) for v in value]
    return value


def substitute_needing(args: tuple[Any, ...], change: Callable[[Value], Value]) -> tuple[Any, ...]:
    """Arguments with every value that requires a gradient changed."""
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
