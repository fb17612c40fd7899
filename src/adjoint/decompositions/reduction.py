"""Reductions in terms of smaller operators.

What these compute equals the kernels; the rows' own formulas are used for derivatives, because they
know the kinks (norms at zero) and keep less in memory.
"""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, reduced, wrap_dim, wrap_dims

Tensor = Any
Dims = Shape | None

_MARGIN = 1e-7  # PyTorch's: keeps a shrunk slice just inside maxnorm


def unreduce(self: Tensor, dim: Dims, shape: Shape, keepdim: bool) -> Tensor:
    """Put reduced dimensions back and repeat along them."""
    if not keepdim:
        kept = reduced(tuple(shape), wrap_dims("sum", dim, len(shape)), keepdim=True)
        self = self.reshape(kept)
    return self.expand(shape)


def other_factors(self: Tensor, dim: int | None) -> Tensor:
    """∏_{j≠i} x[j]: what comes before i times what comes after.

    Dividing the product by x[i] would be shorter, and wrong as soon as an x[i] is 0.
    """
    if dim is None:
        return other_factors(self.reshape((-1,)), 0).reshape(self.shape)
    before = ops._shift(self, dim, 1, 1).cumprod(dim)
    if self.ndim == 0:
        return before
    return before * ops._shift(self, dim, -1, 1).flip((dim,)).cumprod(dim).flip((dim,))


def unselect(grad: Tensor, dim: int, indices: Tensor, sizes: Shape, keepdim: bool) -> Tensor:
    """Zeros of shape `sizes` with `grad` at `indices` along `dim`."""
    if len(sizes) == 0:
        return grad.clone()
    if not keepdim:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return ops.zeros(sizes, dtype=grad.dtype).scatter(dim, indices, grad)


def tie_weights(self: Tensor, result: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """1/k at the k elements that attain the extremum; NaN elements share one that is NaN."""
    whole = ops._unreduce(result, dim, self.shape, keepdim)
    mask = (self == whole) | ((self != self) & (whole != whole))  # nanmedian passes NaN over
    return mask.to(self.dtype) / mask.sum(dim, True).to(self.dtype)


def exp_difference(self: Tensor, other: Tensor) -> Tensor:
    """exp(a - b), where two equal infinities give 0 if negative and 1 if positive (not NaN)."""
    a, b = (self.real, other.real) if self.is_complex() else (self, other)
    same = (a == b) & b.isinf()
    value = (self - other).masked_fill(same, 0).exp()
    return ops.where(same, (b > 0).to(value.dtype), value)


def logsumexp(self: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """log Σ exp(x - top) + top."""
    if not self.dtype.is_differentiable:
        self = self.to(dtypes.DEFAULT.dtype)
    size = self.real if self.is_complex() else self
    axes = wrap_dims("logsumexp", dim, self.ndim)
    if math.prod(self.shape[a] for a in axes) == 0:
        return ops.full(reduced(self.shape, axes, keepdim), -math.inf, dtype=self.dtype)
    top = size.amax(axes, True)
    nothing = top == -math.inf  # log 0, whose derivative is 0 here and not 0/0
    top = top.masked_fill(top.isinf(), 0)
    total = (self - top).exp().sum(axes, True)
    result = ops.where(nothing, -math.inf, ops.where(nothing, 1, total).log() + top)
    return result if keepdim else result.reshape(reduced(self.shape, axes, keepdim=False))


def root(self: Tensor) -> Tensor:
    """√x, with the derivative 0 at 0."""
    zero = self == 0
    return ops.where(zero, 0, ops.where(zero, 1, self).sqrt())


def std(self: Tensor, dim: Dims, correction: Any, keepdim: bool) -> Tensor:
    """The root of the variance; where all elements are equal the derivative is 0."""
    return root(self.var(dim, correction=correction, keepdim=keepdim))


def vector_norm(
    self: Tensor, ord: float, dim: Dims, keepdim: bool, dtype: dtypes.DType | None
) -> Tensor:
    """(Σ |x|^p)^(1/p)."""
    if dtype is not None:
        self = self.to(dtype)
    if ord == 2:
        size = self.real.square() + self.imag.square() if self.is_complex() else self * self
        return root(size.sum(dim, keepdim))
    size = self.abs()
    if ord == math.inf:
        return size.amax(dim or (), keepdim)
    if ord == -math.inf:
        return size.amin(dim or (), keepdim)
    if ord == 0:
        return (size != 0).to(size.dtype).sum(dim, keepdim)
    if ord == 1:
        return size.sum(dim, keepdim)
    if ord > 0:
        total = size.pow(ord).sum(dim, keepdim)
        zero = total == 0
    else:
        zero = (size == 0).any(dim, keepdim)
        total = ops.where(size == 0, 1, size).pow(ord).sum(dim, keepdim)
    return ops.where(zero, 0, ops.where(zero, 1, total).pow(1.0 / ord))  # derivative 0 at 0


def named_norm(
    self: Tensor, p: str, dim: Dims, keepdim: bool, dtype: dtypes.DType | None
) -> Tensor:
    """The Frobenius norm is the 2-norm of all elements, the nuclear norm a matrix norm."""
    if p == "fro":
        return ops.linalg_vector_norm(self, 2, dim, keepdim, dtype=dtype)
    if p != "nuc":
        raise ValueRangeError(f"norm: p is a number, 'fro' or 'nuc', got {p!r}")
    if dim is None and self.ndim != 2:
        raise ShapeError(
            f"norm: the nuclear norm of {self.ndim} dimensions needs two of them as dim"
        )
    axes = (0, 1) if dim is None else dim
    return ops.linalg_matrix_norm(self, "nuc", axes, keepdim, dtype=dtype)


def renorm(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Shrink each slice along `dim` whose p-norm exceeds `maxnorm` to that norm."""
    if self.ndim < 2:
        raise ShapeError(f"renorm: needs at least 2 dimensions, got {self.ndim}")
    if not p > 0:
        raise ValueRangeError(f"renorm: p must be positive, got {p}")
    if not maxnorm >= 0:
        raise ValueRangeError(f"renorm: maxnorm must not be negative, got {maxnorm}")
    dim = wrap_dim("renorm", dim, self.ndim)
    others = tuple(d for d in range(self.ndim) if d != dim)
    wide = dtypes.float32 if self.dtype.np in dtypes.REDUCED else None
    norm = ops.linalg_vector_norm(self, p, others, True, dtype=wide)
    factor = ops.where(norm > maxnorm, maxnorm / (norm + _MARGIN), ops.ones_like(norm))
    return self * (factor if wide is None else factor.to(self.dtype))


def var(self: Tensor, dim: Dims, correction: float | None, keepdim: bool) -> Tensor:
    """Σ |x - mean|² / (n - correction)."""
    count = math.prod(self.shape[d] for d in wrap_dims("var", dim, self.ndim))
    degrees = max(count - (1 if correction is None else correction), 0)
    centred = self - self.mean(dim, True)
    if self.is_complex():
        squares = centred.real.square() + centred.imag.square()
    else:
        squares = centred * centred
    return squares.sum(dim, keepdim) / degrees


def mean(self: Tensor, dim: Dims, keepdim: bool, dtype: dtypes.DType | None) -> Tensor:
    """Σ x / n."""
    count = math.prod(self.shape[d] for d in wrap_dims("mean", dim, self.ndim))
    given = self.dtype if dtype is None else dtype
    if not given.is_differentiable:
        raise DtypeError(f"mean: {given.name} has no mean; give dtype=, or convert first")
    return self.sum(dim, keepdim, dtype=dtype) / count
