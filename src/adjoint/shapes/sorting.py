"""Shape rules of sorting and selecting."""

from __future__ import annotations

from adjoint.core import dtypes
from adjoint.core.shapes import Spec, wrap_dim


def argsort(self: Spec, dim: int, descending: bool) -> Spec:
    """int64 indices."""
    wrap_dim("argsort", dim, self.ndim)
    return Spec(self.shape, dtypes.int64)




def sort(self: Spec, dim: int, descending: bool) -> tuple[Spec, Spec]:
    """Values, and int64 indices."""
    wrap_dim("sort", dim, self.ndim)
    return self, Spec(self.shape, dtypes.int64)


def sort_stable(
    self: Spec, stable: bool | None, dim: int, descending: bool
) -> tuple[Spec, Spec]:
    """Values, and int64 indices."""
    return sort(self, dim, descending)
