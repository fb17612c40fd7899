"""Losses of one element each, and their backward operators.

With c = d cut off at ±δ, Huber's loss is c (d - c/2): d²/2 within δ, and δ (|d| - δ/2) outside,
where nothing is squared that could overflow.
"""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.checks import loss
from adjoint.core.dtypes import finfo
from adjoint.core.errors import ValueRangeError
from adjoint.decompositions.loss.common import finite_where_unused, reduced, spread

Tensor = Any

SMALLEST_VARIANCE = 1e-12  # of p (1 - p), as in PyTorch
LOWEST_LOG = -100.0
SMALLEST_CHANCE = 3.720075976020836e-44  # whose logarithm that is
LOG_4_LESS_1 = 0.3862943611198906  # math.log(4) - 1 has one more rounding
STEEPEST = 1e12  # the slope of logarithms that have ended


def mse_loss(self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """(x - t)²."""
    real = self.is_floating_point() and target.is_floating_point()
    losses = ops._squared_error(self, target) if real else (self - target).square()
    return reduced("mse_loss", losses, reduction)


def mse_loss_backward(grad_output: Tensor, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """2 (x - t)."""
    grad = spread("mse_loss_backward", grad_output, reduction, self, target)
    return (self - target) * 2 * grad


def l1_loss(self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """|x - t|."""
    return reduced("l1_loss", (self - target).abs(), reduction)


# --- Huber ---------------------------------------------------------------------------------------


def smooth_l1_loss(self: Tensor, target: Tensor, reduction: int, beta: float) -> Tensor:
    """Huber's loss over beta; |x - t| for beta = 0."""
    if not beta >= 0:
        raise ValueRangeError(f"smooth_l1_loss(beta={beta}): beta cannot be negative.")
    if beta == 0:
        return reduced("smooth_l1_loss", (self - target).abs(), reduction)
    losses = ops._huber(self, target, beta)
    return reduced("smooth_l1_loss", losses if beta == 1 else losses / beta, reduction)


def smooth_l1_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, beta: float
) -> Tensor:
    """d / beta cut off at ±1."""
    grad = spread("smooth_l1_loss_backward", grad_output, reduction, self, target)
    difference = self - target
    if beta == 0:
        return difference.sign() * grad
    return ops.hardtanh(difference, -beta, beta) / beta * grad


def huber_loss(self: Tensor, target: Tensor, reduction: int, delta: float) -> Tensor:
    """d²/2 within delta, δ (|d| - δ/2) outside."""
    if not delta > 0:
        raise ValueRangeError(f"huber_loss(delta={delta}): delta must be positive.")
    return reduced("huber_loss", ops._huber(self, target, delta), reduction)


def huber_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, delta: float
) -> Tensor:
    """d cut off at ±delta."""
    grad = spread("huber_loss_backward", grad_output, reduction, self, target)
    return ops.hardtanh(self - target, -delta, delta) * grad


# --- logistic ------------------------------------------------------------------------------------


def soft_margin_loss(self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """log(1 + exp(-t x))."""
    return reduced("soft_margin_loss", -ops.log_sigmoid(self * target), reduction)


def soft_margin_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int
) -> Tensor:
    """-t σ(-t x)."""
    grad = spread("soft_margin_loss_backward", grad_output, reduction, self, target)
    return -target * (-target * self).sigmoid() * grad


def binary_cross_entropy_elements(self: Tensor, target: Tensor) -> Tensor:
    """-(t log p + (1 - t) log(1 - p)), the logarithms at least -100."""
    p, low, high = self, self <= SMALLEST_CHANCE, self == 1
    moved = (p - p.detach()) * STEEPEST  # the slope where a logarithm has ended
    log_p = ops.where(low, moved + LOWEST_LOG, p.masked_fill(low, 1).log())
    log_q = ops.where(high, LOWEST_LOG - moved, (-p.masked_fill(high, 0)).log1p())
    return -(target * log_p + (1 - target) * log_q)


def binary_cross_entropy_slope(self: Tensor, target: Tensor) -> Tensor:
    """(p - t) / (p (1 - p)), bounded by the largest number."""
    low, high = self <= SMALLEST_CHANCE, self == 1
    hit, miss = self.masked_fill(low, 1), (1 - self).masked_fill(high, 1)
    most = finfo(self.dtype).max
    inner = ((self - target) / hit / miss).clamp(-most, most)
    at_zero = (1 - target) / miss - target * STEEPEST
    at_one = (1 - target) * STEEPEST - target / hit
    return ops.where(low, at_zero, ops.where(high, at_one, inner))


def binary_cross_entropy(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int
) -> Tensor:
    """-(t log p + (1 - t) log(1 - p)) for probabilities p."""
    loss.check_same_shape("binary_cross_entropy", self, target)
    losses = ops._binary_cross_entropy(self, target)
    return reduced("binary_cross_entropy", losses if weight is None else losses * weight, reduction)


def binary_cross_entropy_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int
) -> Tensor:
    """(p - t) / (p (1 - p))."""
    grad = spread("binary_cross_entropy_backward", grad_output, reduction, self)
    variance = (self * (1 - self)).clamp_min(SMALLEST_VARIANCE)
    result = (self - target) / variance * grad
    return result if weight is None else result * weight


def binary_cross_entropy_with_logits(
    self: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: int
) -> Tensor:
    """-(w t log σ(x) + (1 - t) log σ(-x)), w being pos_weight."""
    if pos_weight is None:
        losses = ops._logistic_loss(self, target)
    else:
        hit = target * ops.log_sigmoid(self) * pos_weight
        losses = -(hit + (1 - target) * ops.log_sigmoid(-self))
    return reduced(
        "binary_cross_entropy_with_logits", losses if weight is None else losses * weight, reduction
    )


# --- distributions -------------------------------------------------------------------------------


def kl_div(self: Tensor, target: Tensor, reduction: int, log_target: bool) -> Tensor:
    """t (log t - x); the target t, or its logarithm, and the logarithms x."""
    if log_target:
        return reduced("kl_div", target.exp() * (target - self), reduction)
    losses = ops._x_log_x(target) - target * finite_where_unused(self, target)
    return reduced("kl_div", losses, reduction)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """λ - t log λ; with `full` Stirling's log t! for t above 1, too."""
    if log_input:
        losses = input.exp() - target * input
    else:
        losses = input - target * (input + eps).log()
    if full:
        many = target > 1
        t = ops.where(many, target, 1)  # the logarithm elsewhere is not needed
        # t log t - t; its first term may be infinite where t log (t/4) is not
        less = ops._x_log_x(t * 0.25) * 4 + t * LOG_4_LESS_1
        stirling = less + (t * (2 * math.pi)).log() * 0.5
        losses = losses + ops.where(many, stirling, 0)
    return reduced("poisson_nll_loss", losses, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor, full: bool, eps: float, reduction: int
) -> Tensor:
    """½ (log σ² + (x - t)²/σ²), with ½ log 2π if `full`."""
    variance = var + (var.clamp_min(eps) - var).detach()
    difference = input - target
    # no factor is larger than the product
    losses = variance.log() * 0.5 + difference * (difference * 0.5 / variance)
    losses = losses + 0.5 * math.log(2 * math.pi) if full else losses
    return reduced("gaussian_nll_loss", losses, reduction)
