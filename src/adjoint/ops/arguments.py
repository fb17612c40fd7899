"""Arguments: a user's values converted to the types of the schema, or a clear error.

Generated functions call these converters only when a cheap type check fails, so that the usual
call pays nothing. `accepts` is the test that overload choice uses.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core.dtypes import FLOAT, HALVES, INTEGER, OF, DType, float32, to_dtype
from adjoint.core.errors import ArgumentError, GradError
from adjoint.core.generator import Generator
from adjoint.core.layouts import format_number, to_layout
from adjoint.core.promotion import check_integer, element, python_number, result_type
from adjoint.core.remembering import remembered
from adjoint.core.storage import is_duck_array
from adjoint.ops import runtime
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.table.schema import Argument, Schema, SchemaType

NUMBERS = frozenset((bool, int, float, complex))
WHOLE = frozenset((int,))
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<missing>"})()
ALIASES = {
    "input": "self",
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "self",
    "a": "self",
    "axes": "dims",
    "axis1": "dim1",
    "axis2": "dim2",
    "ddof": "correction",
}

# Arguments of these names are dimensions: they shift when a dimension is added in front.
DIMS = frozenset((
    "dim", "dims", "dim0", "dim1", "dim2", "dimension", "start_dim", "end_dim", "axis", "axis0",
    "axis1",
))  # fmt: skip


def to_int(what: str, name: str, value: Any) -> int:
    """Return `value` as an int: integers, NumPy integers, integral 0-d tensors."""
    if isinstance(value, runtime.Tensor) and value.dtype.is_differentiable:
        raise ArgumentError(f"{what}: {name} must be an integer, got a {value.dtype.name} tensor")
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentError(f"{what}: {name} must be an integer, got {describe(value)}") from None


def to_ints(what: str, name: str, value: Any, length: int | None = None) -> tuple[int, ...]:
    """Return `value` as a tuple of ints; a single one stands for `length` of them."""
    if isinstance(value, (list, tuple, range)) or (
        isinstance(value, np.ndarray) and value.ndim == 1
    ):
        if WHOLE.issuperset(map(type, value)):
            return tuple(value)
        return tuple(to_int(what, name, v) for v in value)
    if isinstance(value, (str, bytes)) or value is None:
        raise ArgumentError(
            f"{what}: {name} must be an integer or a sequence of them, got {describe(value)}"
        )
    return (to_int(what, name, value),) * (length or 1)


def to_scalar(what: str, name: str, value: Any) -> Any:
    """Return `value` as a Python number: numbers, NumPy scalars, tensors of one element."""
    if type(value) in NUMBERS:
        return value
    if isinstance(value, runtime.Tensor):
        if value.requires_grad:
            raise GradError(
                f"{what}: {name} is a number, which has no derivative, and got a tensor that "
                "requires a gradient; pass tensor.item() to say that none is meant"
            )
        return value.item()
    if isinstance(value, (np.generic, np.ndarray)) and value.size == 1 and holds_numbers(value):
        return python_number(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, numbers.Complex):
        return complex(value)
    raise ArgumentError(f"{what}: {name} must be a number, got {describe(value)}")


def to_float(what: str, name: str, value: Any) -> float:
    """Return `value` as a float."""
    number = to_scalar(what, name, value)
    if isinstance(number, complex):
        raise ArgumentError(f"{what}: {name} must be real, got {number}")
    return float(number)


def to_bool(what: str, name: str, value: Any) -> bool:
    """Return `value` as a bool."""
    if isinstance(value, (bool, int, np.bool_)):
        return bool(value)
    raise ArgumentError(f"{what}: {name} must be True or False, got {describe(value)}")


def to_list(what: str, name: str, value: Any, convert: Callable[[str, str, Any], Any]) -> list[Any]:
    """Return `value` as a list, each entry converted."""
    if not isinstance(value, (list, tuple)):
        raise ArgumentError(f"{what}: {name} must be a list or tuple, got {describe(value)}")
    return [convert(what, name, v) for v in value]


def to_str(what: str, name: str, value: Any) -> str:
    """Return `value` if it is a string, as a plain one."""
    if isinstance(value, str):
        return str.__str__(value)
    raise ArgumentError(f"{what}: {name} must be a string, got {describe(value)}")


def to_generator(what: str, name: str, value: Any) -> Generator:
    """Return `value` if it is a generator of random numbers."""
    if isinstance(value, Generator):
        return value
    raise ArgumentError(f"{what}: {name} must be an ad.Generator, got {describe(value)}")


def to_tensor(what: str, name: str, value: Any) -> Any:
    """Return `value` as a tensor: tensors, NumPy arrays, numbers."""
    if isinstance(value, runtime.Tensor):
        return value.in_dtype() if type(value) in runtime.NUMBER_TYPES else value
    if isinstance(value, (np.ndarray, np.generic)) or type(value) in NUMBERS:
        return runtime.tensor_of(value)
    if is_duck_array(value):
        return runtime.tensor_of(np.asarray(value))
    raise ArgumentError(
        f"{what}: {name} must be a tensor, an array or a number, got {describe(value)}"
        f"{from_elsewhere(value)}"
    )


def holds_numbers(array: Any) -> bool:
    """Whether the dtype of an array or NumPy scalar is numeric, even if tensors lack it."""
    return array.dtype.kind in "biufc" or array.dtype in OF


# -- numbers where tensors are expected ------------------------------------------------------------


def bind(op: Any, args: Sequence[Any]) -> list[Any]:
    """Return one value for each argument of an operator, as the schema wants it, or raise."""
    weak = runtime.NUMBER_TYPES
    values: list[Any] = []
    for value, (argument, takes_tensor, types) in zip(args, op.wanted, strict=True):
        if takes_tensor and type(value) in weak:
            return _with_numbers(op, args)
        if type(value) not in types:
            value = convert(op.schema.name, argument, value)
        values.append(value)
    return values


Wanted = tuple[tuple[Argument, bool, tuple[type, ...]], ...]


def wanted(schema: Schema) -> Wanted:
    """For each argument: whether it is a single tensor, and the types that need no conversion."""
    found: list[Any] = []
    for argument in schema.arguments:
        kind = argument.type
        takes_tensor = kind.is_tensor and not kind.is_list
        types: tuple[type, ...] = (runtime.Tensor,) if takes_tensor else ()
        if not kind.is_tensor and not kind.is_list:
            types = _AS_THEY_ARE.get(kind.base, ())
        found.append((argument, takes_tensor, (*types, *(type(None),) * kind.is_optional)))
    return tuple(found)


def _with_numbers(op: Any, args: Sequence[Any]) -> list[Any]:
    """Like `bind`, for calls with a number in the place of a tensor."""
    takes = [takes_tensor for _, takes_tensor, _ in op.wanted]
    values = [
        v if t and type(v) in runtime.NUMBER_TYPES else convert(op.schema.name, a, v)
        for t, a, v in zip(takes, op.schema.arguments, args, strict=True)
    ]
    return _with_tensors_for_numbers(op, takes, args, values)


_AS_THEY_ARE: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float,),
    "bool": (bool,),
    "Scalar": tuple(NUMBERS),
    "ScalarType": (DType,),
    "str": (str,),
}


def _with_tensors_for_numbers(
    op: Any, takes: Sequence[bool], args: Sequence[Any], values: list[Any]
) -> list[Any]:
    """Replace each number by a tensor in the dtype in which the operator computes.

    In any position a number counts in promotion by its category alone: 1/3 next to a float64 tensor
    is not rounded to the default dtype, and 1 next to a uint8 tensor is a uint8. `args` are the
    arguments as given, `values` the converted ones.
    """
    weak = runtime.NUMBER_TYPES
    given = [a if type(a) in weak else v for a, v in zip(args, values, strict=True)]
    promoted = {a.name for a in op.row.promoted}
    alone = not any(map(_is_array, given))
    for i, argument in enumerate(op.schema.arguments):
        if not takes[i] or type(args[i]) not in weak:
            continue
        if argument.name in promoted:
            operands = [None if v is MISSING else _operand(v, alone) for v in given]
            dtype = op.row.computes_in(dict(zip(op.schema.names, operands, strict=True)))
            if dtype.category == INTEGER and _checks_numbers(op.row):
                check_integer(_python_number(args[i]), dtype)
            if op.row.has_wide_numbers and dtype in HALVES and any(map(_has_dims, given)):
                _keep_half(values, promoted, op.schema.names, dtype)
                dtype = float32
        else:
            tensors = [v for v, t in zip(given, takes, strict=True) if t and _is_array(v)]
            dtype = _dtype_of_number(args[i], tensors, alone)
        values[i] = _tensor_of_number(args[i], dtype)
    return values


def _keep_half(values: list[Any], promoted: set[str], names: Sequence[str], half: DType) -> None:
    """Let an operand with dimensions decide that the result is a half, in `values`.

    Next to a number in float32, 0-d halves would not. A bool or an integer is converted, which has
    no derivative.
    """
    places = [i for i, n in enumerate(names) if n in promoted and _has_dims(values[i])]
    if places and all(values[i].dtype.category < FLOAT for i in places):
        values[places[0]] = values[places[0]].to(half)


@remembered
def _checks_numbers(row: Row) -> bool:
    """Whether an integer dtype refuses numbers beyond its range; the numbers' overload tells."""
    rows = (
        [TABLE.row(row.name, o) for o in TABLE.overloads(row.name)] if row.name in TABLE else [row]
    )
    return any(r.texts.get("numbers") in ("checked", "powers") for r in rows)


def _dtype_of_number(number: Any, tensors: list[Any], alone: bool) -> DType:
    """The dtype of a number that an operator does not promote: a real or complex number is as
    precise as the tensors of the call; an integer may be an index and stays int64.
    """
    kind = _common_dtype([number], alone)
    return _common_dtype([number, *tensors], alone) if kind.category >= FLOAT else kind


def common_dtype(operands: Sequence[Any]) -> DType:
    """The dtype of an elementwise operator on tensors, arrays and numbers, some of them absent.

    NumPy's scalars count as numbers next to a tensor or an array, and as 0-d arrays among
    themselves.
    """
    return _common_dtype(operands, not any(map(_is_array, operands)))


def _is_array(value: Any) -> bool:
    """Whether this is a tensor or an array, and not a number."""
    return (
        isinstance(value, (runtime.Tensor, np.ndarray)) and type(value) not in runtime.NUMBER_TYPES
    )


def _has_dims(value: Any) -> bool:
    return _is_array(value) and value.ndim > 0


def _common_dtype(operands: Sequence[Any], alone: bool) -> DType:
    present = [v for v in operands if v is not None and v is not MISSING]
    return result_type(*[_operand(v, alone) for v in present])


def _operand(value: Any, alone: bool) -> Any:
    if isinstance(value, runtime.Tensor):
        return value.as_operand(alone) if type(value) in runtime.NUMBER_TYPES else value
    if isinstance(value, np.generic):
        return np.asarray(value) if alone and value.dtype in OF else python_number(value)
    return value


def _tensor_of_number(value: Any, dtype: DType) -> Any:
    if isinstance(value, runtime.Tensor):
        return value.in_dtype(dtype)
    return runtime.tensor_of(np.asarray(element(_python_number(value), dtype), dtype.np))


def _python_number(value: Any) -> Any:
    return python_number(value) if isinstance(value, np.generic) else value


def is_tensor_or_array(value: Any) -> bool:
    """Whether a value is a tensor or an array, and not a number."""
    return isinstance(value, (runtime.Tensor, np.ndarray))


def from_elsewhere(value: Any) -> str:
    """Advice about an array of another library, which may have a history of its own."""
    if not hasattr(type(value), "__dlpack__"):
        return ""
    home = type(value).__module__.partition(".")[0]
    return f" of {home}; ad.from_dlpack(x) is a tensor on the same memory, without its history"


def describe(value: Any) -> str:
    """Say what a value is, in a few words."""
    if value is None:
        return "None"
    if isinstance(value, runtime.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) < 40 else text[:37] + '...'}"


def converter(kind: SchemaType) -> Callable[[str, str, Any], Any] | None:
    """Return the converter of one value of a type, or None where anything goes (enumerations)."""
    return _CONVERTERS.get(kind.base)


_CONVERTERS: dict[str, Callable[[str, str, Any], Any]] = {
    "Tensor": to_tensor,
    "int": to_int,
    "Scalar": to_scalar,
    "float": to_float,
    "bool": to_bool,
    "str": to_str,
    "Generator": to_generator,
    "MemoryFormat": lambda what, name, value: format_number(what, value),
    "Layout": lambda what, name, value: to_layout(what, value),
    "ScalarType": lambda what, name, value: to_dtype(value),
}


def convert(what: str, argument: Argument, value: Any) -> Any:
    """Return `value` as the schema wants it, or raise."""
    kind = argument.type
    if value is MISSING:
        if argument.has_default:
            return argument.default
        raise ArgumentError(f"{what}: missing argument {argument.name!r} ({kind})")
    if value is None:
        if kind.is_optional or kind.base == "Device":  # a place that was checked is taken out
            return None
        raise ArgumentError(f"{what}: {argument.name} must be a {kind}, got None")
    single = converter(kind)
    if single is None:
        return value
    if not kind.is_list:
        return single(what, argument.name, value)
    if kind.base == "int":
        return to_ints(what, argument.name, value, kind.length)
    if kind.holds_none:
        return [None if v is None else single(what, argument.name, v) for v in value]
    if kind.base != "Tensor" and not isinstance(value, (list, tuple)):
        return [single(what, argument.name, value)] * (kind.length or 1)
    return to_list(what, argument.name, value, single)


# How loosely values may match argument types when an overload is chosen: the first overload that
# fits exactly is taken, else one that takes numbers for tensors, else one that takes 0-d tensors
# for numbers (which cannot be differentiated).
EXACTLY, NUMBERS_AS_TENSORS, TENSORS_AS_NUMBERS = range(3)
LENIENCY = (EXACTLY, NUMBERS_AS_TENSORS, TENSORS_AS_NUMBERS)


def accepts(kind: SchemaType, value: Any, *, lenient: int) -> bool:
    """Whether a value can stand for an argument of this type, when an overload is chosen."""
    if value is None:
        return kind.is_optional
    if kind.is_list:
        if kind.base == "int" and _is_int(
            value, lenient
        ):  # True is a dimension only as a last resort
            return bool(lenient) or kind.length is not None
        if kind.base in ("float", "bool", "Scalar") and type(value) in NUMBERS:
            return kind.length is not None
        if not isinstance(value, (list, tuple)):
            return kind.base == "int" and isinstance(value, range)
        inner = SchemaType(kind.base, is_optional=kind.holds_none)
        return all(accepts(inner, v, lenient=lenient) for v in value)
    tensor = isinstance(value, (runtime.Tensor, np.ndarray))
    if kind.base == "Tensor":
        likeness = hasattr(type(value), "__torch_function__") or is_duck_array(value)
        return tensor or likeness or (bool(lenient) and type(value) in runtime.NUMBER_TYPES)
    if kind.base == "Scalar":
        return isinstance(value, (numbers.Number, np.generic)) or (
            lenient == TENSORS_AS_NUMBERS and tensor and value.ndim == 0
        )
    if kind.base == "int":
        return _is_int(value, lenient)
    if kind.base == "float":
        return isinstance(value, (float, int, np.floating, np.integer)) and not isinstance(
            value, bool
        )
    if kind.base == "bool":
        return isinstance(value, (bool, np.bool_)) or (bool(lenient) and type(value) is int)
    if kind.base == "str":
        return isinstance(value, str)
    if kind.base == "Generator":
        return isinstance(value, Generator)
    if kind.base == "ScalarType":
        return isinstance(value, (DType, type, np.dtype)) or (
            bool(lenient) and isinstance(value, str)
        )
    return True


def _is_int(value: Any, lenient: int) -> bool:
    if isinstance(value, bool):
        return bool(lenient)
    if isinstance(value, (int, np.integer)):
        return True
    if lenient != TENSORS_AS_NUMBERS or not isinstance(
        value, runtime.Tensor
    ):  # max(x, tensor) compares, if it can
        return False
    return value.ndim == 0 and not value.dtype.is_differentiable


def rename(schema: Schema, keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords under the schema's names (`axis` for `dim`, `input` for `self`)."""
    names = schema.names
    if all(k in names for k in keywords):
        return keywords
    renamed: dict[str, Any] = {}
    for key, value in keywords.items():
        alias = ALIASES.get(key, key)
        if key not in names and alias == "dim" and "dims" in names:
            alias = "dims"
        renamed[alias if key not in names and alias in names else key] = value
    return renamed


def match(schema: Schema, args: tuple[Any, ...], keywords: dict[str, Any], *, lenient: int) -> bool:
    """Whether a call fits a schema; `x.view(2, 3)` and `meshgrid(x, y)` spread their lists."""
    positional = [a for a in schema.arguments if not a.keyword_only]
    start = spreads(schema)
    if (
        start is not None
        and len(args) > start
        and _are_separate(positional[start].type, args[start:])
    ):
        args = (*args[:start], tuple(args[start:]))
    if len(args) > len(positional):
        return False
    given = dict(zip((a.name for a in positional), args, strict=False))
    keywords = {k: v for k, v in rename(schema, keywords).items() if k not in runtime.EXTRAS}
    if given.keys() & keywords.keys() or not keywords.keys() <= set(schema.names):
        return False
    given |= keywords
    return all(
        accepts(a.type, given[a.name], lenient=lenient)
        if a.name in given
        else a.has_default or a.type.is_optional
        for a in schema.arguments
    )


def _are_separate(kind: SchemaType, values: tuple[Any, ...]) -> bool:
    if kind.is_tensor:
        return all(isinstance(v, (runtime.Tensor, np.ndarray)) for v in values)
    return all(_is_int(v, TENSORS_AS_NUMBERS) for v in values)


def spreads(schema: Schema) -> int | None:
    """The position of an `int[]` or `Tensor[]` that may be given as separate arguments, or None.

    Only the last positional argument may: in `x.sum(0, True)` the second is `keepdim`.
    """
    positional = [a for a in schema.arguments if not a.keyword_only]
    for position, argument in enumerate(positional[:2]):
        kind = argument.type
        if (
            kind.is_list
            and kind.base in ("int", "Tensor")
            and not kind.holds_none
            and not argument.has_default
        ):
            return position if position == len(positional) - 1 else None
        if not kind.is_tensor:
            return None
    return None
