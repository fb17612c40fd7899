"""Derivatives of pooling: elements at indices of planes or volumes."""

from __future__ import annotations

from typing import Any

from adjoint.formulas.indexing import scatter_src_vjp

Tensor = Any


def at_indices(x: Tensor, indices: Tensor, dims: int) -> Tensor:
    """x[…, indices], where an index counts the elements of the last dimensions."""
    taken = x.flatten(-dims).gather(-1, indices.flatten(-dims))
    return taken.reshape(indices.shape)


def max_unpool_vjp(grad: Tensor, indices: Tensor, dims: int) -> Tensor:
    """x̄ = ȳ at the indices, 0 for an element that another one overwrote."""
    flat = indices.flatten(-dims)
    taken = scatter_src_vjp(grad.flatten(-dims), -1, flat, tuple(flat.shape))
    return taken.reshape(indices.shape)
