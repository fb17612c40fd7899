"""Angles between vectors."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.errors import DtypeError

Tensor = Any


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int, eps: float) -> Tensor:
    """⟨x₁, x₂⟩ over the lengths of both, each at least eps."""
    x1, x2 = ops.broadcast_tensors([x1, x2])
    for x in (x1, x2):
        if not x.dtype.is_floating_point:
            raise DtypeError(
                f"cosine_similarity: needs real floating point vectors, got {x.dtype}; convert it."
            )
    units = [x / ops.linalg_vector_norm(x, 2, (dim,), True).clamp_min(eps) for x in (x1, x2)]
    return (units[0] * units[1]).sum((dim,))
