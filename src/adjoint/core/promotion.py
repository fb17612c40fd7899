"""Type promotion: the dtype of a result from the dtypes of the operands, as in PyTorch.

An operand is a tensor with dimensions, a 0-d tensor or a Python number; that is their rank: an
operand of lower rank decides only if its category (bool < integer < float < complex) is higher.
Answers are cached by dtype, because every `x_int * 2.0` and `mask * x` needs one.

The one difference from PyTorch: float16 with a complex number gives complex64, not complex32.
Where PyTorch refuses uint16, uint32 and uint64 with other integers, they are promoted as by the
array API standard: to the smallest dtype that holds both; uint64 with signed integers is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.dtypes import BOOL, COMPLEX, DEFAULT, FLOAT, INTEGER, DType
from adjoint.core.errors import DtypeError, NumberRangeError, ValueRangeError
from adjoint.core.shapes import Spec

NUMBERS = (bool, int, float, complex)
_NUMBER_SET = frozenset(NUMBERS)
_BFLOAT16: Any = dtypes.bfloat16.np.type
# NumPy converts Python numbers to these dtypes as we do.
WEAK = dtypes.INEXACT - {dtypes.bfloat16.np}


def _promote_pair(a: DType, b: DType) -> DType | None:
    """The smallest dtype that holds both; None if there is none."""
    if a is b:
        return a
    low, high = (a, b) if a.category <= b.category else (b, a)
    if low.category == BOOL:
        return high
    if high.category == INTEGER:
        return _promote_integers(low, high)
    if high.category == FLOAT:
        return _promote_floats(low, high) if low.category == FLOAT else high
    if dtypes.complex32 in (low, high) and low in _WITHIN_HALF:
        return dtypes.complex32
    wide = dtypes.float64 in (low, high.to_real()) or low is dtypes.complex128
    return dtypes.complex128 if wide else dtypes.complex64


def _promote_integers(a: DType, b: DType) -> DType | None:
    """The smallest integer dtype that holds both ranges; None for uint64 with a signed one."""
    if a.is_signed == b.is_signed:
        return a if a.itemsize > b.itemsize else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    return _NEXT_SIGNED.get(unsigned.itemsize)


def _promote_floats(a: DType, b: DType) -> DType:
    if a.itemsize == b.itemsize:
        return dtypes.float32  # float16 with bfloat16: neither holds the other
    return a if a.itemsize > b.itemsize else b


_WITHIN_HALF = (
    dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.float16,
)  # fmt: skip
_NEXT_SIGNED = {1: dtypes.int16, 2: dtypes.int32, 4: dtypes.int64}  # by the bytes of an unsigned
_TABLE: dict[tuple[DType, DType], DType | None] = {
    (a, b): _promote_pair(a, b) for a in dtypes.NAMES.values() for b in dtypes.NAMES.values()
}


def promote_types(a: DType, b: DType) -> DType:
    """Return the smallest dtype that both `a` and `b` are promoted to, as `torch.promote_types`.

    >>> promote_types(dtypes.uint8, dtypes.int8), promote_types(dtypes.int64, dtypes.float16)
    (ad.int16, ad.float16)
    """
    found = _TABLE[a, b]
    if found is None:
        raise DtypeError(
            f"{a.name} and {b.name} have no common dtype: no integer dtype holds both ranges; "
            "convert one of them with .to(dtype) first"
        )
    return found


def _combine(strong: DType | None, weak: DType | None) -> DType | None:
    """Return the dtype for operands of a higher and a lower rank; None: there is no such
    operand.
    """
    if strong is None or weak is None:
        return strong or weak
    if weak.category <= strong.category and strong.category != BOOL:
        return strong
    if strong.category == FLOAT:  # the weak one is complex: keep the strong one's precision
        return strong.to_complex()
    return promote_types(strong, weak)


def _number_dtype(kind: type) -> DType:
    if kind is float:
        return DEFAULT.dtype
    if kind is complex:
        return DEFAULT.complex_dtype
    return dtypes.bool_ if kind is bool else dtypes.int64


# An operand's part of the cache key: its dtype (ours or NumPy's) if it has dimensions, the tuple
# (dtype,) if it is 0-d, the type if it is a Python number, None if it is absent.
_Part = Any
_Action = Callable[[Any], Any]
_dtypes: dict[tuple[Any, ...], DType] = {}
_plans: dict[tuple[Any, ...], tuple[_Action | None, ...]] = {}  # `promote_wide` uses it, too


def _part(operand: Any) -> _Part:
    if isinstance(operand, NUMBERS):  # np.float64 and IntEnum are numbers too
        return next(k for k in NUMBERS if isinstance(operand, k))
    if isinstance(operand, np.generic) and not isinstance(operand, _BFLOAT16):
        return type(python_number(operand))
    return operand.dtype if operand.ndim else (operand.dtype,)


def _key(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    parts: list[_Part] = [DEFAULT.dtype]
    for operand in operands:
        kind = operand.__class__
        if kind is np.ndarray:
            parts.append(operand.dtype if operand.ndim else (operand.dtype,))
        elif kind in _NUMBER_SET:
            parts.append(kind)
        elif kind is Spec:
            parts.append(operand.dtype if operand.shape else (operand.dtype,))
        else:
            parts.append(None if operand is None else _part(operand))
    return tuple(parts)


def _resolve(parts: tuple[_Part, ...]) -> DType:
    ranks: list[DType | None] = [None, None, None]  # with dimensions, 0-d, numbers
    for part in parts:
        if part is None:
            continue
        if isinstance(part, type):
            rank, dtype = 2, _number_dtype(part)
        else:
            rank, found = (1, part[0]) if isinstance(part, tuple) else (0, part)
            dtype = found if isinstance(found, DType) else dtypes.of(found)
        previous = ranks[rank]
        ranks[rank] = dtype if previous is None else promote_types(previous, dtype)
    result = _combine(ranks[0], _combine(ranks[1], ranks[2]))
    if result is None:
        raise DtypeError("result_type() needs at least one tensor or number")
    return result


def result_type(*operands: Any) -> DType:
    """Return the dtype of an elementwise operator on `operands`: arrays, Specs, Python numbers.

    >>> result_type(np.ones(3, np.int32), 2.5), result_type(np.ones(3, np.float32), np.float64(1))
    (ad.float32, ad.float32)
    """
    key = _key(operands)
    try:
        return _dtypes[key]
    except KeyError:
        result = _dtypes[key] = _resolve(key[1:])
        return result


def float_result_type(*operands: Any) -> DType:
    """Return `result_type`, with the default float dtype in place of bools and integers."""
    result = result_type(*operands)
    return result if result.category >= FLOAT else DEFAULT.dtype


def promote(operands: tuple[Any, ...], to_float: bool) -> tuple[Any, ...]:
    """Return `operands` with the arrays cast to their common dtype.

    Python numbers stay Python numbers, made to fit that dtype (`fit_number`); None stays None.
    With `to_float`, bools and integers become the default float dtype.
    """
    key = _key(operands)
    plan = _plans.get((to_float, key))
    if plan is None:
        plan = _plans[to_float, key] = _plan(key[1:], to_float)
    return tuple([o if f is None else f(o) for o, f in zip(operands, plan)])


def promote_checked(operands: tuple[Any, ...], to_float: bool) -> tuple[Any, ...]:
    """Like `promote`, but raise for a number that the common integer dtype cannot hold."""
    target = result_type(*operands)
    if target.category == INTEGER:
        for operand in operands:
            if isinstance(operand, NUMBERS):
                check_integer(operand, target)
    return promote(operands, to_float)


def promote_wide(operands: tuple[Any, ...], to_float: bool) -> tuple[Any, ...]:
    """Like `promote`, but numbers and 0-d tensors next to float16 and bfloat16 become float32.

    Kernels compute halves in float32, so a factor of 1e6 counts as it is, and does not overflow.
    """
    key = _key(operands)
    plan = _plans.get(("wide", to_float, key))
    if plan is None:
        target, actions = _resolve(key[1:]), _plan(key[1:], to_float)
        if target in dtypes.HALVES and any(_has_dims(part) for part in key[1:]):
            actions = tuple(_in_float32(p, a) for p, a in zip(key[1:], actions, strict=True))
        plan = _plans["wide", to_float, key] = actions
    return tuple([o if f is None else f(o) for o, f in zip(operands, plan)])


def _has_dims(part: _Part) -> bool:
    return isinstance(part, np.dtype)


def _in_float32(part: _Part, action: _Action | None) -> _Action | None:
    """The conversion of one operand by `promote_wide`, given that of `promote`, next to halves."""
    if part is None or _has_dims(part):
        return action
    if isinstance(part, type):
        return partial(fit_number, dtype=dtypes.float32)
    return partial(cast, dtype=dtypes.float32)


def promote_powers(operands: tuple[Any, ...], to_float: bool) -> tuple[Any, ...]:
    """Like `promote_checked`, for powers: raise for an integer to a negative power."""
    target = result_type(*operands)
    if target.category == INTEGER and isinstance(operands[-1], int) and operands[-1] < 0:
        raise ValueRangeError(
            f"pow({target} tensor, {operands[-1]}): integers have no negative powers; "
            "use a floating point tensor or float_power."
        )
    return promote_checked(operands, to_float)


# Column `numbers`: how to treat a Python number that an integer dtype cannot hold, or one next to a
# half.
PROMOTIONS = {
    "wrap": promote,
    "checked": promote_checked,
    "powers": promote_powers,
    "wide": promote_wide,
}


def promotion_of(texts: Mapping[str, str]) -> Callable[[tuple[Any, ...], bool], tuple[Any, ...]]:
    """The function that brings the operands of a row with these columns to one dtype."""
    return PROMOTIONS[texts.get("numbers", "wrap")]


def check_integer(value: Any, dtype: DType) -> None:
    """Raise unless `value` fits an integer dtype; -1 may stand for the largest unsigned number."""
    low, high = _RANGES[dtype]
    if isinstance(value, np.bool_):
        value = bool(value)  # NumPy's bool compares with no number beyond 64 bits
    lowest = -high if low == 0 and isinstance(value, int) else low
    if not lowest <= value <= high:
        raise NumberRangeError(
            f"the number {value} does not fit {dtype}; convert the tensor first."
        )


def _plan(parts: tuple[_Part, ...], to_float: bool) -> tuple[_Action | None, ...]:
    """Return the conversion that `promote` applies to each operand; None where it keeps it."""
    target = _resolve(parts)
    if to_float and target.category < FLOAT:
        target = DEFAULT.dtype
    return tuple(_action(part, target) for part in parts)


def _action(part: _Part, target: DType) -> _Action | None:
    if part is None:
        return None
    if isinstance(part, type):
        return partial(fit_number, dtype=target)
    source = dtypes.of(np.dtype(part[0] if isinstance(part, tuple) else part))
    if source is target:
        return None
    if source.category < FLOAT and target.itemsize > 2:
        return partial(converted, dtype=target.np)  # cannot overflow: a plain conversion
    return partial(cast, dtype=target)


def cast(array: Any, dtype: DType) -> Any:
    """Return a copy of `array` as `dtype`, like `Tensor.to`.

    Silently, complex numbers lose their imaginary part, and an out-of-range value becomes infinite
    or is unspecified.
    """
    if array.size >= _LARGE:
        return converted(parts_for(array, dtype.np), dtype.np)
    with np.errstate(all="ignore"):
        return parts_for(array, dtype.np).astype(dtype.np)


# Large arrays are converted on all cores: c_kernels/conversions.py registers itself here.
large: Any = None
_LARGE = 1 << 14  # elements


def converted(array: Any, dtype: np.dtype[Any]) -> Any:
    """Return `array.astype(dtype)`."""
    if array.size < _LARGE or large is None:
        return array.astype(dtype)
    return large.astype(array, dtype)


def parts_for(array: Any, dtype: np.dtype[Any]) -> Any:
    """Return the part of `array` that `dtype` can hold: a real dtype takes the real part of complex
    numbers.

    bool_ takes both parts: i is True.
    """
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        return array.real
    return array


def python_number(value: Any) -> Any:
    """Return a NumPy scalar as a Python number; longdouble, which NumPy keeps, as a float."""
    number = value.item()
    if isinstance(number, np.generic):
        return complex(number) if number.dtype.kind == "c" else float(number)
    return number


def fit_number(value: Any, dtype: DType) -> Any:
    """Return the Python number `value` so that NumPy combines it with arrays of `dtype` quietly.

    The result is an element of `dtype`; for float32 NumPy does the rounding. An integer wraps
    around in an integer dtype, and a float beyond the largest one is infinite, as in PyTorch. With
    bfloat16, to which NumPy's rules for Python numbers do not extend, the result is a bfloat16
    scalar.

    >>> fit_number(300, dtypes.uint8), fit_number(1e60, dtypes.float32), fit_number(2, dtypes.bool_)
    (44, inf, True)
    """
    category = dtype.category
    if category == FLOAT:
        number = _as_float(value.real if isinstance(value, complex) else value)
        limit = _LIMITS[dtype]
        if not -limit < number < limit and number == number:
            number = math.inf if number > 0 else -math.inf
        if dtype is dtypes.bfloat16:
            return _BFLOAT16(number)
        return float(np.float16(number)) if dtype is dtypes.float16 else number
    if category == INTEGER:
        return _fit_integer(int(value), dtype)
    if category == BOOL:
        return bool(value)
    return value if isinstance(value, complex) else _as_float(value)


def element(value: Any, dtype: DType) -> Any:
    """Return a Python number rounded to an element of `dtype`, as a Python number.

    Constants in C, numbers of native loops and 0-d tensors get their value here.

    >>> element(0.1, dtypes.float32), element(-1, dtypes.uint16), element(1e6, dtypes.float16)
    (0.10000000149011612, 65535, inf)
    """
    number = fit_number(value, dtype)
    if dtype is dtypes.float32:
        with np.errstate(all="ignore"):
            return float(np.float32(number))
    if dtype.category == COMPLEX:
        part, whole = dtype.to_real(), complex(number)
        return complex(element(whole.real, part), element(whole.imag, part))
    return float(number) if dtype.category == FLOAT else number


def _as_float(value: Any) -> float:
    """A real number as float64; an integer beyond all floats raises, as in Python."""
    try:
        return float(value)
    except OverflowError:
        raise NumberRangeError(
            f"a whole number of {value.bit_length()} bits fits no dtype; write it as a float"
        ) from None


def _fit_integer(value: int, dtype: DType) -> int:
    low, high = _RANGES[dtype]
    if low <= value <= high:
        return value
    if not -(2**63) <= value < 2**64:
        raise NumberRangeError(f"the number {value} does not fit 64 bits; write it as a float")
    return ((value - low) & (high - low)) + low  # high - low has all bits set


_RANGES: dict[DType, tuple[int, int]] = {
    d: (int(np.iinfo(d.np).min), int(np.iinfo(d.np).max))
    for d in dtypes.ALL
    if d.category == INTEGER
}


def _limit(dtype: DType) -> float:
    """The least number that rounds to infinity: 65520 in float16."""
    largest, eps = float(dtypes.finfo(dtype).max), float(dtypes.finfo(dtype).eps)
    return largest + eps / 2 * (largest / (2 - eps))


_LIMITS: dict[DType, float] = {d: _limit(d) for d in dtypes.ALL if d.category == FLOAT}


def can_cast(source: DType, target: DType) -> bool:
    """Return whether a result of dtype `source` may be written to a tensor of dtype `target`.

    Only a lower category forbids it, as `torch.can_cast`: int64 to int8 is allowed.

    >>> import adjoint as ad
    >>> ad.can_cast(ad.float64, ad.float32), ad.can_cast(ad.float32, ad.int64)
    (True, False)
    """
    if source.category == COMPLEX and target.category != COMPLEX:
        return False
    if source.category == FLOAT and target.category < FLOAT:
        return False
    return target.category != BOOL or source.category == BOOL


def check_inplace_cast(what: str, source: DType, target: DType) -> None:
    """Raise DtypeError in the name of `what` unless `can_cast(source, target)`."""
    if not can_cast(source, target):
        raise DtypeError(
            f"{what}: the result type {source} can't be cast to {target}, the dtype of the tensor "
            f"it is written to; use the operator that returns a new tensor, or convert with "
            f".to({source}) first"
        )
