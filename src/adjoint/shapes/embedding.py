"""Shape rules of embeddings."""

from __future__ import annotations

from adjoint.checks import embedding as rules
from adjoint.core.shapes import Spec


def embedding(
    weight: Spec, indices: Spec, padding_idx: int, scale_grad_by_freq: bool, sparse: bool
) -> Spec:
    """A row for each index."""
    rules.check("embedding", weight, indices)
    return Spec((*indices.shape, weight.shape[1]), weight.dtype)
