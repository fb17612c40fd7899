"""Shape rules of the functions that draw random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.checks import creation
from adjoint.core import dtypes
from adjoint.core.dtypes import DEFAULT
from adjoint.core.shapes import Spec


def sized(size: Sequence[int], *options: Any) -> Spec:
    """A tensor of a size; after it come a generator, if there is one, and the options."""
    *_, dtype, _layout, _device, _pin_memory = options
    result = creation.chosen(dtype, DEFAULT.dtype)
    creation.require_float("size", result, complex_too=True)
    return Spec(creation.checked_size("size", size, result), result)


def like(self: Spec, *options: Any) -> Spec:
    """A tensor like another; after it come bounds and a generator, as far as there are any, and the
    options.
    """
    *_, dtype, _layout, _device, _pin_memory, _memory_format = options
    return Spec(self.shape, creation.chosen(dtype, self.dtype))


def randint(high: int, size: Sequence[int], *options: Any) -> Spec:
    return randint_low(0, high, size, *options)


def randint_low(low: int, high: int, size: Sequence[int], *options: Any) -> Spec:
    *_, dtype, _layout, _device, _pin_memory = options
    result = creation.chosen(dtype, dtypes.int64)
    creation.check_random_bounds("randint", low, high, result)
    return Spec(creation.checked_size("randint", size, result), result)


def randperm(n: int, *options: Any) -> Spec:
    *_, dtype, _layout, _device, _pin_memory = options
    result = creation.chosen(dtype, dtypes.int64)
    return Spec(creation.checked_size("randperm", (n,), result), result)


def normal_float_float(mean: float, std: float, size: Sequence[int], *options: Any) -> Spec:
    return sized(size, *options)


def normal_of(mean: Any, std: Any, generator: Any) -> Spec:
    return creation.normal_of(mean, std)


def binomial(count: Spec, prob: Spec, generator: Any) -> Spec:
    return creation.binomial(count, prob)


def multinomial(self: Spec, num_samples: int, replacement: bool, *_: Any) -> Spec:
    creation.check_multinomial(self.shape, self.dtype, num_samples, replacement)
    return Spec((*self.shape[:-1], num_samples), dtypes.int64)
