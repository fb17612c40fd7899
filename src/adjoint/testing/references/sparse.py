"""Sparse operators on dense arrays: a stored element is one that is not zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def same(self: Array, *rest: Any, **more: Any) -> Array:
    """Another layout holds the same elements."""
    return self


def placed(
    sparse_dim: int, dense_dim: int, size: Any, indices: Array, values: Array, **_: Any
) -> Array:
    """Values at their coordinates, one after the other."""
    out = np.zeros(size, values.dtype)
    for place, value in zip(indices.T, values, strict=True):
        out[tuple(place)] += value
    return out


def diagonals(diagonals: Array, offsets: Array, shape: Any, layout: Any = None) -> Array:
    """Element j of each diagonal in column j."""
    out = np.zeros(shape, diagonals.dtype)
    for row, offset in zip(np.atleast_2d(diagonals), offsets.reshape(-1), strict=True):
        for j, value in enumerate(row):
            if 0 <= j - offset < shape[0] and j < shape[1]:
                out[j - offset, j] = value
    return out


def summed(self: Array, dim: Any = None, dtype: Any = None) -> Array:
    """The sum over dimensions; no sample asks for another dtype than complex128."""
    wide = self if dtype is None else self.astype(np.complex128)
    return np.asarray(wide.sum(None if dim is None else tuple(np.atleast_1d(dim))))


def softmax(*, log: bool) -> Callable[..., Array]:
    """Of the elements that are stored."""

    def reference(self: Array, dim: int, *_: Any, **more: Any) -> Array:
        stored = self != 0
        shifted = np.where(stored, self.astype(np.float64) if more else self, -np.inf)
        found = shifted - np.log(np.exp(shifted).sum(dim, keepdims=True))
        return np.where(stored, found if log else np.exp(found), 0)

    return reference


def added(self: Array, mat1: Array, mat2: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    """β self + α mat1 @ mat2."""
    return beta * self + alpha * (mat1 @ mat2)


def sampled(self: Array, mat1: Array, mat2: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    """The same where `self` is stored."""
    return np.where(self != 0, added(self, mat1, mat2, beta, alpha), 0)


def reduced(self: Array, other: Array, reduce: str) -> Array:
    """The products of each row, joined."""
    out = np.zeros((self.shape[0], other.shape[1]), np.result_type(self, other))
    function: Any = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min}[reduce]
    for i, row in enumerate(self):
        stored = row != 0
        if stored.any():
            out[i] = function(row[stored, None] * other[stored], axis=0)
    return out


def product(rows: Array, columns: Array, values: Array, dense: Array, size: int) -> Array:
    """Element by element."""
    out = np.zeros((size, dense.shape[1]), dense.dtype)
    for r, c, v in zip(rows, columns, values, strict=True):
        out[r] += v * dense[c]
    return out


def solved(A: Array, B: Array, left: bool = True) -> Array:
    """With a dense matrix."""
    return np.linalg.solve(A, B) if left else np.linalg.solve(A.T, B.T).T


def solved_elements(rows: Array, columns: Array, values: Array, right: Array) -> Array:
    """With a dense matrix, made of its elements."""
    return np.linalg.solve(
        product(rows, columns, values, np.eye(len(right), dtype=values.dtype), len(right)), right
    )


REFERENCES: dict[str, Callable[..., Any]] = {
    "_sparse_coo_tensor_with_dims_and_tensors": placed,
    "_coalesce": same, "coalesce": same, "_to_dense": same, "to_dense": same,
    "_to_sparse": same, "to_sparse": same,
    "_to_sparse_csr": same, "_to_sparse_csc": same, "_to_sparse_bsr": same, "_to_sparse_bsc": same,
    "to_sparse_csr": same, "to_sparse_csc": same, "to_sparse_bsr": same, "to_sparse_bsc": same,
    "sparse_mask": lambda self, mask: np.where(mask != 0, self, 0),
    "_spdiags": diagonals, "_sparse_sum": summed,
    "_sparse_softmax": softmax(log=False), "_sparse_log_softmax": softmax(log=True),
    "_sparse_mm.default": np.matmul, "_sparse_mm.reduce": reduced,
    "_sparse_mm_reduce_impl": reduced,
    "_sparse_addmm": added, "_sparse_sparse_matmul": np.matmul, "sparse_sampled_addmm": sampled,
    "_spsolve": solved, "_sparse_product": product,
    "_sparse_sample": lambda rows, columns, left, right: (left[rows] * right[columns]).sum(-1),
    "_sparse_solve": solved_elements,
}  # fmt: skip
