"""Shape rules of scans: the shape stays, the dtype follows PyTorch."""

from __future__ import annotations

from adjoint.checks.sorting import check_ordered
from adjoint.core import dtypes
from adjoint.core.dtypes import DEFAULT, DType
from adjoint.core.shapes import Spec, broadcast, wrap_dim


def _accumulated(what: str, self: Spec, dim: int, dtype: DType | None) -> Spec:
    wrap_dim(what, dim, self.ndim)
    if dtype is None:
        dtype = self.dtype if self.dtype.is_differentiable else dtypes.int64
    return Spec(self.shape, dtype)


def cumsum(self: Spec, dim: int, dtype: DType | None) -> Spec:
    """Integers and booleans become int64."""
    return _accumulated("cumsum", self, dim, dtype)


def cumprod(self: Spec, dim: int, dtype: DType | None) -> Spec:
    """Integers and booleans become int64."""
    return _accumulated("cumprod", self, dim, dtype)


def logcumsumexp(self: Spec, dim: int) -> Spec:
    """Integers and booleans become the default float."""
    wrap_dim("logcumsumexp", dim, self.ndim)
    return Spec(self.shape, self.dtype if self.dtype.is_differentiable else DEFAULT.dtype)


def running_extremum(self: Spec, dim: int) -> tuple[Spec, Spec]:
    """Values, and int64 indices."""
    check_ordered("cummax", self.dtype)
    wrap_dim("cummax", dim, self.ndim)
    return self, Spec(self.shape, dtypes.int64)


def linear_recurrence(a: Spec, b: Spec, dim: int, reverse: bool) -> Spec:
    """The common shape."""
    return Spec(broadcast("_linear_recurrence", a.shape, b.shape), b.dtype)
