"""Shared by rules of embeddings, without data: shapes and dtypes, with the errors."""

from __future__ import annotations

from typing import Any

from adjoint.checks import indexing
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import show


def check(what: str, weight: Any, indices: Any) -> None:
    """Raise unless `weight` holds rows and `indices` integers."""
    if weight.ndim != 2:
        raise ShapeError(
            f"{what}: the weight must be a matrix of one row for each index, got "
            f"{show(weight.shape)}."
        )
    indexing.check_integers(what, indices)
