"""Kernels that make tensors from nothing: constants, ranges, index triangles, windows.

Arguments come in the order of the schema. `layout`, `device`, `pin_memory` and `memory_format`
(here `*_`) were checked by the dispatcher. Inference of dtypes and sizes is in core/creation.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from adjoint.c_kernels import copies, counting
from adjoint.checks import creation
from adjoint.checks.shape import inverse, memory_order, own_format
from adjoint.core import dtypes
from adjoint.core.dtypes import DEFAULT, INTEGER, DType
from adjoint.core.errors import ShapeError
from adjoint.core.layouts import CONTIGUOUS, format_number
from adjoint.core.promotion import fit_number
from adjoint.core.storage import order_of

Array = np.ndarray[Any, Any]


def _allocate(what: str, make: Any, size: Sequence[int], dtype: DType) -> Array:
    """Return `make(size, dtype)`; the size is examined only when NumPy refuses it."""
    try:
        return make(size, dtype.np)
    except (MemoryError, ValueError):
        creation.checked_size(what, size, dtype)
        raise creation.out_of_memory(what, size, dtype) from None


# --- constants --------------------------------------------------------------------------------


def empty(size: Sequence[int], dtype: DType | None, *rest: Any) -> Array:
    result = creation.chosen(dtype, DEFAULT.dtype)
    order = memory_order("empty", _own_format("empty", rest), tuple(size))
    if order is None:
        return _allocate("empty", np.empty, size, result)
    stored = _allocate("empty", np.empty, [size[d] for d in order], result)
    return stored.transpose(inverse(order))


def _own_format(what: str, rest: Sequence[Any]) -> int:
    """The memory format of a tensor made from nothing, the last argument."""
    return CONTIGUOUS if not rest or rest[-1] is None else own_format(what, rest[-1])


def zeros(size: Sequence[int], dtype: DType | None, *_: Any) -> Array:
    return _allocate("zeros", copies.zeros, size, creation.chosen(dtype, DEFAULT.dtype))


def ones(size: Sequence[int], dtype: DType | None, *_: Any) -> Array:
    return _allocate("ones", copies.ones, size, creation.chosen(dtype, DEFAULT.dtype))


def full(size: Sequence[int], fill_value: Any, dtype: DType | None, *_: Any) -> Array:
    result = creation.chosen(dtype, creation.number_dtype(fill_value))
    return _filled("full", _allocate("full", np.empty, size, result), fill_value, result)


def _filled(what: str, array: Array, value: Any, dtype: DType) -> Array:
    """Fill `array`, just made, with `value`."""
    creation.check_value(what, value, dtype)
    fitting: Any = value
    if dtype is dtypes.bool_:
        fitting = bool(value)
    elif dtype.category == INTEGER and not isinstance(value, int):
        fitting = int(value.real)
    elif isinstance(value, complex) and not dtype.is_complex:
        fitting = value.real
    number = fit_number(fitting, dtype) if dtype.category == INTEGER else fitting
    copies.write(array, np.asarray(number, array.dtype))
    return array


def empty_like(self: Array, dtype: DType | None, *rest: Any) -> Array:
    return _like("empty_like", np.empty_like, self, dtype, rest)


def zeros_like(self: Array, dtype: DType | None, *rest: Any) -> Array:
    return _like("zeros_like", copies.zeros_like, self, dtype, rest)


def ones_like(self: Array, dtype: DType | None, *rest: Any) -> Array:
    return _like("ones_like", copies.ones_like, self, dtype, rest)


def _like(what: str, make: Any, self: Array, dtype: DType | None, rest: Sequence[Any]) -> Array:
    """Return `make` of an array; `rest` ends with the memory format."""
    kind = None if dtype is None else dtype.np
    if not rest or rest[-1] is None:
        return make(self, kind, order_of(self), subok=False)
    number = format_number(what, rest[-1])
    order = memory_order(what, number, self.shape)
    if order is None:
        return make(self, kind, "C" if number == CONTIGUOUS else order_of(self), subok=False)
    return make(self.transpose(order), kind, "C", subok=False).transpose(inverse(order))


def full_like(self: Array, fill_value: Any, dtype: DType | None, *rest: Any) -> Array:
    array = _like("full_like", np.empty_like, self, dtype, rest)
    return _filled("full_like", array, fill_value, dtypes.of(array.dtype))


def _dtype_of(self: Array, dtype: DType | None) -> DType:
    return dtypes.of(self.dtype) if dtype is None else dtype


def new_empty(self: Array, size: Sequence[int], dtype: DType | None, *_: Any) -> Array:
    return _allocate("new_empty", np.empty, size, _dtype_of(self, dtype))


def new_zeros(self: Array, size: Sequence[int], dtype: DType | None, *_: Any) -> Array:
    return _allocate("new_zeros", copies.zeros, size, _dtype_of(self, dtype))


def new_ones(self: Array, size: Sequence[int], dtype: DType | None, *_: Any) -> Array:
    return _allocate("new_ones", copies.ones, size, _dtype_of(self, dtype))


def new_full(self: Array, size: Sequence[int], value: Any, dtype: DType | None, *_: Any) -> Array:
    result = _dtype_of(self, dtype)
    return _filled("new_full", _allocate("new_full", np.empty, size, result), value, result)


def scalar_tensor(s: Any, dtype: DType | None, *_: Any) -> Array:
    result = creation.chosen(dtype, DEFAULT.dtype)
    return _filled("scalar_tensor", np.empty((), result.np), s, result)


def eye_m(n: int, m: int, dtype: DType | None, *_: Any) -> Array:
    result = _allocate("eye", copies.zeros, (n, m), creation.chosen(dtype, DEFAULT.dtype))
    diagonal = np.arange(min(n, m))
    result[diagonal, diagonal] = 1
    return result


def empty_strided(
    size: Sequence[int], stride: Sequence[int], dtype: DType | None, *_: Any
) -> Array:
    result = creation.chosen(dtype, DEFAULT.dtype)
    return _strided("empty_strided", size, stride, result)


def new_empty_strided(
    self: Array, size: Sequence[int], stride: Sequence[int], dtype: DType | None, *_: Any
) -> Array:
    return _strided("new_empty_strided", size, stride, _dtype_of(self, dtype))


def _strided(what: str, size: Sequence[int], stride: Sequence[int], dtype: DType) -> Array:
    size = creation.checked_size(what, size, dtype)
    if len(stride) != len(size) or any(s < 0 for s in stride):
        raise ShapeError(
            f"{what}: strides must be one number, at least 0, for each of the {len(size)} sizes, "
            f"got {tuple(stride)}."
        )
    last = sum((n - 1) * s for n, s in zip(size, stride)) if math.prod(size) else -1
    storage = _allocate(what, np.empty, (last + 1,), dtype)
    return as_strided(storage, size, [s * dtype.itemsize for s in stride])


def empty_permuted(
    size: Sequence[int], physical_layout: Sequence[int], dtype: DType | None, *_: Any
) -> Array:
    result = creation.chosen(dtype, DEFAULT.dtype)
    size = creation.checked_size("empty_permuted", size, result)
    order = list(physical_layout)
    if sorted(order) != list(range(len(size))):
        raise ShapeError(
            f"empty_permuted: physical_layout must name each of the {len(size)} dimensions once, "
            f"got {tuple(physical_layout)}."
        )
    stored = _allocate("empty_permuted", np.empty, [size[d] for d in order], result)
    return stored.transpose(np.argsort(order))


# --- ranges -----------------------------------------------------------------------------------


def arange_start_step(start: Any, end: Any, step: Any, dtype: DType | None, *_: Any) -> Array:
    result, count = creation.arange("arange", start, end, step, dtype)
    return _arithmetic_sequence("arange", start, step, count, result)


def range_step(start: Any, end: Any, step: Any, dtype: DType | None, *_: Any) -> Array:
    result, count = creation.inclusive_range("range", start, end, step, dtype)
    return _arithmetic_sequence("range", start, step, count, result)


def _arithmetic_sequence(what: str, start: Any, step: Any, count: int, dtype: DType) -> Array:
    """Return start + i·step for i < count, rounded once at the end."""
    if dtype.category == INTEGER:
        start, step = int(start), int(step)
    exact = isinstance(start, int) and isinstance(step, int)
    if count >= counting.LARGE and not dtype.is_complex:
        result = _allocate(what, np.empty, (count,), dtype)
        if (exact and counting.whole(result, start, step)) or (
            not exact and counting.even(result, start, start, step, count)
        ):
            return result
    index = _allocate(what, _count_up, (count,), dtypes.int64 if exact else dtypes.float64)
    values = index if start == 0 and step == 1 else start + index * step
    with np.errstate(over="ignore"):
        return values.astype(dtype.np, copy=False)


def _count_up(size: Sequence[int], dtype: np.dtype[Any]) -> Array:
    return np.arange(size[0], dtype=dtype)


def linspace(start: Any, end: Any, steps: int, dtype: DType | None, *_: Any) -> Array:
    result = creation.linspace_dtype("linspace", start, end, dtype)
    return _even("linspace", start, end, steps, result)


def logspace(start: Any, end: Any, steps: int, base: float, dtype: DType | None, *_: Any) -> Array:
    result = creation.linspace_dtype("logspace", start, end, dtype)
    inner = result if result.category > INTEGER else dtypes.float64
    if result.category == INTEGER:  # as PyTorch: the ends are cut to whole numbers first
        start, end = int(start), int(end)
    exponents = _even("logspace", start, end, steps, inner, round_once=True)
    with np.errstate(all="ignore"):
        return np.power(complex(base) if result.is_complex else base, exponents).astype(result.np)


def _even(
    what: str, start: Any, end: Any, steps: int, dtype: DType, *, round_once: bool = False
) -> Array:
    """Return `steps` numbers from `start` to `end`.

    The second half is counted down from `end`, so that both ends are exact and the numbers are
    symmetric.
    """
    creation.check_steps(what, steps)
    if dtype.category == INTEGER:
        start, end = (_whole(what, v, dtype) for v in (start, end))
    wide = dtypes.complex128 if dtype.is_complex else dtypes.float64
    step = (end - start) / (steps - 1) if steps > 1 else 0
    half = steps // 2
    if steps >= counting.LARGE and not round_once and not dtype.is_complex:
        result = _allocate(what, np.empty, (steps,), dtype)
        if counting.even(result, start, end, step, half):
            return result
    index = _allocate(what, _count_up, (steps,), dtypes.float64)
    values = np.empty(steps, wide.np)
    values[:half] = start + step * index[:half]
    values[half:] = end - step * index[: steps - half][::-1]
    if steps == 1:
        values[0] = start
    if round_once:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype.category == INTEGER:
            values = np.trunc(values).astype(np.int64)  # then wraps around as PyTorch
        return values.astype(dtype.np, copy=False)


def _whole(what: str, value: Any, dtype: DType) -> int:
    creation.check_value(what, value, dtype)
    return int(fit_number(value, dtype))  # as PyTorch: -1 is the largest unsigned number


# --- triangles of indices ---------------------------------------------------------------------


def tril_indices(row: int, col: int, offset: int, dtype: DType | None, *_: Any) -> Array:
    result, _count = creation.triangle_count("tril_indices", row, col, offset, dtype)
    return np.stack(np.nonzero(np.tri(row, col, offset, dtype=bool))).astype(result.np, copy=False)


def triu_indices(row: int, col: int, offset: int, dtype: DType | None, *_: Any) -> Array:
    result, _count = creation.triangle_count("triu_indices", row, col, offset - 1, dtype)
    above = ~np.tri(row, col, offset - 1, dtype=bool)
    return np.stack(np.nonzero(above)).astype(result.np, copy=False)


# --- windows ----------------------------------------------------------------------------------


def _phase(what: str, length: int, periodic: bool, dtype: Any) -> tuple[Array, DType]:
    """Return n/(N-1) for 0 ≤ n < length, N = length + 1 if periodic."""
    result = creation.window_spec(what, length, dtype).dtype
    last = length if periodic else length - 1
    index = _allocate(what, _count_up, (length,), dtypes.float64)
    return index / max(last, 1), result


def _cosines(phase: Array, length: int, *coefficients: float) -> Array:
    """Return Σₖ (-1)ᵏ aₖ cos(2πk·phase); a window of one element is 1."""
    if length == 1:
        return np.ones(1)
    return sum(
        (-1) ** k * a * np.cos(2 * math.pi * k * phase) for k, a in enumerate(coefficients)
    ) + np.zeros_like(phase)


def hann_window_periodic(length: int, periodic: bool, dtype: DType | None, *_: Any) -> Array:
    phase, result = _phase("hann_window", length, periodic, dtype)
    return _cosines(phase, length, 0.5, 0.5).astype(result.np)


def hamming_window_alpha_beta(
    length: int, periodic: bool, alpha: float, beta: float, dtype: DType | None, *_: Any
) -> Array:
    phase, result = _phase("hamming_window", length, periodic, dtype)
    return _cosines(phase, length, alpha, beta).astype(result.np)


def blackman_window_periodic(length: int, periodic: bool, dtype: DType | None, *_: Any) -> Array:
    phase, result = _phase("blackman_window", length, periodic, dtype)
    return _cosines(phase, length, 0.42, 0.5, 0.08).astype(result.np)


def bartlett_window_periodic(length: int, periodic: bool, dtype: DType | None, *_: Any) -> Array:
    phase, result = _phase("bartlett_window", length, periodic, dtype)
    values = 1 - np.abs(2 * phase - 1) if length != 1 else np.ones(1)
    return values.astype(result.np)


def kaiser_window_beta(
    length: int, periodic: bool, beta: float, dtype: DType | None, *_: Any
) -> Array:
    phase, result = _phase("kaiser_window", length, periodic, dtype)
    if length == 1:
        return np.ones(1, result.np)
    inside = np.sqrt(np.clip(1 - (2 * phase - 1) ** 2, 0, None))
    return (np.i0(beta * inside) / np.i0(beta)).astype(result.np)
