"""Functions of vectors with PyTorch's signatures in Python."""

from __future__ import annotations

from typing import Any

from adjoint import ops

Tensor = Any


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """x / max(‖x‖ₚ, eps) along `dim`."""
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    length = ops.linalg_vector_norm(input, p, dims, True).clamp_min(eps)
    return ops.div(input, length) if out is None else ops.div(input, length, out=out)
