"""Losses with PyTorch's signatures in Python: `reduction` is 'mean', 'sum' or 'none'."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import show

Tensor = Any


def reduced(what: str, losses: Tensor, reduction: str) -> Tensor:
    """The mean or the sum of losses, or all of them."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueRangeError(f"{what}(reduction={reduction!r}): use 'mean', 'sum' or 'none'.")
    return losses if reduction == "none" else getattr(losses, reduction)()


def _weighted(losses: Tensor, weight: Tensor | None) -> Tensor:
    return losses if weight is None else losses * weight


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: None = None,
    reduce: None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input - target)²."""
    difference = input - target
    if reduction == "mean" and weight is not None:
        spread: Tensor = weight.expand(difference.shape)
        return (difference * difference * spread).sum() / spread.sum()
    return reduced("mse_loss", _weighted(difference * difference, weight), reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: None = None,
    reduce: None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|input - target|."""
    difference = (input - target).abs()
    if reduction == "mean" and weight is not None:
        spread: Tensor = weight.expand(difference.shape)
        return (difference * spread).sum() / spread.sum()
    return reduced("l1_loss", _weighted(difference, weight), reduction)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: None = None,
    ignore_index: int = -100,
    reduce: None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input at the target's class (dimension 1, or the only one), weighted by its weight."""
    classes = min(input.ndim - 1, 1)
    if input.ndim == 0 or tuple(target.shape) != _without(input.shape, classes):
        raise ShapeError(
            f"nll_loss: a target of {show(target.shape)} does not fit an input of "
            f"{show(input.shape)}; it has all dimensions but that of the classes."
        )
    ignored = target == ignore_index
    place = target.masked_fill(ignored, 0).unsqueeze(classes)
    weights = (~ignored).to(input.dtype)
    if weight is not None:
        weights = weights * weight[place.squeeze(classes)]
    losses = (-input.gather(classes, place).squeeze(classes) * weights).masked_fill(ignored, 0)
    return (
        losses.sum() / weights.sum()
        if reduction == "mean"
        else reduced("nll_loss", losses, reduction)
    )


def _without(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return (*shape[:dim], *shape[dim + 1 :])


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: None = None,
    ignore_index: int = -100,
    reduce: None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input) at the target's class, or averaged with the target's probabilities."""
    if not 0 <= label_smoothing <= 1:
        raise ValueRangeError(f"cross_entropy(label_smoothing={label_smoothing}): use 0 to 1.")
    classes = min(input.ndim - 1, 1)
    logarithms = ops.log_softmax(input, classes)
    if target.dtype.is_floating_point:
        return _expected(logarithms, target, weight, reduction, label_smoothing, classes)
    hit = nll_loss(logarithms, target, weight, None, ignore_index, None, reduction)
    if label_smoothing == 0:
        return hit
    count = input.shape[classes]
    ignored = target == ignore_index
    spread = -_by_class(logarithms, weight, classes).sum(classes).masked_fill(ignored, 0)
    if reduction == "mean":
        kept = (~ignored).to(input.dtype)
        if weight is not None:
            kept = kept * weight[target.masked_fill(ignored, 0)]
        spread = spread.sum() / kept.sum()
    else:
        spread = reduced("cross_entropy", spread, reduction)
    return hit * (1 - label_smoothing) + spread * (label_smoothing / count)


def _by_class(values: Tensor, weight: Tensor | None, classes: int) -> Tensor:
    """The values times the weights of their classes."""
    if weight is None:
        return values
    return values * weight.reshape((-1, *(1,) * (values.ndim - classes - 1)))


def _expected(
    logarithms: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    smoothing: float,
    classes: int,
) -> Tensor:
    if target.shape != logarithms.shape:
        raise ShapeError(
            f"cross_entropy: probabilities of {show(target.shape)} for an input of "
            f"{show(logarithms.shape)}; the shapes must agree."
        )
    count = logarithms.shape[classes]
    if smoothing:
        target = target * (1 - smoothing) + smoothing / count
    losses = -(_by_class(logarithms, weight, classes) * target).sum(classes)
    if reduction == "mean":
        return losses.sum() / max(losses.numel(), 1)
    return reduced("cross_entropy", losses, reduction)
