"""Shapes of the primitives of sparse matrices."""

from __future__ import annotations

from adjoint.checks.sparse import check_inexact
from adjoint.core.shapes import Spec


def product(rows: Spec, columns: Spec, values: Spec, dense: Spec, size: int) -> Spec:
    """A matrix with `size` rows."""
    return Spec((size, dense.shape[1]), dense.dtype)


def sample(rows: Spec, columns: Spec, left: Spec, right: Spec) -> Spec:
    """One number for each element."""
    check_inexact("_sparse_sample", left.dtype)
    return Spec(rows.shape, left.dtype)


def solve(rows: Spec, columns: Spec, values: Spec, right: Spec) -> Spec:
    """As the right side."""
    check_inexact("_sparse_solve", values.dtype)
    return Spec(right.shape, right.dtype)
