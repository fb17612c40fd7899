"""The eager interpreter: writes, for each row, a Python function that runs it on plain tensors.

The function checks types once, calls the kernel on the arrays, wraps the result and, if a gradient
is wanted, records a node. Everything known beforehand (promotion, what to save, which inputs
have a derivative) is decided here, when the text is written, so a call runs straight through.
Anything unusual (arrays in place of tensors, `out=`, dual tensors, transforms) goes to
`dispatch.slow`.

`computing.py` and `recording.py` hold the pieces of text; `print(ad.ops.mul.Tensor.source)` shows
them put together.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from adjoint.calls import compiled_text, dispatch, inplace
from adjoint.calls import operators as dunders
from adjoint.calls.computing import python_name
from adjoint.calls.recording import FunctionWriter, mixed_rule_of, rule_of
from adjoint.core.dtypes import DIFFERENTIABLE, INEXACT, OF, REDUCED, DType
from adjoint.core.errors import DtypeError
from adjoint.core.float_warnings import NO_MODULE
from adjoint.core.generator import Generator
from adjoint.core.promotion import WEAK, promotion_of
from adjoint.core.returns import results_class
from adjoint.core.shapes import Size
from adjoint.core.source_lines import of_user, place_of
from adjoint.core.state import current, inference_modes, seeing
from adjoint.homes import fans, limits
from adjoint.loops import row_loops
from adjoint.ops import arguments, binding
from adjoint.ops import operator as packets
from adjoint.ops.documentation import Documentation
from adjoint.ops.operator import Operator, operator
from adjoint.table import formula as language
from adjoint.table.formula import BUILTINS
from adjoint.table.schema import Argument, parse
from adjoint.tape import observe
from adjoint.tensor import views
from adjoint.tensor.nodes import ZERO, Counter, Node, Output, Refusal, mark_inference, next_sequence
from adjoint.tensor.tensor import Tensor

_NAMESPACE: dict[str, Any] = {
    "_Tensor": Tensor,
    "_new": object.__new__,
    "_Node": Node,
    "_Output": Output,
    "_ZERO": ZERO,
    "_Counter": Counter,
    "_state": current,
    "_INFERENCE": inference_modes,
    "_SEEING": seeing,
    "_mark": mark_inference,
    "_ndarray": np.ndarray,
    "_asarray": np.asarray,
    "_INEXACT": INEXACT,
    "_DIFFERENTIABLE": DIFFERENTIABLE,
    "_WEAK": WEAK,
    "_WEAK_AND_WIDE": WEAK - REDUCED,
    "_float32": np.float32,
    "_REDUCED": REDUCED,
    "_slow": dispatch.slow,
    "_in_former_order": dispatch.in_former_order,
    "_recover": dispatch.recover,
    "_sequence": next_sequence,
    "_frame": sys._getframe,
    "_place_of": place_of,
    "_of_user": of_user,
    "_DUNDERS": vars(dunders),
    "_PACKETS": vars(packets),
    "_NUMBERS": arguments.NUMBERS,
    "_DType": DType,
    "_Generator": Generator,
    "_OF": OF,
    "_observe": observe.observe,
    "_view": views.attach,
    "_MISSING": arguments.MISSING,
    "_same": dispatch.same_dtype,
    "_plain": dispatch.all_plain,
    "_plain_or_none": dispatch.all_plain_or_none,
    **fans.NAMESPACE,
    **limits.NAMESPACE,
    "xp": np,
    "_convert": arguments.convert,
    "_WHOLE": arguments.WHOLE,
    "_TUPLES": frozenset((tuple, Size)),
    "_map": map,
    "_Refusal": Refusal,
    "_UNUSUAL": dispatch.UNUSUAL,
    "_explain": dispatch.raise_explained,
    "_versions_of": observe.versions_of,
    "_watch": observe.watch,
    "__builtins__": BUILTINS
    | {"type": type, "Exception": Exception, "str": str, "complex": complex},
    "__name__": NO_MODULE,
}


def build(op: Operator) -> Callable[..., Any]:
    """Return the function of an operator."""
    if op.is_derived_inplace:
        return inplace.build(op, operator(op.row.name, op.row.schema.overload).function)
    if op.schema.replaces:
        return inplace.build(op, _functional(op))
    composite = op.row.decompose and not op.row.kernel
    write = FunctionWriter.composite if composite else FunctionWriter.kernel_function
    function = _function(op, "function", _symbol(op), write)
    function.__doc__ = Documentation(op.name, lambda: (op,))
    function.__module__ = "adjoint"
    function.__wrapped__ = op  # type: ignore[attr-defined] - inspect.signature asks it
    return function


def _functional(op: Operator) -> Callable[..., Any]:
    """The functional form of an operator that writes, which any interpreter can run."""
    schema = parse(re.sub(r"\(\w!\)", "", op.schema.text))
    row = dataclasses.replace(op.row, schema=schema)
    vars(row)["prepared_as"] = op.row.prepared_key("functional")
    return Operator(row).function


def build_parts(op: Operator) -> Parts:
    """Return `compute` and `record` of an operator, for interpreters other than the eager one."""
    compute = _function(op, "compute", "compute", FunctionWriter.compute)
    if not op.row.differentiable and not op.row.refused:
        return Parts(compute, None)
    return Parts(compute, _function(op, "record", "record", FunctionWriter.record))


def _function(
    op: Operator, kind: str, symbol: str, write: Callable[[FunctionWriter], list[str]]
) -> Callable[..., Any]:
    """A function of an operator from its text; the text is added to `op.written`."""
    function, text = compiled_text.function(
        symbol,
        f"<adjoint {op.full_name} {symbol}>",
        lambda: write(FunctionWriter(op)),
        _NAMESPACE | {"_op": op},
        lambda name: _value(op, name),
        op.row.prepared_key(kind),
    )
    op.written += text
    return function


def _value(op: Operator, name: str) -> Any:
    """The value of a name in generated text that depends on the operator."""
    if name in _OF_OPERATOR:
        return _OF_OPERATOR[name](op)
    if kernel := language.function_bound(name):
        return binding.reference(kernel, "kernels", op.row, "kernel")
    _, kind, argument = name.split("_", 2)  # _default_dim
    found = next(a for a in op.row.schema.arguments if python_name(a.name) == argument)
    return _OF_ARGUMENT[kind](op, found)


def _symbol(op: Operator) -> str:
    return python_name(op.row.schema.symbol)


class Parts:
    """An operator in two steps: arrays from tensors, and the node."""

    def __init__(self, compute: Callable[..., Any], record: Callable[..., Any] | None) -> None:
        self.compute = compute
        self.record = record


def _must_be_real(op: Operator, name: str, value: complex) -> None:
    raise DtypeError(f"{op.name}: {name} is {value}, and the tensors are real; pass a real number.")


def _own(op: Operator, result: Any, arguments: tuple[Any, ...]) -> Any:
    """The result of a user's kernel, as an array that tensors can hold.

    It gets its own memory, unless the schema says that it shares memory.
    """
    if type(result) is list:
        return [_own(op, r, arguments) for r in result]
    if result.dtype not in OF:
        raise DtypeError(
            f"{op.name}: its kernel returned an array of {result.dtype}, which no tensor can hold; "
            f"see {op.row.where}"
        )
    if op.schema.is_view:
        return result
    given = (b for a in arguments for b in (a if type(a) is list else (a,)) if b is not None)
    return result.copy() if any(np.may_share_memory(result, a) for a in given) else result


def _unordered(op: Operator) -> None:
    raise DtypeError(f"{op.name}: complex numbers have no order; use x.abs() or x.real instead.")


def _refusal(op: Operator, name: str) -> str:
    entry = op.row.refused[name]
    if entry.word == "not_implemented":
        return f"the derivative of {op.full_name} in {name} is not written yet: {entry.reason}"
    return (
        f"{op.full_name} is not differentiable in {name}, and {name} requires a gradient; "
        f"pass {name}.detach() if you mean it as a constant"
    )


def _default(op: Operator, argument: Argument) -> Any:
    """The value of an argument that is not given."""
    return arguments.convert("", argument, argument.default) if argument.has_default else None


_NAMESPACE.update(_must_be_real=_must_be_real, _unordered=_unordered, _own=_own)
# Values that depend on the operator, and on one of its arguments: _default_dim, _arg_dim, …
_OF_OPERATOR: dict[str, Callable[[Operator], Any]] = {
    "_rule": lambda op: rule_of(op.row),
    "_mixed": lambda op: mixed_rule_of(op.row),
    "_promote": lambda op: promotion_of(op.row.texts),
    "_large": lambda op: row_loops.RowLoops(op.row),
    "_kernel": lambda op: binding.reference(op.row.kernel, "kernels", op.row, "kernel"),
    "_wide_kernel": lambda op: binding.kernel_of(op.row),
    "_in_float32": lambda op: partial(
        binding.reference("pointwise.ufunc_in_float32", "kernels", op.row, "kernel"),
        binding.kernel_of(op.row),
    ),
    "_decomposition": lambda op: binding.decomposition(op.row),
    "_Results": lambda op: results_class(op.row.name, tuple(r.name for r in op.row.schema.returns)),
}
_OF_ARGUMENT: dict[str, Callable[[Operator, Argument], Any]] = {
    "default": _default,
    "arg": lambda op, argument: argument,
    "refusal": lambda op, argument: _refusal(op, argument.name),
}
