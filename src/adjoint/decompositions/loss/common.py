"""Shared by losses: the mean or the sum of all, and the way back."""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.checks import loss
from adjoint.core.shapes import broadcast

Tensor = Any


def reduced(what: str, losses: Tensor, reduction: int) -> Tensor:
    """All losses, their mean or their sum."""
    loss.check_reduction(what, reduction)
    if reduction == loss.NONE:
        return losses
    return losses.mean() if reduction == loss.MEAN else losses.sum()


def spread(what: str, grad_output: Tensor, reduction: int, *operands: Tensor) -> Tensor:
    """The gradient of each loss, from the gradient of the mean or the sum; it broadcasts."""
    loss.check_reduction(what, reduction)
    if reduction != loss.MEAN:
        return grad_output
    shape = broadcast(what, *(tuple(t.shape) for t in operands))
    return grad_output / max(math.prod(shape), 1)


def finite_where_unused(logarithms: Tensor, factors: Tensor) -> Tensor:
    """Logarithms that are -∞ and have the factor 0 as 0, since 0 log 0 counts as 0."""
    unused = (factors == 0) & (logarithms == -math.inf)
    return ops.where(unused, 0, logarithms)
