"""What functions that make tensors from nothing infer: sizes, dtypes, counts; kernels and shape
rules share it. Every function takes the user's call first, for messages, and raises for arguments
that make no sense. Inference is PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint.core import dtypes
from adjoint.core.dtypes import BOOL, COMPLEX, DEFAULT, FLOAT, INTEGER, DType
from adjoint.core.errors import DtypeError, NumberRangeError, ShapeError, ValueRangeError
from adjoint.core.promotion import NUMBERS, check_integer, fit_number
from adjoint.core.shapes import Shape, Spec, broadcast, show

MOST_BYTES = 2**63 - 1


def chosen(dtype: Any, default: DType) -> DType:
    """Return `dtype`, or `default` if it is None; names come from the defaults of schemas."""
    if dtype is None:
        return default
    return dtype if isinstance(dtype, DType) else dtypes.to_dtype(dtype)


def checked_size(what: str, size: Sequence[int], dtype: DType) -> Shape:
    """Return `size` as a tuple if a tensor of that size and dtype can exist at all."""
    size = tuple(size)
    for s in size:
        if s < 0:
            raise ShapeError(f"{what}: sizes must not be negative, got {size}.")
    if math.prod([s for s in size if s], start=dtype.itemsize) > MOST_BYTES:
        raise ValueRangeError(f"{what}: a tensor of size {size} is larger than any memory.")
    return size


def out_of_memory(what: str, size: Sequence[int], dtype: DType) -> ValueRangeError:
    """Return the error for a tensor that the machine has no room for."""
    size = tuple(size)
    need = math.prod(size) * dtype.itemsize
    return ValueRangeError(
        f"{what}: a tensor of size {size} and dtype {dtype} needs {need / 2**30:.1f} GiB, more "
        "than this machine can give."
    )


def number_dtype(value: Any) -> DType:
    """Return the dtype that PyTorch infers for a Python number."""
    if isinstance(value, bool):
        return dtypes.bool_
    if isinstance(value, int):
        return dtypes.int64
    return DEFAULT.complex_dtype if isinstance(value, complex) else DEFAULT.dtype


def check_value(what: str, value: Any, dtype: DType) -> None:
    """Raise unless the number `value` fits `dtype`; a fraction may be cut off, as in PyTorch.

    Symbolic sizes, and values that are no numbers, are not checked.
    """
    if dtype.category in (BOOL, COMPLEX) or type(value) not in NUMBERS:
        return
    if isinstance(value, complex):
        if value.imag:
            raise ValueRangeError(f"{what}: the complex number {value} does not fit {dtype}.")
        value = value.real
    if dtype.category == FLOAT:
        fits = value in (math.inf, -math.inf) or not math.isinf(fit_number(value, dtype))
    else:
        limits = dtypes.iinfo(dtype)
        lowest = -limits.max if not dtype.is_signed else limits.min  # -1 wraps to 255
        fits = lowest <= value <= limits.max
    if not fits:
        raise NumberRangeError(f"{what}: the number {value} does not fit {dtype}.")


def check_fill(dtype: DType, value: Any) -> None:
    """Raise if numbers of `dtype` are real, and `value`, a number or a tensor, is complex; or whole
    and too large for integers of `dtype`.

    Of tensors the dtype alone decides: a number that is an input of a graph has no value yet.
    """
    given = getattr(value, "dtype", None)
    is_complex = isinstance(value, complex) if given is None else given.is_complex
    if is_complex and dtype.category not in (BOOL, COMPLEX):
        raise DtypeError(f"fill: a complex value does not fit {dtype}; take its real part first.")
    if given is None and isinstance(value, (int, float)) and dtype.category == INTEGER:
        check_integer(value, dtype)


def require_float(what: str, dtype: DType, *, complex_too: bool = False) -> DType:
    """Return `dtype` if it is a floating point one (or a complex one, if that is allowed)."""
    if dtype.is_floating_point or (complex_too and dtype.is_complex):
        return dtype
    kinds = "a floating point or complex dtype" if complex_too else "a floating point dtype"
    raise DtypeError(f"{what}: needs {kinds}, got {dtype}; pass dtype={DEFAULT.dtype}.")


def normal_of(mean: Any, std: Any) -> Spec:
    """Normal numbers, one for each mean and deviation; either of them may be a number."""
    if isinstance(std, Spec):
        require_float("normal: std", std.dtype)
    given = [p for p in (mean, std) if isinstance(p, Spec)]
    dtype = require_float("normal", given[0].dtype, complex_too=True)
    return Spec(broadcast("normal", *(p.shape for p in given)), dtype)


def binomial(count: Spec, prob: Spec) -> Spec:
    """Numbers of heads, one for each count and probability, in the dtype of the counts."""
    for name, given in (("counts", count), ("probabilities", prob)):
        if not given.dtype.is_floating_point:
            raise ValueRangeError(
                f"binomial: {name} have a floating point dtype, got {given.dtype}; "
                "convert them with .float()."
            )
    return Spec(broadcast("binomial", count.shape, prob.shape), count.dtype)


def arange(what: str, start: Any, end: Any, step: Any, dtype: Any) -> tuple[DType, int]:
    """Return dtype and number of elements of start, start+step, ... < end."""
    values = (start, end, step)
    if any(isinstance(v, complex) for v in values):
        raise DtypeError(f"{what}: start, end and step must be real, got {values}.")
    whole = all(isinstance(v, int) for v in values)
    result = chosen(dtype, dtypes.int64 if whole else DEFAULT.dtype)
    if result.category in (BOOL, COMPLEX):
        raise DtypeError(f"{what}: makes no {result} tensors; convert the result instead.")
    if not all(math.isfinite(v) for v in values):
        raise ValueRangeError(f"{what}: start, end and step must be finite, got {values}.")
    if result is dtypes.int64:  # exact, and PyTorch cuts fractions off here first
        start, end, step = (int(v) for v in values)
    if step == 0:
        raise ValueRangeError(f"{what}: the step must not be zero.")
    if (end - start) * (1 if step > 0 else -1) < 0:
        raise ValueRangeError(
            f"{what}: steps of {step} from {start} never reach {end}; change the sign of the step."
        )
    if whole or result is dtypes.int64:
        return result, -((start - end) // step)
    return result, math.ceil((end - start) / step)


def inclusive_range(what: str, start: Any, end: Any, step: Any, dtype: Any) -> tuple[DType, int]:
    """Return dtype and number of elements of start, start+step, ... <= end."""
    result = chosen(dtype, DEFAULT.dtype)
    if result.category == INTEGER:
        start, end, step = int(start), int(end), int(step)
    arange(what, start, end, step, result)
    return result, math.floor((end - start) / step) + 1


def linspace_dtype(what: str, start: Any, end: Any, dtype: Any) -> DType:
    """Return the dtype of numbers from `start` to `end`: complex if one of them is."""
    is_complex = isinstance(start, complex) or isinstance(end, complex)
    result = chosen(dtype, DEFAULT.complex_dtype if is_complex else DEFAULT.dtype)
    if is_complex and not result.is_complex:
        raise DtypeError(f"{what}: complex ends do not fit {result}; pass a complex dtype.")
    if result.category == BOOL:
        raise DtypeError(f"{what}: makes no {result} tensors; convert the result instead.")
    return result


def check_steps(what: str, steps: int) -> int:
    """Return `steps` if it is a number of elements."""
    if steps < 0:
        raise ValueRangeError(f"{what}: the number of steps must not be negative, got {steps}.")
    return steps


def triangle_count(what: str, row: int, col: int, offset: int, dtype: Any) -> tuple[DType, int]:
    """Return dtype and number of elements on or below the diagonal `offset` of a row×col matrix."""
    result = chosen(dtype, dtypes.int64)
    if result not in (dtypes.int32, dtypes.int64):
        raise DtypeError(f"{what}: indices are int32 or int64, got dtype={result}.")
    if row < 0 or col < 0:
        raise ShapeError(f"{what}: row and col must not be negative, got {row} and {col}.")
    # Row i has the columns up to i + offset, at least none and at most all.
    first, full = (min(max(n, 0), row) for n in (-offset, col - offset - 1))
    growing = (full - first) * (first + full + 1 + 2 * offset) // 2  # rows from first to full
    return result, growing + (row - full) * col


def window_spec(what: str, length: int, dtype: Any) -> Spec:
    """Return the type of a window of `length` elements."""
    result = require_float(what, chosen(dtype, DEFAULT.dtype))
    if length < 0:
        raise ValueRangeError(f"{what}: the window length must not be negative, got {length}.")
    return Spec((length,), result)


# The largest whole number up to which a float dtype holds all of them.
EXACT_UP_TO = {
    dtypes.float16: 2**11,
    dtypes.bfloat16: 2**8,
    dtypes.float32: 2**24,
    dtypes.float64: 2**53,
}


def check_random_bounds(what: str, low: int, high: int, dtype: DType) -> None:
    """Raise unless whole numbers low ≤ n < high exist and fit `dtype`."""
    if dtype.is_complex:
        raise DtypeError(f"{what}: draws real numbers, got {dtype}.")
    if low >= high:
        raise ValueRangeError(f"{what}: low must be less than high, got {low} and {high}.")
    lowest, highest = whole_limits(dtype)
    if low < lowest or high - 1 > highest:
        raise NumberRangeError(f"{what}: the range {low} to {high - 1} does not fit {dtype}.")


def whole_limits(dtype: DType) -> tuple[int, int]:
    """Return the smallest and the largest whole number of `dtype`."""
    if dtype.category == BOOL:
        return 0, 1
    if dtype.category == INTEGER:
        limits = dtypes.iinfo(dtype)
        return limits.min, limits.max
    largest = int(dtypes.finfo(dtype).max)
    return -largest, largest


def check_multinomial(shape: Shape, dtype: DType, count: int, replacement: bool) -> None:
    """Raise unless `count` samples can be drawn from probabilities of `shape` and `dtype`."""
    if not dtype.is_floating_point:
        raise DtypeError(f"multinomial: probabilities must be floating point, got {dtype}.")
    if len(shape) not in (1, 2):
        raise ShapeError(f"multinomial: probabilities are a vector or a matrix, got {show(shape)}.")
    if count <= 0:
        raise ValueRangeError(f"multinomial: num_samples must be positive, got {count}.")
    if shape[-1] == 0 or (not replacement and count > shape[-1]):
        raise ValueRangeError(
            f"multinomial: {count} samples of {shape[-1]} categories need replacement=True."
        )
