"""Sampling of images at places, in C (resampling.c): sums over taps, their transpose, and products;
and sums over taps along one dimension.

Indices (int32) and weights have the shape (taps, images · places); images are float32 or float64,
channels first. The functions return None if there is no native code, or no memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.core.shapes import Shape
from adjoint.loops.gate import SEVERAL as LARGE

Array = np.ndarray[Any, Any]


def sample(indices: Array, weights: Array, x: Array, places: Shape) -> Array | None:
    """The sums of weights times elements of x, at the places of each image."""
    return _images("sample", indices, weights, x, x.shape[2:], places, places)


def spread(indices: Array, weights: Array, grad: Array, sizes: Shape) -> Array | None:
    """The transpose of `sample`: weighted gradients of all places, added to images."""
    return _images("spread", indices, weights, grad, sizes, grad.shape[2:], sizes)


def products(indices: Array, x: Array, grad: Array) -> Array | None:
    """For each tap, the sum over channels of its element times the gradient of its place."""
    run = _function("products", indices, x)
    if run is None:
        return None
    result = np.empty(indices.shape, x.dtype)
    fields = _sizes(indices, x, x.shape[2:], grad.shape[2:])
    failed = loading.call(run, fields, indices, _packed(x), _packed(grad), result)
    return None if failed else result


def along(ends: Array, indices: Array, weights: Array, x: Array) -> Array | None:
    """Multiply a sparse matrix with every vector along the middle one of x's three dimensions. Row
    r has the entries ends[r] to ends[r + 1], with columns `indices`.
    """
    run = _function("along", indices, x) if x.size >= LARGE else None
    if run is None or weights.dtype != x.dtype or not x.flags.c_contiguous:
        return None
    outer, before, inner = x.shape
    result = np.empty((outer, len(ends) - 1, inner), x.dtype)
    sizes = loading.block([outer, before, len(ends) - 1, inner])
    loading.call(run, sizes, ends, indices, weights, loading.aligned(x), result)
    return result


def _images(
    name: str, indices: Array, weights: Array, given: Array, sizes: Shape, places: Shape,
    wanted: Shape,
) -> Array | None:  # fmt: skip
    run = _function(name, indices, given)
    if run is None or weights.dtype != given.dtype:
        return None
    result = np.empty((*given.shape[:2], *wanted), given.dtype)
    fields = _sizes(indices, given, sizes, places)
    failed = loading.call(run, fields, indices, _packed(weights), _packed(given), result)
    return None if failed else result


def _function(name: str, indices: Array, x: Array) -> Any:
    usual = indices.dtype == np.int32 and indices.flags.c_contiguous
    return loading.ready("resampling", name, x.dtype) if usual else None


def _sizes(indices: Array, x: Array, sizes: Shape, places: Shape) -> Any:
    count = (math.prod(sizes), math.prod(places))
    return loading.block([*x.shape[:2], *count, len(indices)])


def _packed(array: Array) -> Array:
    return loading.aligned(np.ascontiguousarray(array))
