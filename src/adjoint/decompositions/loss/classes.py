"""Losses of scores for classes: negative log likelihood and cross entropy.

The classes are dimension 1, or the only one. The gradient is written with comparisons and not as a
scatter, so that a compiler makes one loop of it and of softmax.
"""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.checks import loss
from adjoint.core import dtypes
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.decompositions.loss.common import finite_where_unused, reduced

Tensor = Any


def _by_class(weight: Tensor, ndim: int) -> Tensor:
    """The weights of the classes, so that they broadcast with scores of `ndim` dimensions."""
    return weight.reshape((-1, *(1,) * (ndim - loss.class_dim(ndim) - 1)))


def _sample_weights(
    self: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Which samples are ignored, their classes (0 for the ignored), and their weights."""
    target = target.reshape(loss.without_classes(tuple(self.shape)))
    ignored = target == ignore_index
    places = target.masked_fill(ignored, 0).to(dtypes.int64)  # uint8 would be a mask
    if weight is None:
        return ignored, places, (~ignored).to(self.dtype)
    return ignored, places, weight.index([places]).masked_fill(ignored, 0)


def nll_loss_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """-weight · x at the class of each sample, and the sum of the weights."""
    loss.check_reduction("nll_loss", reduction)
    loss.check_classes("nll_loss", self, target, weight)
    dim = loss.class_dim(self.ndim)
    if self.shape[dim] == 0:  # no classes, so that all are ignored
        losses = weights = self.sum(dim)
    else:
        ignored, places, weights = _sample_weights(self, target, weight, ignore_index)
        picked = self.gather(dim, places.unsqueeze(dim)).squeeze(dim)
        losses = (-picked * weights).masked_fill(ignored, 0)
    total = weights.sum()
    if reduction == loss.MEAN:
        return losses.sum() / total, total
    if reduction == loss.NONE and self.ndim > 1:
        return losses, total.new_zeros(())
    return losses.sum(), total


def nll_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor:
    """-weight · ḡ at the class of each sample, 0 elsewhere."""
    loss.check_reduction("nll_loss_backward", reduction)
    loss.check_classes("nll_loss_backward", self, target, weight)
    dim = loss.class_dim(self.ndim)
    target = target.reshape(loss.without_classes(tuple(self.shape))).unsqueeze(dim)
    classes = _by_class(ops.arange(self.shape[dim], dtype=target.dtype), self.ndim)
    hit = (target == classes) & (target != ignore_index)
    values = -grad_output
    if reduction == loss.MEAN:
        values = values / total_weight
    elif reduction == loss.NONE and self.ndim > 1:
        values = values.unsqueeze(dim)
    if weight is not None:
        values = values * _by_class(weight, self.ndim)
    return ops.where(hit, values, 0).to(self.dtype)


def _check_images(what: str, self: Tensor) -> None:
    if self.ndim != 4:
        raise ShapeError(f"{what}: needs scores N×C×H×W, got {show(self.shape)}.")


def nll_loss2d_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """A class for each pixel."""
    _check_images("nll_loss2d", self)
    return ops.nll_loss_forward(self, target, weight, reduction, ignore_index)


def nll_loss2d_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor:
    """A class for each pixel."""
    _check_images("nll_loss2d_backward", self)
    return ops.nll_loss_backward(
        grad_output, self, target, weight, reduction, ignore_index, total_weight
    )


def cross_entropy_loss(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> Tensor:
    """-log softmax(x) at the class of each sample, or averaged with probabilities of classes."""
    if not 0 <= label_smoothing <= 1:
        raise ValueRangeError(f"cross_entropy(label_smoothing={label_smoothing}): use 0 to 1.")
    if self.ndim == 0:
        raise ShapeError("cross_entropy: the input is a scalar; it needs a dimension of classes.")
    dim = loss.class_dim(self.ndim)
    logarithms = ops.log_softmax(self, dim)
    if target.dtype.is_floating_point:
        return _expected(logarithms, target, weight, reduction, ignore_index, label_smoothing)
    hit = ops.nll_loss_nd(logarithms, target, weight, reduction, ignore_index)
    if label_smoothing == 0:
        return hit
    ignored, _, weights = _sample_weights(self, target, weight, ignore_index)
    by_class = logarithms if weight is None else logarithms * _by_class(weight, self.ndim)
    even = -by_class.sum(dim).masked_fill(ignored, 0)
    if reduction == loss.MEAN:
        even = even.sum() / weights.sum()
    else:
        even = reduced("cross_entropy", even, reduction)
    return hit * (1 - label_smoothing) + even * (label_smoothing / self.shape[dim])


def _expected(
    logarithms: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> Tensor:
    """-Σ target · log p over the classes."""
    loss.check_same_shape("cross_entropy", logarithms, target)
    if ignore_index >= 0:
        raise ValueRangeError(
            f"cross_entropy(ignore_index={ignore_index}): probabilities have no class to ignore."
        )
    dim = loss.class_dim(logarithms.ndim)
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / logarithms.shape[dim]
    losses = finite_where_unused(logarithms, target) * target
    if weight is not None:
        losses = losses * _by_class(weight, logarithms.ndim)
    return reduced("cross_entropy", -losses.sum(dim), reduction)


# --- classes of a linear layer -------------------------------------------------------------------


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    ignore_index: int,
    samples: int,
) -> Tensor:
    """All samples at once."""
    loss.check_linear("linear_cross_entropy", input, linear_weight, target, linear_bias, samples)
    logits = ops.linear(input, linear_weight, linear_bias)
    return ops.cross_entropy_loss(logits, target, None, loss.NONE, ignore_index)


def linear_cross_entropy_backward(
    grad: Tensor,
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    ignore_index: int,
    samples: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Z̄ = ḡ (softmax(z) - 1 at the class),  x̄ = Z̄ W,  W̄ = Z̄ᵀ x,  b̄ = Σ Z̄."""
    loss.check_linear("linear_cross_entropy", input, linear_weight, target, linear_bias, samples)
    logits = ops.linear(input, linear_weight, linear_bias)
    kept = target != ignore_index
    hit = target.unsqueeze(1) == ops.arange(linear_weight.shape[0], dtype=target.dtype)
    slopes = ops.softmax(logits, 1) - hit.to(logits.dtype)
    slopes = ops.where(kept.unsqueeze(1), slopes * grad.unsqueeze(1), 0).to(input.dtype)
    return slopes.mm(linear_weight), slopes.t().mm(input), slopes.sum(0)
