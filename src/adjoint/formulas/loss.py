"""Derivatives of losses that are too long for a row."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.checks import loss
from adjoint.core import dtypes

Tensor = Any
SMALLEST_CHANCE = 3.720075976020836e-44  # its logarithm is -100, the bound in binary_cross_entropy


def nll_loss_self_vjp(
    grad_output: Tensor | None,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor | None:
    """The total weight does not depend on the input."""
    if grad_output is None:
        return None
    return ops.nll_loss_backward(
        grad_output, self, target, weight, reduction, ignore_index, total_weight
    )


def nll_loss_weight_vjp(
    grad_output: Tensor | None,
    grad_total_weight: Tensor | None,
    self: Tensor,
    target: Tensor,
    weight: Tensor,
    reduction: int,
    ignore_index: int,
    output: Tensor,
    total_weight: Tensor,
) -> Tensor:
    """w̄ᶜ = Σ ḡ (ℓ - output)/W + W̄ over the samples of class c, where ℓ = -x at the class.

    That is of the mean; other reductions have neither the output nor W in it.
    """
    dim = loss.class_dim(self.ndim)
    target = target.reshape(loss.without_classes(self.shape))
    kept = target != ignore_index
    places = target.masked_fill(~kept, 0).to(dtypes.int64)  # uint8 would be a mask
    share = ops.zeros(places.shape, dtype=self.dtype)
    if grad_output is not None:
        losses = -self.gather(dim, places.unsqueeze(dim)).squeeze(dim)
        mean = reduction == loss.MEAN
        share = (losses - output) * (grad_output / total_weight) if mean else losses * grad_output
    if grad_total_weight is not None and not (reduction == loss.NONE and self.ndim > 1):
        share = share + grad_total_weight
    share = share.masked_fill(~kept, 0).to(weight.dtype)
    return ops._index_backward(share, weight.shape, [places])


def linear_cross_entropy_vjp(
    grad: Tensor,
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    ignore_index: int,
    samples: int,
    wanted: Any,
) -> tuple[Tensor | None, ...]:
    """The gradients of input, weight and bias, by one pass over the samples."""
    found = ops._linear_cross_entropy_backward(
        grad, input, linear_weight, target, linear_bias, ignore_index, samples
    )
    return tuple(gradient if needed else None for gradient, needed in zip(found, wanted))


def per_chance(factor: Tensor, chance: Tensor, n: int) -> Tensor:
    """f/pⁿ, and 0 where binary_cross_entropy's logarithm has ended."""
    ended = chance <= SMALLEST_CHANCE
    return ops._over_power(factor, chance.masked_fill(ended, 1), n).masked_fill(ended, 0)
