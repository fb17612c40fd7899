"""Shape rules of losses over classes."""

from __future__ import annotations

from adjoint.checks import loss
from adjoint.core.shapes import Spec


def nll_loss_forward(
    self: Spec, target: Spec, weight: Spec | None, reduction: int, ignore_index: int
) -> tuple[Spec, Spec]:
    """One loss for each sample or one for all, and the total weight."""
    loss.check_reduction("nll_loss", reduction)
    loss.check_classes("nll_loss", self, target, weight)
    shape = loss.without_classes(self.shape) if reduction == loss.NONE else ()
    return Spec(shape, self.dtype), Spec((), self.dtype)


def nll_loss_backward(
    grad_output: Spec,
    self: Spec,
    target: Spec,
    weight: Spec | None,
    reduction: int,
    ignore_index: int,
    total_weight: Spec,
) -> Spec:
    """Like the input."""
    loss.check_reduction("nll_loss_backward", reduction)
    loss.check_classes("nll_loss_backward", self, target, weight)
    return self


def ctc_alphas(emitted: Spec, blocked: Spec, inputs: Spec) -> Spec:
    """Like what is emitted."""
    return emitted


def ctc_alphas_backward(
    grad: Spec, emitted: Spec, blocked: Spec, inputs: Spec, alphas: Spec
) -> Spec:
    """Like what is emitted."""
    return emitted


def linear_cross_entropy(
    input: Spec,
    linear_weight: Spec,
    target: Spec,
    linear_bias: Spec | None,
    ignore_index: int,
    samples: int,
) -> Spec:
    """One loss for each sample."""
    loss.check_linear("linear_cross_entropy", input, linear_weight, target, linear_bias, samples)
    return Spec(target.shape, input.dtype)


def linear_cross_entropy_backward(
    grad: Spec,
    input: Spec,
    linear_weight: Spec,
    target: Spec,
    linear_bias: Spec | None,
    ignore_index: int,
    samples: int,
) -> tuple[Spec, Spec, Spec]:
    """Like input and weight, and one number for each class."""
    loss.check_linear("linear_cross_entropy", input, linear_weight, target, linear_bias, samples)
    return input, linear_weight, Spec(linear_weight.shape[:1], linear_weight.dtype)
