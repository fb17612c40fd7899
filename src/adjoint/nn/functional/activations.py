"""Activation functions: words of their rows, and those that are longer than an expression."""

from __future__ import annotations

import math

from adjoint import ops
from adjoint.core.errors import ValueRangeError
from adjoint.core.source_lines import warn
from adjoint.tensor.tensor import Tensor


def ordered(min_val: float, max_val: float) -> tuple[float, float]:
    """The limits of hardtanh."""
    if min_val > max_val:
        raise ValueRangeError(
            f"hardtanh(min_val={min_val}, max_val={max_val}): min_val must not exceed max_val."
        )
    return min_val, max_val


def slopes(lower: float, upper: float) -> tuple[float, float]:
    """The limits of the random slopes of rrelu."""
    if not -math.inf < lower <= upper < math.inf:
        raise ValueRangeError(
            f"rrelu(lower={lower}, upper={upper}): slopes lie between finite numbers, lower first."
        )
    return lower, upper


def summed_dim(what: str, input: Tensor, dim: int | None) -> int:
    """The dimension that is summed; PyTorch's old choice, and a warning, where none is given."""
    if dim is not None:
        return dim
    chosen = 0 if input.ndim in (0, 1, 3) else 1
    warn(
        f"{what}() chooses dim={chosen} for {input.ndim} dimensions; give dim=, the dimension "
        "along which the result sums to 1."
    )
    return chosen


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A random point of the simplex near a corner; with `hard` the corner, with its gradient.

    >>> import adjoint as ad
    >>> sample = ad.nn.functional.gumbel_softmax(ad.zeros(2, 3), hard=True)
    >>> sample.sum(1)
    tensor([1., 1.])
    """
    noise = -ops.exponential(logits.detach()).log()
    soft = ops.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    corner = ops.zeros_like(logits).scatter(dim, soft.argmax(dim, True), 1.0)
    return corner - soft.detach() + soft
