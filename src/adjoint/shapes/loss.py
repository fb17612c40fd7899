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
    """That of the input."""
    loss.check_reduction("nll_loss_backward", reduction)
    loss.check_classes("nll_loss_backward", self, target, weight)
    return self
