"""Finite differences and integrals by the trapezoidal rule, in terms of smaller operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.errors import DimensionError, DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import show, wrap_dim, wrap_dims

Tensor = Any
Scalar = bool | int | float | complex


def _halves(self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """All elements along `dim` but the last, and all but the first."""
    length = max(self.shape[dim] - 1, 0)
    return self.narrow(dim, 0, length), self.narrow(dim, min(1, self.shape[dim]), length)


def diff(self: Tensor, n: int, dim: int, prepend: Tensor | None, append: Tensor | None) -> Tensor:
    """The n-th differences along `dim`; of booleans, whether neighbours differ."""
    if self.ndim == 0:
        raise ShapeError("diff: needs a tensor with at least one dimension, got a scalar")
    if n < 0:
        raise ValueRangeError(f"diff: the order n must not be negative, got {n}")
    dim = wrap_dim("diff", dim, self.ndim)
    ends = [t for t in (prepend, self, append) if t is not None]
    for end in ends:
        if end.ndim != self.ndim:
            raise ShapeError(
                f"diff: prepend and append must have {self.ndim} dimensions as the tensor, "
                f"got {end.ndim}"
            )
    if n == 0:
        return self.clone()
    if len(ends) > 1:
        self = ops.cat(ends, dim)
    for _ in range(min(n, self.shape[dim])):
        before, after = _halves(self, dim)
        self = after.logical_xor(before) if self.dtype is dtypes.bool_ else after - before
    return self


def shift(self: Tensor, dim: int, by: int, fill: Scalar) -> Tensor:
    """self[k - by] along `dim`, with `fill` where there is no such element."""
    if self.ndim == 0:
        return ops.full_like(self, fill) if by else self.clone()
    length = self.shape[dim]
    kept = max(length - abs(by), 0)
    edge = ops.full_like(self.narrow(dim, 0, length - kept), fill)
    if by >= 0:
        return ops.cat([edge, self.narrow(dim, 0, kept)], dim)
    return ops.cat([self.narrow(dim, length - kept, kept), edge], dim)


# integrals ---------------------------------------------------------------------------------------


def _integrand(what: str, y: Tensor, dim: int) -> tuple[Tensor, int]:
    """The samples, integers as floats so that sums of two cannot wrap, and where they run."""
    if y.ndim == 0:
        raise DimensionError(f"{what}: needs samples along a dimension, got a scalar")
    if not y.dtype.is_differentiable:
        y = y.to(dtypes.get_default_dtype())
    return y, wrap_dim(what, dim, y.ndim)


def _spacings(what: str, y: Tensor, x: Tensor, dim: int) -> Tensor:
    """The differences of the sample points, shaped to be multiplied with samples of `y`."""
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim]:
            raise ShapeError(
                f"{what}: one x for each sample is needed: x has {x.shape[0]}, "
                f"dimension {dim} of y ({show(y.shape)}) has {y.shape[dim]}"
            )
        x = x.reshape((-1,) + (1,) * (y.ndim - 1 - dim))
    missing = y.ndim - x.ndim
    if missing > 0:
        x = x.reshape((1,) * missing + tuple(x.shape))
    if not x.dtype.is_differentiable:
        x = x.to(y.dtype)
    left, right = _halves(x, dim + x.ndim - y.ndim)
    return right - left


def trapezoid_dx(y: Tensor, dx: Scalar, dim: int) -> Tensor:
    """dx (Σ y - (first + last)/2) along `dim`."""
    y, dim = _integrand("trapezoid", y, dim)
    if y.shape[dim] == 0:
        return (y * dx / 2.0).sum((dim,))
    left, right = _halves(y, dim)
    return (left + right).sum((dim,)) * dx / 2.0


def trapezoid_x(y: Tensor, x: Tensor, dim: int) -> Tensor:
    """Σ (x[k+1] - x[k]) (y[k+1] + y[k]) / 2 along `dim`."""
    y, dim = _integrand("trapezoid", y, dim)
    if y.shape[dim] == 0:
        return (y / 2.0).sum((dim,))
    steps = _spacings("trapezoid", y, x, dim)
    left, right = _halves(y, dim)
    terms = (left + right) * steps
    return terms.sum((dim + terms.ndim - y.ndim,)) / 2.0


def cumulative_trapezoid_dx(y: Tensor, dx: Scalar, dim: int) -> Tensor:
    """The running integrals of `trapezoid`, one fewer than there are samples."""
    y, dim = _integrand("cumulative_trapezoid", y, dim)
    left, right = _halves(y, dim)
    return (left + right).cumsum(dim) * dx / 2.0


def cumulative_trapezoid_x(y: Tensor, x: Tensor, dim: int) -> Tensor:
    """The running integrals of `trapezoid`, one fewer than there are samples."""
    y, dim = _integrand("cumulative_trapezoid", y, dim)
    steps = _spacings("cumulative_trapezoid", y, x, dim)
    left, right = _halves(y, dim)
    terms = (left + right) * steps
    return terms.cumsum(dim + terms.ndim - y.ndim) / 2.0


# gradient ----------------------------------------------------------------------------------------


def _slopes_to_gradient(slopes: Tensor, steps: Any, dim: int, edge_order: int) -> Tensor:
    """Derivatives at the samples from the slopes between them.

    Inside, (h₁ s₂ + h₂ s₁) / (h₁ + h₂): each slope is weighted by the other side's step. At an
    edge, the slope there, or for edge_order 2 the parabola's: s₁ + (s₁ - s₂) h₁ / (h₁ + h₂).
    """
    count = slopes.shape[dim]
    first, last = slopes.narrow(dim, 0, 1), slopes.narrow(dim, count - 1, 1)
    if count > 1:
        left, right = _halves(slopes, dim)
        if steps is None:
            inside = (left + right) / 2
            share_first = share_last = 0.5
        else:
            h1, h2 = _halves(steps, 0)
            inside = (right * h1 + left * h2) / (h1 + h2)
            share = h1 / (h1 + h2)
            share_first = share.narrow(0, 0, 1)
            share_last = 1 - share.narrow(0, count - 2, 1)
        if edge_order == 2:
            first = first + (first - slopes.narrow(dim, 1, 1)) * share_first
            last = last + (last - slopes.narrow(dim, count - 2, 1)) * share_last
        return ops.cat([first, inside, last], dim)
    return ops.cat([first, last], dim)


def _gradient_along(self: Tensor, spacing: Any, dim: int, edge_order: int) -> Tensor:
    if self.shape[dim] < edge_order + 1:
        raise ShapeError(
            f"gradient: dimension {dim} needs at least edge_order + 1 = {edge_order + 1} samples, "
            f"got {self.shape[dim]}"
        )
    left, right = _halves(self, dim)
    if isinstance(spacing, (int, float, complex)):
        return _slopes_to_gradient((right - left) / spacing, None, dim, edge_order)
    if spacing.ndim != 1 or spacing.shape[0] != self.shape[dim]:
        raise ShapeError(
            f"gradient: the coordinates of dimension {dim} must be a vector of "
            f"{self.shape[dim]} numbers, got shape {show(spacing.shape)}"
        )
    before, after = _halves(spacing, 0)
    steps = (after - before).reshape((-1,) + (1,) * (self.ndim - 1 - dim))
    return _slopes_to_gradient((right - left) / steps, steps, dim, edge_order)


def _gradient(self: Tensor, spacing: Any, dims: Any, edge_order: int) -> list[Tensor]:
    """The gradient along each of `dims`, with one spacing (number or coordinates) for each."""
    if edge_order not in (1, 2):
        raise ValueRangeError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    if not self.dtype.is_signed:
        raise DtypeError(f"gradient: {self.dtype} has no negative numbers; use x.float() first")
    if dims is not None and not isinstance(dims, int) and len(dims) == 0:
        raise ValueRangeError("gradient: dim is empty; leave it out to mean all dimensions")
    axes = wrap_dims("gradient", dims, self.ndim)
    if not isinstance(spacing, (list, tuple)):
        spacing = [1 if spacing is None else spacing] * len(axes)
    if len(spacing) != len(axes):
        raise ShapeError(
            f"gradient: {len(spacing)} spacings for {len(axes)} dimensions; give one for each, "
            "or one number"
        )
    return [_gradient_along(self, h, d, edge_order) for h, d in zip(spacing, axes, strict=True)]


def gradient(
    self: Tensor, spacing: Scalar | Sequence[Any] | None, dim: Any, edge_order: int
) -> list[Tensor]:
    """Derivatives of sampled values by central differences, one-sided at the edges."""
    return _gradient(self, spacing, dim, edge_order)


def gradient_array(self: Tensor, dim: Sequence[int], edge_order: int) -> list[Tensor]:
    """`gradient` with spacing 1."""
    return _gradient(self, None, dim, edge_order)
