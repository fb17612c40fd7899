"""Losses that require a margin between scores or distances, and are 0 if there is one.

At the margin itself the gradient is 0.
"""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.checks import indexing, loss
from adjoint.core import dtypes
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.decompositions.loss.common import reduced

Tensor = Any

SMALLEST_SQUARE = 1e-12  # added to squared lengths by cosine_embedding_loss, as in PyTorch


def hinge_embedding_loss(self: Tensor, target: Tensor, margin: float, reduction: int) -> Tensor:
    """x where the target is 1, max(0, margin - x) where it is -1."""
    far = ops.where(target != 1, (margin - self).clamp_min(0), 0)
    near = ops.where(target != -1, self, 0)
    return reduced("hinge_embedding_loss", far + near, reduction)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: int
) -> Tensor:
    """max(0, -t (x₁ - x₂) + margin)."""
    losses = (-target * (input1 - input2) + margin).clamp_min(0)
    return reduced("margin_ranking_loss", losses, reduction)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: int
) -> Tensor:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    ndim = target.ndim + 1
    if target.ndim > 1 or input1.ndim != ndim or input2.ndim != ndim:
        raise ShapeError(
            "cosine_embedding_loss: takes vectors with a scalar target, or rows of vectors with "
            f"one target each; got {show(input1.shape)} and {show(input2.shape)} with a target of "
            f"{show(target.shape)}."
        )
    squares = [(x * x).sum(-1) + SMALLEST_SQUARE for x in (input1, input2)]
    cosine = (input1 * input2).sum(-1) / (squares[0] * squares[1]).sqrt()
    near = ops.where(target == 1, 1 - cosine, 0)
    far = ops.where(target == -1, (cosine - margin).clamp_min(0), 0)
    return reduced("cosine_embedding_loss", near + far, reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float,
    p: float,
    eps: float,
    swap: bool,
    reduction: int,
) -> Tensor:
    """max(0, d(a, p) - d(a, n) + margin); with `swap` the nearer of d(a, n) and d(p, n)."""
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(
            "triplet_margin_loss: the three inputs must have as many dimensions, got "
            f"{show(anchor.shape)}, {show(positive.shape)} and {show(negative.shape)}."
        )
    near = ops.pairwise_distance(anchor, positive, p, eps)
    far = ops.pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, ops.pairwise_distance(positive, negative, p, eps))
    return reduced("triplet_margin_loss", (near - far + margin).clamp_min(0), reduction)


# --- classes -------------------------------------------------------------------------------------


def _check_scores(what: str, self: Tensor) -> None:
    if self.ndim not in (1, 2):
        raise ShapeError(
            f"{what}: needs scores of classes, or rows of them, got {show(self.shape)}."
        )
    if self.shape[-1] == 0:
        raise ShapeError(f"{what}: there are no classes in an input of {show(self.shape)}.")


def _at_least_one(tensor: Tensor) -> Tensor:
    """A scalar is the score of an only class."""
    return tensor if tensor.ndim else tensor.unsqueeze(0)


def _distances(
    self: Tensor, target: Tensor, p: float, margin: float, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Which classes are the samples' own, by how much others come within the margin, weights."""
    if p not in (1, 2):
        raise ValueRangeError(f"multi_margin_loss(p={p}): p is 1 or 2.")
    loss.check_classes("multi_margin_loss", self, target, weight)
    _check_scores("multi_margin_loss", self)
    places = target.reshape((*self.shape[:-1], 1)).to(dtypes.int64)  # uint8 would be a mask
    own = places == ops.arange(self.shape[-1])
    within = (margin - self.gather(-1, places) + self).relu().masked_fill(own, 0)
    weights = self.new_full((), 1 / max(self.shape[-1], 1))
    return own, within, weights if weight is None else weights * weight.index([places])


def multi_margin_loss(
    self: Tensor, target: Tensor, p: float, margin: float, weight: Tensor | None, reduction: int
) -> Tensor:
    """Σ max(0, margin - x at the class + x)ᵖ over the other classes, over their number."""
    _, within, weights = _distances(_at_least_one(self), target, p, margin, weight)
    losses = within * weights if p == 1 else within * (within * weights)
    losses = losses.sum(-1)
    if self.ndim < 2 and reduction == loss.NONE:  # one sample, with or without a dimension
        return losses.reshape(target.shape)
    return reduced("multi_margin_loss", losses, reduction)


def multi_margin_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    p: float,
    margin: float,
    weight: Tensor | None,
    reduction: int,
) -> Tensor:
    """p max(0, …)ᵖ⁻¹ at the other classes, less their sum at the sample's own."""
    own, within, weights = _distances(_at_least_one(self), target, p, margin, weight)
    grad = _spread(grad_output, self, reduction)
    slopes = ((within > 0).to(self.dtype) if p == 1 else 2 * within) * weights * grad
    return ops.where(own, -slopes.sum(-1, True), slopes).reshape(self.shape)


def _spread(grad_output: Tensor, self: Tensor, reduction: int) -> Tensor:
    """The gradient of each sample's loss, with a dimension for the classes."""
    loss.check_reduction("multi_margin_loss_backward", reduction)
    if reduction == loss.MEAN and self.ndim == 2:
        grad_output = grad_output / max(self.shape[0], 1)
    return grad_output.unsqueeze(-1) if reduction == loss.NONE and self.ndim == 2 else grad_output


def multilabel_soft_margin_loss(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int
) -> Tensor:
    """The mean over the classes of -(t log σ(x) + (1 - t) log σ(-x))."""
    losses = ops.binary_cross_entropy_with_logits(self, target, weight, None, loss.NONE)
    return reduced("multilabel_soft_margin_loss", losses.sum(-1) / self.shape[-1], reduction)


def _labels(self: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Which entries of the target count, before its first -1, and the classes they name."""
    _check_scores("multilabel_margin_loss", self)
    indexing.check_integers("multilabel_margin_loss", target)
    loss.check_same_shape("multilabel_margin_loss", self, target)
    counts = (target < 0).to(target.dtype).cumsum(-1) == 0
    classes = ops.arange(self.shape[-1], dtype=target.dtype)
    named = (target.unsqueeze(-1) == classes) & counts.unsqueeze(-1)
    return counts, named.any(-2)


def _pairs(self: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """max(0, 1 - x at a label + x elsewhere), labels × classes; the labels; which are named."""
    counts, named = _labels(self, target)
    labels = target.masked_fill(~counts, 0)
    scores = self.gather(-1, labels)
    within = (1 - scores.unsqueeze(-1) + self.unsqueeze(-2)).relu()
    used = counts.unsqueeze(-1) & ~named.unsqueeze(-2)
    return within.masked_fill(~used, 0), labels, named


def multilabel_margin_loss_forward(
    self: Tensor, target: Tensor, reduction: int
) -> tuple[Tensor, Tensor]:
    """Σ max(0, 1 - x at a label + x elsewhere) over their number, and which classes are labels."""
    scores = _at_least_one(self)
    within, _, named = _pairs(scores, _at_least_one(target))
    losses = within.sum((-2, -1)) / max(scores.shape[-1], 1)
    is_target = named.to(self.dtype).reshape(self.shape)
    return reduced("multilabel_margin_loss", losses, reduction), is_target


def multilabel_margin_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, is_target: Tensor
) -> Tensor:
    """1 for each label that is near to a class elsewhere, at that class, and -1 at the label."""
    scores = _at_least_one(self)
    within, labels, _ = _pairs(scores, _at_least_one(target))
    near = (within > 0).to(self.dtype)
    own = ops._gather_backward(near.sum(-1), tuple(scores.shape), -1, labels)
    grad = _spread(grad_output, self, reduction) / max(scores.shape[-1], 1)
    return ((near.sum(-2) - own) * grad).reshape(self.shape)
