"""Shape rules of the functions that make tensors: the types of their results without data.

The inference itself is in checks/creation.py, shared with the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.checks import creation
from adjoint.core.dtypes import DEFAULT, DType
from adjoint.core.shapes import Spec


def sized(size: Sequence[int], dtype: DType | None, *_: Any) -> Spec:
    result = creation.chosen(dtype, DEFAULT.dtype)
    return Spec(creation.checked_size("size", size, result), result)


def full(size: Sequence[int], fill_value: Any, dtype: DType | None, *_: Any) -> Spec:
    result = creation.chosen(dtype, creation.number_dtype(fill_value))
    creation.check_value("full", fill_value, result)
    return Spec(creation.checked_size("full", size, result), result)


def like(self: Spec, dtype: DType | None, *_: Any) -> Spec:
    return self if dtype is None else Spec(self.shape, dtype)


def new(self: Spec, size: Sequence[int], dtype: DType | None, *_: Any) -> Spec:
    result = creation.chosen(dtype, self.dtype)
    return Spec(creation.checked_size("size", size, result), result)


def new_full(
    self: Spec, size: Sequence[int], fill_value: Any, dtype: DType | None, *_: Any
) -> Spec:
    result = new(self, size, dtype)
    creation.check_value("new_full", fill_value, result.dtype)
    return result


def strided(size: Sequence[int], stride: Sequence[int], dtype: DType | None, *_: Any) -> Spec:
    return sized(size, dtype)


def new_strided(
    self: Spec, size: Sequence[int], stride: Sequence[int], dtype: DType | None, *_: Any
) -> Spec:
    return new(self, size, dtype)


def scalar(s: Any, dtype: DType | None, *_: Any) -> Spec:
    return Spec((), creation.chosen(dtype, DEFAULT.dtype))


def eye(n: int, dtype: DType | None, *_: Any) -> Spec:
    return sized((n, n), dtype)


def eye_m(n: int, m: int, dtype: DType | None, *_: Any) -> Spec:
    return sized((n, m), dtype)


def arange_start_step(start: Any, end: Any, step: Any, dtype: DType | None, *_: Any) -> Spec:
    result, count = creation.arange("arange", start, end, step, dtype)
    return Spec((count,), result)


def range_(start: Any, end: Any, dtype: DType | None, *_: Any) -> Spec:
    return range_step(start, end, 1, dtype)


def range_step(start: Any, end: Any, step: Any, dtype: DType | None, *_: Any) -> Spec:
    result, count = creation.inclusive_range("range", start, end, step, dtype)
    return Spec((count,), result)


def linspace(start: Any, end: Any, steps: int, dtype: DType | None, *_: Any) -> Spec:
    result = creation.linspace_dtype("linspace", start, end, dtype)
    return Spec((creation.check_steps("linspace", steps),), result)


def logspace(start: Any, end: Any, steps: int, base: float, dtype: DType | None, *_: Any) -> Spec:
    result = creation.linspace_dtype("logspace", start, end, dtype)
    return Spec((creation.check_steps("logspace", steps),), result)


def tril_indices(row: int, col: int, offset: int, dtype: DType | None, *_: Any) -> Spec:
    result, count = creation.triangle_count("tril_indices", row, col, offset, dtype)
    return Spec((2, count), result)


def triu_indices(row: int, col: int, offset: int, dtype: DType | None, *_: Any) -> Spec:
    result, below = creation.triangle_count("triu_indices", row, col, offset - 1, dtype)
    return Spec((2, row * col - below), result)


def window(window_length: int, *parameters: Any) -> Spec:
    *_, dtype, _layout, _device, _pin_memory = parameters
    return creation.window_spec("window", window_length, dtype)
