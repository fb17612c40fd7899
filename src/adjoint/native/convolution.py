"""The three maps of a convolution, by C code (convolution.c says what they are).

They take arrays of float32 or float64 with any strides, in one to three spatial dimensions, and
return None where there is no native code: the caller multiplies matrices then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.checks.convolution import Geometry
from adjoint.core.shapes import Shape
from adjoint.native import windows

Array = np.ndarray[Any, Any]


def function(name: str, dtype: Any, dimensions: int) -> Any:
    """The C function of a map for arrays of a dtype; None where there is none."""
    return windows.function("convolution", name, dtype, dimensions)


def numbers(sizes: Geometry, large: Sequence[int], small: Sequence[int]) -> list[int]:
    """The fields of the C structure; the steps of both images are in elements."""
    channels = sizes.large[1] // sizes.groups, sizes.small[1] // sizes.groups
    return windows.geometry(
        sizes.large[0], sizes.groups, channels, sizes.large[2:], sizes.small[2:], sizes.kernel,
        sizes.stride, sizes.padding, sizes.dilation, large, small,
    )  # fmt: skip


def convolve(large: Array, weight: Array, bias: Array | None, sizes: Geometry) -> Array | None:
    """`small`, with the bias of each channel added; None where there is no native code."""
    run = function("convolve", large.dtype, large.ndim - 2)
    return run and _image(run, large, weight, bias, sizes, sizes.small, into_large=False)


def spread(small: Array, weight: Array, bias: Array | None, sizes: Geometry) -> Array | None:
    """`large`, with the bias of each channel added; None where there is no native code."""
    run = function("spread", small.dtype, small.ndim - 2)
    return run and _image(run, small, weight, bias, sizes, sizes.large, into_large=True)


def _image(
    run: Any,
    given: Array,
    weight: Array,
    bias: Array | None,
    sizes: Geometry,
    shape: Shape,
    *,
    into_large: bool,
) -> Array:
    result, given = np.empty(shape, given.dtype), windows.aligned(given)
    weight = np.require(weight, requirements=["C", "A"])
    bias = None if bias is None else np.require(bias, requirements=["C", "A"])
    if not given.size or not weight.size:
        result[...] = 0 if bias is None else bias.reshape((-1, *(1,) * (result.ndim - 2)))
    elif result.size:
        large, small = (result, given) if into_large else (given, result)
        _call(run, sizes, large, small, given, weight, bias, result)
    return result


def correlate(large: Array, small: Array, sizes: Geometry) -> Array | None:
    """`weight`; None where there is no native code."""
    run = function("correlate", large.dtype, large.ndim - 2)
    if run is None:
        return None
    large, small = windows.aligned(large), windows.aligned(small)
    if not large.size or not small.size:
        return np.zeros(sizes.weight, large.dtype)
    weight = np.empty(sizes.weight, large.dtype)
    if weight.size:
        _call(run, sizes, large, small, large, small, weight)
    return weight


def _call(run: Any, sizes: Geometry, large: Array, small: Array, *arrays: Array | None) -> None:
    fields = numbers(sizes, windows.steps(large), windows.steps(small))
    if windows.call(run, fields, *arrays):
        raise MemoryError("there is no memory for a convolution's copies of its images")
