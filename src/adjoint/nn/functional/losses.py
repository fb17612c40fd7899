"""Losses with PyTorch's signatures in Python: `reduction` is 'mean', 'sum' or 'none'.

`size_average` and `reduce` are PyTorch's older way to say it, and go before `reduction`.
"""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.core.errors import AdjointError, ShapeError, ValueRangeError
from adjoint.core.shapes import show

Tensor = Any

NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def number(
    what: str, reduction: str, size_average: bool | None = None, reduce: bool | None = None
) -> int:
    """The operators' number for a reduction."""
    if size_average is not None or reduce is not None:
        if reduce is False:
            return NUMBERS["none"]
        return NUMBERS["sum" if size_average is False else "mean"]
    if reduction not in NUMBERS:
        raise ValueRangeError(f"{what}(reduction={reduction!r}): use 'mean', 'sum' or 'none'.")
    return NUMBERS[reduction]


def reduced(losses: Tensor, reduction: int) -> Tensor:
    """The mean or the sum of losses, or all of them."""
    if reduction == NUMBERS["none"]:
        return losses
    return losses.mean() if reduction == NUMBERS["mean"] else losses.sum()


# --- differences ---------------------------------------------------------------------------------


def _weighted(what: str, losses: Tensor, weight: Tensor, reduction: int, average: Tensor) -> Tensor:
    """Losses times weights; their mean is the sum over `average`."""
    if weight.shape != losses.shape:
        raise ShapeError(
            f"{what}: a weight of {show(weight.shape)} for losses of {show(losses.shape)}; the "
            "shapes must agree."
        )
    weighted = losses * weight
    if reduction == NUMBERS["mean"]:
        return weighted.sum() / average
    return reduced(weighted, reduction)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input - target)²; with weights, their mean is the weighted one."""
    code = number("mse_loss", reduction, size_average, reduce)
    if weight is None:
        return ops.mse_loss(input, target, code)
    return _weighted("mse_loss", ops.mse_loss(input, target, 0), weight, code, weight.sum())


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|input - target|; with weights, their mean is the weighted one."""
    code = number("l1_loss", reduction, size_average, reduce)
    if weight is None:
        return ops.l1_loss(input, target, code)
    return _weighted("l1_loss", ops.l1_loss(input, target, 0), weight, code, weight.sum())


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d²/(2 beta) within beta, |d| - beta/2 outside, d being the difference."""
    code = number("smooth_l1_loss", reduction, size_average, reduce)
    return ops.smooth_l1_loss(input, target, code, beta)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """d²/2 within delta, delta (|d| - delta/2) outside; with weights, the mean is over elements."""
    code = number("huber_loss", reduction)
    if weight is None:
        return ops.huber_loss(input, target, code, delta)
    losses = ops.huber_loss(input, target, 0, delta)
    return _weighted("huber_loss", losses, weight, code, losses.numel())


# --- classes -------------------------------------------------------------------------------------


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input at the target's class (dimension 1, or the only one), weighted by its weight."""
    code = number("nll_loss", reduction, size_average, reduce)
    return ops.nll_loss_nd(input, target, weight, code, ignore_index)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input) at the target's class, or averaged with the target's probabilities."""
    code = number("cross_entropy", reduction, size_average, reduce)
    return ops.cross_entropy_loss(input, target, weight, code, ignore_index, label_smoothing)


# --- probabilities -------------------------------------------------------------------------------


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t log p + (1 - t) log(1 - p)) for probabilities p."""
    code = number("binary_cross_entropy", reduction, size_average, reduce)
    return ops.binary_cross_entropy(input, target, weight, code)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(input), accurate far out."""
    code = number("binary_cross_entropy_with_logits", reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ShapeError(
            f"binary_cross_entropy_with_logits: a target of {show(target.shape)} for an input of "
            f"{show(input.shape)}; the shapes must agree."
        )
    return ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, code)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target (log target - input); 'batchmean' is the sum over the number of samples."""
    if reduction == "batchmean" and size_average is None and reduce is None:
        total = ops.kl_div(input, target, NUMBERS["sum"], log_target=log_target)
        return total / input.shape[0] if input.ndim else total
    code = number("kl_div", reduction, size_average, reduce)
    return ops.kl_div(input, target, code, log_target=log_target)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(input) - target · input; with `full` plus Stirling's log target!."""
    code = number("poisson_nll_loss", reduction, size_average, reduce)
    return ops.poisson_nll_loss(input, target, log_input, full, eps, code)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """½ (log var + (input - target)²/var), var at least eps; its gradient passes there, too."""
    code = number("gaussian_nll_loss", reduction)
    if isinstance(var, (int, float)):
        var = ops.full_like(input.detach(), float(var))
    given = _variance_of(input, var)
    variance = given + (given.clamp_min(eps) - given).detach()
    difference = input - target
    losses = (variance.log() + difference * difference / variance) * 0.5
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, code)


def _variance_of(input: Tensor, var: Tensor) -> Tensor:
    """The variance so that it broadcasts with the input; raises if it cannot be one."""
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


# --- margins -------------------------------------------------------------------------------------


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target · input)) for targets 1 and -1."""
    code = number("soft_margin_loss", reduction, size_average, reduce)
    return ops.soft_margin_loss(input, target, code)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """input where the target is 1, max(0, margin - input) where it is -1."""
    code = number("hinge_embedding_loss", reduction, size_average, reduce)
    return ops.hinge_embedding_loss(input, target, margin, code)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target (input1 - input2) + margin)."""
    code = number("margin_ranking_loss", reduction, size_average, reduce)
    return ops.margin_ranking_loss(input1, input2, target, margin, code)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos of the angle where the target is 1, max(0, cos - margin) where it is -1."""
    code = number("cosine_embedding_loss", reduction, size_average, reduce)
    return ops.cosine_embedding_loss(input1, input2, target, margin, code)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""
    code = number("triplet_margin_loss", reduction, size_average, reduce)
    if margin <= 0:
        raise ValueRangeError(f"triplet_margin_loss(margin={margin}): it must be positive.")
    return ops.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, code)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Any = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_loss with a distance of one's own."""
    code = number("triplet_margin_with_distance_loss", reduction)
    if margin <= 0:
        raise ValueRangeError(
            f"triplet_margin_with_distance_loss(margin={margin}): it must be positive."
        )
    distance = ops.pairwise_distance if distance_function is None else distance_function
    far = distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return reduced((distance(anchor, positive) - far + margin).clamp_min(0), code)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin - input at the class + input)ᵖ, averaged over the classes."""
    code = number("multi_margin_loss", reduction, size_average, reduce)
    return ops.multi_margin_loss(input, target, p, margin, weight, code)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, 1 - input at a label + input elsewhere); labels are listed up to the first -1."""
    code = number("multilabel_margin_loss", reduction, size_average, reduce)
    return ops.multilabel_margin_loss(input, target, code)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """binary_cross_entropy_with_logits, averaged over the classes (the last dimension)."""
    code = number("multilabel_soft_margin_loss", reduction, size_average, reduce)
    losses = ops.binary_cross_entropy_with_logits(input, target, weight, None, NUMBERS["none"])
    return reduced(losses.sum(-1) / input.shape[-1], code)


# --- texts ---------------------------------------------------------------------------------------


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability of texts of unknown alignment; their mean is per letter."""
    code = number("ctc_loss", reduction)
    return ops.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, code, zero_infinity
    )
