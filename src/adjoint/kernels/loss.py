"""Kernels of losses on arrays; float16 and bfloat16 are computed in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.checks import loss
from adjoint.core import dtypes
from adjoint.core.errors import IndexOutOfRange, ValueRangeError

Array = np.ndarray[Any, np.dtype[Any]]
LOWEST_LOG = -100.0  # binary_cross_entropy's logarithms end here, as in PyTorch


def _wide(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype in dtypes.REDUCED else array


# --- classes -------------------------------------------------------------------------------------


def _places(what: str, self: Array, target: Array, ignore_index: int) -> tuple[Array, Array]:
    """Which samples count, and their classes (0 for the others); raises for one out of range."""
    target = target.reshape(loss.without_classes(self.shape))
    kept = target != ignore_index
    places = np.where(kept, target, 0).astype(np.intp)
    count = self.shape[loss.class_dim(self.ndim)]
    wrong = kept & ((places < 0) | (places >= count))
    if wrong.any():
        raise IndexOutOfRange(
            f"{what}: the target has class {target[wrong].flat[0]}, and there are {count}: 0 to "
            f"{count - 1}, or ignore_index={ignore_index}."
        )
    return kept, places


def _weights(weight: Array | None, kept: Array, places: Array, dtype: np.dtype[Any]) -> Array:
    """The weight of each sample, 0 for those that are ignored."""
    if weight is None:
        return kept.astype(dtype)
    return np.where(kept, _wide(weight)[places] if weight.size else 0, 0).astype(dtype)


def nll_loss_forward(
    self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int
) -> tuple[Array, Array]:
    """-weight · x at the class of each sample, and the sum of the weights."""
    loss.check_reduction("nll_loss", reduction)
    loss.check_classes("nll_loss", self, target, weight)
    x, dim = _wide(self), loss.class_dim(self.ndim)
    kept, places = _places("nll_loss", self, target, ignore_index)
    weights = _weights(weight, kept, places, x.dtype)
    if self.shape[dim]:
        picked = np.take_along_axis(x, np.expand_dims(places, dim), dim).squeeze(dim)
    else:
        picked = np.zeros(places.shape, x.dtype)  # no classes, so that all are ignored
    with np.errstate(invalid="ignore"):
        losses = np.where(kept, -picked * weights, x.dtype.type(0))
        total = weights.sum()
        if reduction == loss.NONE and self.ndim > 1:
            total = np.zeros((), x.dtype)
        elif reduction == loss.MEAN:
            losses = losses.sum() / total
        else:
            losses = losses.sum()
    return np.asarray(losses, self.dtype), np.asarray(total, self.dtype)


def nll_loss_backward(
    grad_output: Array,
    self: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
    total_weight: Array,
) -> Array:
    """-weight · ḡ at the class of each sample, 0 elsewhere."""
    loss.check_reduction("nll_loss_backward", reduction)
    loss.check_classes("nll_loss_backward", self, target, weight)
    dim = loss.class_dim(self.ndim)
    kept, places = _places("nll_loss_backward", self, target, ignore_index)
    grad = _wide(grad_output)
    with np.errstate(invalid="ignore", divide="ignore"):
        if reduction == loss.MEAN:
            grad = grad / _wide(total_weight)
        values = np.where(kept, -grad * _weights(weight, kept, places, grad.dtype), 0)
    result = np.zeros(self.shape, self.dtype)
    if self.shape[dim]:
        values = np.expand_dims(values.astype(self.dtype), dim)
        np.put_along_axis(result, np.expand_dims(places, dim), values, dim)
    return result


# --- elements ------------------------------------------------------------------------------------


def binary_cross_entropy(self: Array, target: Array) -> Array:
    """-(t log p + (1 - t) log(1 - p)), the logarithms at least -100; p must be a probability."""
    if self.size and not ((self >= 0) & (self <= 1) | np.isnan(self)).all():
        raise ValueRangeError(
            "binary_cross_entropy: the input must lie between 0 and 1; apply sigmoid first, or use "
            "binary_cross_entropy_with_logits."
        )
    p, t = _wide(self), _wide(target)
    with np.errstate(divide="ignore"):
        log_p, log_q = np.maximum(np.log(p), LOWEST_LOG), np.maximum(np.log1p(-p), LOWEST_LOG)
    return (-(t * log_p + (1 - t) * log_q)).astype(self.dtype, copy=False)
