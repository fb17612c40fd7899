"""Shape rules of the functions that draw random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.checks import creation
from adjoint.core import dtypes
from adjoint.core.dtypes import DEFAULT, DType
from adjoint.core.shapes import Spec


def same(self: Spec, *_: Any) -> Spec:
    return self


def sized(size: Sequence[int], dtype: DType | None, *_: Any) -> Spec:
    result = creation.chosen(dtype, DEFAULT.dtype)
    creation.require_float("size", result, complex_too=True)
    return Spec(creation.checked_size("size", size, result), result)


def sized_generator(size: Sequence[int], generator: Any, dtype: DType | None, *_: Any) -> Spec:
    return sized(size, dtype)


def like(self: Spec, dtype: DType | None, *_: Any) -> Spec:
    return Spec(self.shape, creation.chosen(dtype, self.dtype))


def like_generator(self: Spec, generator: Any, dtype: DType | None, *_: Any) -> Spec:
    return like(self, dtype)


def _whole(what: str, low: int, high: int, size: Sequence[int], dtype: Any) -> Spec:
    result = creation.chosen(dtype, dtypes.int64)
    creation.check_random_bounds(what, low, high, result)
    return Spec(creation.checked_size(what, size, result), result)


def randint(high: int, size: Sequence[int], dtype: Any, *_: Any) -> Spec:
    return _whole("randint", 0, high, size, dtype)


def randint_generator(high: int, size: Sequence[int], generator: Any, dtype: Any, *_: Any) -> Spec:
    return _whole("randint", 0, high, size, dtype)


def randint_low(low: int, high: int, size: Sequence[int], dtype: Any, *_: Any) -> Spec:
    return _whole("randint", low, high, size, dtype)


def randint_low_generator(
    low: int, high: int, size: Sequence[int], generator: Any, dtype: Any, *_: Any
) -> Spec:
    return _whole("randint", low, high, size, dtype)


def randint_like(self: Spec, high: Any, dtype: DType | None, *_: Any) -> Spec:
    return like(self, dtype)


def randint_like_generator(
    self: Spec, high: Any, generator: Any, dtype: DType | None, *_: Any
) -> Spec:
    return like(self, dtype)


def randint_like_low(self: Spec, low: int, high: int, dtype: DType | None, *_: Any) -> Spec:
    return like(self, dtype)


def randint_like_low_generator(
    self: Spec, low: int, high: int, generator: Any, dtype: DType | None, *_: Any
) -> Spec:
    return like(self, dtype)


def randperm(n: int, dtype: Any, *_: Any) -> Spec:
    result = creation.chosen(dtype, dtypes.int64)
    return Spec(creation.checked_size("randperm", (n,), result), result)


def randperm_generator(n: int, generator: Any, dtype: Any, *_: Any) -> Spec:
    return randperm(n, dtype)


def normal_float_float(
    mean: float, std: float, size: Sequence[int], generator: Any, dtype: DType | None, *_: Any
) -> Spec:
    return sized(size, dtype)


def normal_of(mean: Any, std: Any, generator: Any) -> Spec:
    return creation.normal_of(mean, std)


def binomial(count: Spec, prob: Spec, generator: Any) -> Spec:
    return creation.binomial(count, prob)


def multinomial(self: Spec, num_samples: int, replacement: bool, *_: Any) -> Spec:
    creation.check_multinomial(self.shape, self.dtype, num_samples, replacement)
    return Spec((*self.shape[:-1], num_samples), dtypes.int64)
