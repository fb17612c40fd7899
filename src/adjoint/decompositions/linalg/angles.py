"""Angles between vectors."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.errors import DtypeError
from adjoint.core.promotion import promote_types

Tensor = Any


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int, eps: float) -> Tensor:
    """⟨x₁, x₂⟩ over the lengths of both, each at least eps."""
    common = promote_types(x1.dtype, x2.dtype)
    if not common.is_floating_point:
        raise DtypeError(
            f"cosine_similarity: needs real floating point vectors, got {common}; convert it."
        )
    x1, x2 = ops.broadcast_tensors([x1.to(common), x2.to(common)])
    return (ops._direction(x1, (dim,), eps) * ops._direction(x2, (dim,), eps)).sum((dim,))
