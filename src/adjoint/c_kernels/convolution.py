"""The three maps of a convolution, which convolution.c defines, in C.

They take arrays of float32 or float64 with any strides, in one to three spatial dimensions, and
return False if there is no native code: the caller then multiplies matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.c_kernels.copies import contiguous
from adjoint.checks.convolution import Geometry

Array = np.ndarray[Any, Any]


def numbers(sizes: Geometry, large: Sequence[int], small: Sequence[int]) -> list[int]:
    """The fields of the C structure; the steps of both images are in elements."""
    channels = sizes.large[1] // sizes.groups, sizes.small[1] // sizes.groups
    return loading.geometry(
        sizes.large[0], sizes.groups, channels, sizes.large[2:], sizes.small[2:], sizes.kernel,
        sizes.stride, sizes.padding, sizes.dilation, large, small,
    )  # fmt: skip


def convolve(
    large: Array, weight: Array, bias: Array | None, sizes: Geometry, small: Array
) -> bool:
    """Write `small`, with the bias of each channel; return whether there is native code."""
    run = loading.ready("convolution", "convolve", large.dtype, large.ndim - 2)
    if run is None:
        return False
    large = loading.aligned(large)
    _call(run, sizes, large, small, large, *_contiguous(weight, bias), small)
    return True


def spread(small: Array, weight: Array, bias: Array | None, sizes: Geometry, large: Array) -> bool:
    """Write `large`, with the bias of each channel; return whether there is native code."""
    run = loading.ready("convolution", "spread", small.dtype, small.ndim - 2)
    if run is None:
        return False
    small = loading.aligned(small)
    _call(run, sizes, large, small, small, *_contiguous(weight, bias), large)
    return True


def correlate(large: Array, small: Array, sizes: Geometry, weight: Array) -> bool:
    """Write `weight`; return whether there is native code for it."""
    run = loading.ready("convolution", "correlate", large.dtype, large.ndim - 2)
    if run is None:
        return False
    large, small = loading.aligned(large), loading.aligned(small)
    _call(run, sizes, large, small, large, small, weight)
    return True


def _contiguous(weight: Array, bias: Array | None) -> tuple[Array, Array | None]:
    return contiguous(weight), None if bias is None else contiguous(bias)


def _call(run: Any, sizes: Geometry, large: Array, small: Array, *arrays: Array | None) -> None:
    """Call a C function; if an image is empty, the result is the bias or 0."""
    if not large.size or not small.size:
        result, bias = arrays[-1], arrays[2] if len(arrays) == 4 else None
        assert result is not None
        result[...] = 0 if bias is None else bias.reshape((-1, *(1,) * (result.ndim - 2)))
        return
    fields = _block(sizes, large.strides, small.strides, large.itemsize)
    if loading.call(run, fields, *arrays):
        raise MemoryError("there is no memory for a convolution's copies of its images")


@lru_cache(maxsize=1024)
def _block(sizes: Geometry, large: Sequence[int], small: Sequence[int], itemsize: int) -> Any:
    """The C structure of a convolution of images with these strides."""
    steps = ([stride // itemsize for stride in strides] for strides in (large, small))
    return loading.block(numbers(sizes, *steps))


def is_there() -> bool:
    """Whether there is native code for convolutions."""
    return loading.function("convolution", "convolve", np.float32, 2) is not None
