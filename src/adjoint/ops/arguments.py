"""Arguments: what a user passes, made into what the schema says, or a clear error.

Generated functions call these converters only when a cheap type check fails, so that the usual
call pays nothing. `accepts` is the test that overload choice uses.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.dtypes import DType, to_dtype
from adjoint.core.errors import ArgumentError
from adjoint.ops import runtime
from adjoint.table.schema import Argument, Schema, Type

NUMBERS = frozenset((bool, int, float, complex))
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
}


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
        if all(type(v) is int for v in value):
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
        return value.item()
    if isinstance(value, (np.generic, np.ndarray)) and value.size == 1:
        return to_scalar(what, name, value.item())
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
    """Return `value` if it is a string."""
    if isinstance(value, str):
        return value
    raise ArgumentError(f"{what}: {name} must be a string, got {describe(value)}")


def to_tensor(what: str, name: str, value: Any) -> Any:
    """Return `value` as a tensor: tensors, NumPy arrays, numbers."""
    if isinstance(value, runtime.Tensor):
        return value
    if isinstance(value, (np.ndarray, np.generic)) or type(value) in NUMBERS:
        return runtime.tensor_of(value)
    raise ArgumentError(
        f"{what}: {name} must be a tensor, an array or a number, got {describe(value)}"
    )


def describe(value: Any) -> str:
    """Say what a value is, in a few words."""
    if value is None:
        return "None"
    if isinstance(value, runtime.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) < 40 else text[:37] + '...'}"


def converter(kind: Type) -> Callable[[str, str, Any], Any] | None:
    """Return the converter of one value of a type, or None where anything goes (enumerations)."""
    return _CONVERTERS.get(kind.base)


_CONVERTERS: dict[str, Callable[[str, str, Any], Any]] = {
    "Tensor": to_tensor,
    "int": to_int,
    "Scalar": to_scalar,
    "float": to_float,
    "bool": to_bool,
    "str": to_str,
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
        if kind.is_optional:
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


def accepts(kind: Type, value: Any, *, lenient: bool) -> bool:
    """Whether a value can stand for an argument of this type, when an overload is chosen."""
    if value is None:
        return kind.is_optional
    if kind.is_list:
        if kind.base == "int" and _is_int(
            value, lenient
        ):  # True is a dimension only as a last resort
            return lenient or kind.length is not None
        if kind.base in ("float", "bool", "Scalar") and type(value) in NUMBERS:
            return kind.length is not None
        if not isinstance(value, (list, tuple)):
            return kind.base == "int" and isinstance(value, range)
        inner = Type(kind.base, is_optional=kind.holds_none)
        return all(accepts(inner, v, lenient=lenient) for v in value)
    tensor = isinstance(value, (runtime.Tensor, np.ndarray))
    if kind.base == "Tensor":
        return tensor or (lenient and (type(value) in NUMBERS or isinstance(value, np.generic)))
    if kind.base == "Scalar":
        return isinstance(value, (numbers.Number, np.generic)) or (
            lenient and tensor and value.ndim == 0
        )
    if kind.base == "int":
        return _is_int(value, lenient)
    if kind.base == "float":
        return isinstance(value, (float, int, np.floating, np.integer)) and not isinstance(
            value, bool
        )
    if kind.base == "bool":
        return isinstance(value, (bool, np.bool_)) or (lenient and type(value) is int)
    if kind.base == "str":
        return isinstance(value, str)
    if kind.base == "ScalarType":
        return isinstance(value, (DType, type, np.dtype)) or (isinstance(value, str) and lenient)
    return True


def _is_int(value: Any, lenient: bool) -> bool:
    if isinstance(value, bool):
        return lenient
    if isinstance(value, (int, np.integer)):
        return True
    if not lenient or not isinstance(value, runtime.Tensor):  # max(x, tensor) compares, if it can
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


def match(
    schema: Schema, args: tuple[Any, ...], keywords: dict[str, Any], *, lenient: bool
) -> bool:
    """Whether a call fits a schema; integers may be spread (`x.view(2, 3)`), and tensors
    (`meshgrid(x, y)`).
    """
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


def _are_separate(kind: Type, values: tuple[Any, ...]) -> bool:
    if kind.is_tensor:
        return all(isinstance(v, (runtime.Tensor, np.ndarray)) for v in values)
    return all(_is_int(v, True) for v in values)


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
