"""The three maps of a convolution, by C code that is compiled once for each machine.

`convolve`, `spread` and `correlate` (convolution.c says what they are) take arrays of float32 or
float64 with any strides, in one to three spatial dimensions. Where there is no C compiler, or
ADJOINT_NATIVE=0 forbids it, `function` returns None, and the caller multiplies matrices.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.checks.convolution import Geometry
from adjoint.core.shapes import Shape
from adjoint.native import build, discovery

Array = np.ndarray[Any, Any]
MOST = 3  # spatial dimensions

_TYPES = {"float32": "float", "float64": "double"}
_SPLIT = "/* What follows is written once for each REAL: float, double. */\n"


@lru_cache(maxsize=2)
def source(dtype: str) -> str:
    """The C text for arrays of a dtype."""
    path = os.path.join(os.path.dirname(__file__), "convolution.c")
    with open(path, encoding="utf-8") as file:
        head, body = file.read().split(_SPLIT)
    return head + body.replace("REAL", _TYPES[dtype])


def function(name: str, dtype: Any, dimensions: int) -> Any:
    """The C function of a map for arrays of a dtype; None where there is none."""
    kind = np.dtype(dtype).name
    return _function(name, kind) if kind in _TYPES and dimensions <= MOST else None


@lru_cache(maxsize=8)
def _function(name: str, dtype: str) -> Any:
    if os.environ.get("ADJOINT_NATIVE") == "0" or discovery.toolchain() is None:
        return None
    try:
        found = getattr(build.library(source(dtype)), f"{name}_{_TYPES[dtype]}")
    except build.BuildError as error:
        warnings.warn(f"convolutions are computed without native code: {error}", stacklevel=2)
        return None
    found.restype = ctypes.c_int
    return found


def numbers(sizes: Geometry, large: Sequence[int], small: Sequence[int]) -> list[int]:
    """The fields of the C structure `Geometry`; the steps of both images are in elements."""
    channels = sizes.large[1] // sizes.groups, sizes.small[1] // sizes.groups
    found = [sizes.large[0], sizes.groups, *channels]
    for size in (sizes.large[2:], sizes.small[2:], sizes.kernel, sizes.stride):
        found += _three(size, 1)
    found += [*_three(sizes.padding, 0), *_three(sizes.dilation, 1)]
    return [*found, *_five(large), *_five(small)]


def _three(values: Sequence[int], missing: int) -> list[int]:
    return [missing] * (MOST - len(values)) + list(values)


def _five(steps: Sequence[int]) -> list[int]:
    return [*steps[:2], *_three(steps[2:], 0)]


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
    result, given = np.empty(shape, given.dtype), _aligned(given)
    large, small = (result, given) if into_large else (given, result)
    weight = np.require(weight, requirements=["C", "A"])
    bias = None if bias is None else np.require(bias, requirements=["C", "A"])
    _call(run, sizes, large, small, (given, weight, bias, result))
    return result


def correlate(large: Array, small: Array, sizes: Geometry) -> Array | None:
    """`weight`; None where there is no native code."""
    run = function("correlate", large.dtype, large.ndim - 2)
    if run is None:
        return None
    weight, large, small = np.empty(sizes.weight, large.dtype), _aligned(large), _aligned(small)
    _call(run, sizes, large, small, (large, small, weight))
    return weight


def _call(
    run: Any, sizes: Geometry, large: Array, small: Array, arrays: Sequence[Array | None]
) -> None:
    """Call a C function; empty arrays need no arithmetic."""
    result = arrays[-1]
    assert result is not None
    if not large.size or not small.size:
        result[...] = 0
        bias = arrays[2] if len(arrays) == 4 else None
        if bias is not None:
            result += bias.reshape((-1, *(1,) * (result.ndim - 2)))
        return
    fields = numbers(sizes, _steps(large), _steps(small))
    block = (ctypes.c_long * len(fields))(*fields)
    addresses = [None if a is None else ctypes.c_void_p(a.ctypes.data) for a in arrays]
    if run(block, *addresses):
        raise MemoryError("there is no memory for a convolution's copies of its images")


def _aligned(array: Array) -> Array:
    """The array, or a copy of one whose elements lie between the addresses of its type."""
    return array if array.flags.aligned else array.copy()


def _steps(array: Array) -> list[int]:
    return [stride // array.itemsize for stride in array.strides]
