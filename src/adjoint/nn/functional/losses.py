"""Losses: words of their rows, and those that are longer than an expression.

`reduction` is 'mean', 'sum' or 'none'; `size_average` and `reduce` are PyTorch's older way to say
it, and go before `reduction`. Operators take a number in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.errors import AdjointError, DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.core.source_lines import warn
from adjoint.tensor.tensor import Tensor

NONE, MEAN, SUM = 0, 1, 2  # the operators' numbers
_NUMBERS = {"none": NONE, "mean": MEAN, "sum": SUM}


def number(
    what: str, reduction: str, size_average: bool | None = None, reduce: bool | None = None
) -> int:
    """The operators' number for a reduction."""
    if size_average is not None or reduce is not None:
        if reduce is False:
            return NONE
        return SUM if size_average is False else MEAN
    if reduction not in _NUMBERS:
        raise ValueRangeError(f"{what}(reduction={reduction!r}): use 'mean', 'sum' or 'none'.")
    return _NUMBERS[reduction]


def _reduced(losses: Tensor, reduction: int) -> Tensor:
    """The mean or the sum of losses, or all of them."""
    if reduction == NONE:
        return losses
    return losses.mean() if reduction == MEAN else losses.sum()


def of_one_shape(what: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both, which must have the same shape."""
    if target.shape != input.shape:
        raise ShapeError(
            f"{what}: a target of {show(target.shape)} for an input of {show(input.shape)}; the "
            "shapes must agree."
        )
    return input, target


# --- differences ---------------------------------------------------------------------------------


def of_one_size(what: str, input: Tensor, target: Tensor) -> list[Tensor]:
    """Both, broadcast before they are promoted, so that a 0-d tensor counts as a tensor.

    Differences of broadcast tensors are seldom meant.
    """
    if input.shape == target.shape:
        return [input, target]
    warn(
        f"{what}: an input of {show(input.shape)} and a target of {show(target.shape)} are "
        "broadcast. Please ensure they have the same size."
    )
    return ops.broadcast_tensors([input, target])


def of_differences(
    loss: Callable[..., Tensor], input: Tensor, target: Tensor, reduction: int, weight: Any,
    *delta: float,
) -> Tensor:  # fmt: skip
    """A loss of differences; a mean with weights is the weighted mean, but huber's of elements."""
    what = loss.__name__
    input, target = of_one_size(what, input, target)
    if weight is None:
        return loss(input, target, reduction, *delta)
    losses = loss(input, target, NONE, *delta)
    if weight.shape != losses.shape:
        raise ShapeError(
            f"{what}: a weight of {show(weight.shape)} for losses of {show(losses.shape)}; the "
            "shapes must agree."
        )
    weighted = losses * weight
    if reduction != MEAN:
        return _reduced(weighted, reduction)
    return weighted.sum() / (losses.numel() if delta else weight.sum())


# --- probabilities -------------------------------------------------------------------------------


def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """target (log target - input); 'batchmean' is the sum over the number of samples.

    >>> import adjoint as ad
    >>> p, q = ad.tensor([0.5, 0.5]), ad.tensor([0.25, 0.75])
    >>> ad.nn.functional.kl_div(q.log(), p, reduction="sum")
    tensor(0.1438)
    """
    if reduction == "batchmean" and size_average is None and reduce is None:
        total = ops.kl_div(input, target, SUM, log_target=log_target)
        return total / input.shape[0] if input.ndim else total
    reduced_as = number("kl_div", reduction, size_average, reduce)
    return ops.kl_div(input, target, reduced_as, log_target=log_target)


def variance(input: Tensor, var: Any) -> Tensor:
    """The variance so that it broadcasts with the input; raises if it cannot be one."""
    if isinstance(var, (int, float)):
        var = ops.full_like(input.detach(), float(var))
    try:
        negative = bool((var < 0).any())
    except AdjointError:  # inside a transform it has no numbers
        negative = False
    if negative:
        raise ValueRangeError("gaussian_nll_loss: var has negative elements.")
    if var.shape == input.shape:
        return var
    if tuple(var.shape) == tuple(input.shape[:-1]):
        return var.unsqueeze(-1)
    pairs = zip(input.shape, var.shape, strict=False)
    if var.ndim == input.ndim and all(v in (1, n) for n, v in pairs):
        return var
    raise ShapeError(
        f"gaussian_nll_loss: a var of {show(var.shape)} for an input of {show(input.shape)}; it "
        "has its shape, 1 in some places, or lacks the last dimension."
    )


# --- margins, and texts --------------------------------------------------------------------------


def above_zero(what: str, margin: float) -> float:
    """The margin of triplets."""
    if margin <= 0:
        raise ValueRangeError(f"{what}(margin={margin}): it must be positive.")
    return margin


def triplets(
    anchor: Tensor, positive: Tensor, negative: Tensor, distance_function: Any, margin: float,
    swap: bool, reduction: int,
) -> Tensor:  # fmt: skip
    """triplet_margin_loss with a distance of the user's own."""
    distance = ops.pairwise_distance if distance_function is None else distance_function
    far = distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return _reduced((distance(anchor, positive) - far + margin).clamp_min(0), reduction)


def lengths(name: str, lengths: Any) -> Any:
    """The lengths of inputs or targets of ctc_loss."""
    if getattr(lengths, "dtype", dtypes.int64).is_differentiable:
        raise DtypeError(f"ctc_loss: {name} are whole numbers, got {lengths.dtype}.")
    return lengths
