"""Bringing a gradient to the shape and dtype of the value it belongs to.

Broadcasting is undone by summing, a complex gradient of a real value keeps its real part. Formulas
never do this; the engine does it for every gradient that it passes on.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.c_kernels.reduction import summed
from adjoint.core.dtypes import of
from adjoint.core.errors import ShapeError
from adjoint.core.promotion import converted
from adjoint.core.shapes import Shape, show
from adjoint.tape.diagnostics import context
from adjoint.tensor.nodes import Leaf

ndarray = np.ndarray


def fit_value(grad: Any, shape: tuple[int, ...], dtype: Any, target: Any) -> Any:
    """Bring a gradient, array or tensor, to a shape and dtype; `target` is named in errors."""
    if type(grad) is ndarray:
        if grad.shape != shape:
            axes = _axes(grad.shape, shape)
            if axes is None:
                raise ShapeError(
                    f"backward made a gradient of shape {show(grad.shape)} for a value of shape "
                    f"{show(shape)} ({context(target)})"
                )
            grad = summed(grad, axes, shape)
        if grad.dtype is not dtype and grad.dtype != dtype:
            grad = _cast(grad, dtype)
        return grad
    if isinstance(grad, np.generic):
        return fit_value(np.asarray(grad), shape, dtype, target)
    if type(target) is not Leaf:  # leaves alone get sparse gradients
        grad = dense(grad)
    return fit_tensor(grad, shape, dtype)


def dense(grad: Any) -> Any:
    """A gradient as an ordinary tensor: a sparse one made dense. Arrays and None pass."""
    home = getattr(grad, "home", None)
    return grad if home is None else home.plain_gradient(grad)


def fit_like(grad: Any, like: Any) -> Any:
    """Bring a gradient tensor to the shape and dtype of a tensor."""
    return fit_tensor(grad, like.shape, like.value.dtype)


def fit_tensor(grad: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Like `fit_value`, for tensors, by operators that can be differentiated."""
    if tuple(grad.shape) != tuple(shape):
        grad = grad.sum_to_size(shape)
    wanted = dtype if hasattr(dtype, "is_complex") else of(dtype)
    if grad.dtype is not wanted:
        grad = grad.real if grad.is_complex() and not wanted.is_complex else grad
        grad = grad.to(wanted)
    return grad


@lru_cache(maxsize=1024)
def _axes(given: Shape, shape: Shape) -> Shape | None:
    """The dimensions along which a value was broadcast; None if it was not broadcast."""
    extra = len(given) - len(shape)
    if extra < 0 or any(s not in (1, g) for s, g in zip(shape, given[extra:], strict=True)):
        return None
    return (*range(extra), *(i + extra for i, s in enumerate(shape) if s != given[i + extra]))


def _cast(grad: Any, dtype: Any) -> Any:
    if grad.dtype.kind == "c" and dtype.kind != "c":
        grad = grad.real
    return converted(grad, dtype)
