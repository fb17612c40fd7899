"""Views of windows, with the signature of NumPy's `lib.stride_tricks`."""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import ArgumentError
from adjoint.doors.numpy.words import dims_of
from adjoint.tensor.tensor import Tensor


def sliding_window_view(x: Tensor, window_shape: Any, axis: Any) -> Tensor:
    """All windows of a size along dimensions, which come last."""
    sizes = window_shape if isinstance(window_shape, tuple) else (window_shape,)
    named = axis if isinstance(axis, tuple) else (axis,)  # one dimension may be named twice
    dims = dims_of(None, x.ndim) if axis is None else [dims_of(d, x.ndim)[0] for d in named]
    if len(sizes) != len(dims):
        raise ArgumentError(
            f"sliding_window_view: window_shape={window_shape} has {len(sizes)} sizes, and there "
            f"are {len(dims)} dimensions; say which with axis="
        )
    for d, size in zip(dims, sizes, strict=True):
        x = x.unfold(d, size, 1)
    return x
