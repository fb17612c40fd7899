"""Normalizations: words of their rows, and those that are longer than an expression."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint import ops
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.tensor.tensor import Tensor


def several(what: str, input: Tensor, groups: Sequence[int], training: bool) -> Tensor:
    """The input, in which a variance needs more than one value in each of the groups."""
    if training and input.ndim > 1 and input.numel() // max(math.prod(groups), 1) == 1:
        raise ShapeError(
            f"{what}: needs more than one value per channel to train on, got {show(input.shape)}."
        )
    return input


def eps_for(training: bool, eps: float) -> float:
    """The eps of batch_norm."""
    if training and eps <= 0:
        raise ValueRangeError(f"batch_norm(eps={eps}): eps must be positive while training.")
    return eps


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha · mean of x² over `size` neighbouring channels)^beta.

    >>> import adjoint as ad
    >>> ad.nn.functional.local_response_norm(ad.ones(1, 2, 3), size=2).shape
    (1, 2, 3)
    """
    if input.ndim < 3:
        raise ShapeError(
            f"local_response_norm: needs at least 3 dimensions, got {show(input.shape)}."
        )
    if input.numel() == 0:
        return input
    around = (*(0, 0) * (input.ndim - 2), size // 2, (size - 1) // 2)
    means = ops.constant_pad_nd(input * input, around).unfold(1, size, 1).mean((-1,))
    return input / (means * alpha + k) ** beta


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """x / max(‖x‖ₚ, eps) along `dim`.

    >>> import adjoint as ad
    >>> ad.nn.functional.normalize(ad.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    length = ops.linalg_vector_norm(input, p, dims, True).clamp_min(eps)
    return ops.div(input, length) if out is None else ops.div(input, length, out=out)
