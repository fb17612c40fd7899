"""Reductions in terms of smaller operators.

What these compute equals the kernels; the rows' own formulas are used for derivatives, because they
know the kinks (norms at zero) and keep less in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, reduced, wrap_dim, wrap_dims
from adjoint.decompositions.halves import wide
from adjoint.decompositions.pointwise import root_above
from adjoint.kinks.infinitesimal import infinitesimal

Tensor = Any
Dims = Shape | None

_LARGEST = 1.7976931348623157e308  # of float64
_MARGIN = 1e-7  # PyTorch's: keeps a shrunk slice just inside maxnorm


def unreduce(self: Tensor, dim: Dims, shape: Shape, keepdim: bool) -> Tensor:
    """Put reduced dimensions back and repeat along them."""
    if not keepdim:
        kept = reduced(tuple(shape), wrap_dims("sum", dim, len(shape)), keepdim=True)
        self = self.reshape(kept)
    return self.expand(shape)


def other_factors(self: Tensor, dim: int | None) -> Tensor:
    """∏_{j≠i} x[j]: the product before i times the product after.

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
    return ops._gather_backward(grad, sizes, dim, indices)


def all_dims(self: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """Not any that is not; uint8 stays uint8, as in PyTorch."""
    result = self.logical_not().any(dim, keepdim).logical_not()
    return result.to(self.dtype) if self.dtype is dtypes.uint8 else result


def argmax(self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    """The first place of the largest element; NaN is larger than all."""
    return _first_place(self, dim, keepdim, "amax")


def argmin(self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    """The first place of the smallest element; NaN is smaller than all."""
    return _first_place(self, dim, keepdim, "amin")


def _first_place(self: Tensor, dim: int | None, keepdim: bool, extremum: str) -> Tensor:
    if dim is None:
        first = _first_place(self.reshape((-1,)), 0, False, extremum)
        return first.reshape((1,) * self.ndim) if keepdim else first
    if self.ndim == 0:
        return ops.zeros((), dtype=dtypes.int64)
    dim = wrap_dim("argmax", dim, self.ndim)
    count = self.shape[dim]
    attains = self == getattr(self, extremum)((dim,), True)
    if self.dtype.is_floating_point:
        attains = attains | (self != self)  # an extremum that is NaN equals nothing
    places = ops.arange(count).reshape((count,) + (1,) * (self.ndim - 1 - dim))
    return ops.where(attains, places, count).amin((dim,), keepdim)


def max_dim(self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The largest elements, which alone get the gradient, and where they are."""
    return _at(self, dim, keepdim, self.argmax(dim, True))


def min_dim(self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The smallest elements, and where they are."""
    return _at(self, dim, keepdim, self.argmin(dim, True))


def _at(self: Tensor, dim: int, keepdim: bool, indices: Tensor) -> tuple[Tensor, Tensor]:
    if self.ndim == 0:
        return self.clone(), indices
    values = self.gather(dim, indices)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


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
    if self.is_complex():
        total = (self - top).exp().sum(axes, True)
        found = ops.where(nothing, 1, total).log()
    else:
        found = logarithm_of_sum(self, top, axes)
    result = ops.where(nothing, -math.inf, found + top)
    return result if keepdim else result.reshape(reduced(self.shape, axes, keepdim=False))


def logarithm_of_sum(self: Tensor, top: Tensor, dim: Dims) -> Tensor:
    """log Σ exp(x - t), where t is the largest x with dimensions kept: log1p of the other terms,
    since small terms would vanish when added to 1; NaN where t is infinite. Less 1, a term exp(0)
    keeps its derivatives.
    """
    largest, powers = self == top, ops._exp_difference(self, top)
    others = ops.where(largest, powers - 1, powers)
    more = largest.to(self.dtype).sum(dim, True) - 1
    return (others.sum(dim, True) + more + (top - top)).log1p()


def exp_shares(self: Tensor, top: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """exp(x - t) / Σ exp(x - t); 0 if all x are -inf, equal shares among x of +inf."""
    powers = ops._exp_difference(self, ops._unreduce(top, dim, self.shape, keepdim))
    total = powers.sum(dim, True)
    return powers / total.masked_fill(total == 0, 1)


def root(self: Tensor) -> Tensor:
    """√x, with the derivative 0 at 0."""
    zero = self == 0
    return ops.where(zero, 0, ops.where(zero, 1, self).sqrt())


# Sums of squares in between have lost nothing: see kernels/reduction/scaling.py.
SAFE = {dtypes.float32: (2.0**-90, 2.0**126), dtypes.float64: (2.0**-960, 2.0**1022)}


def _squares(self: Tensor) -> Tensor:
    """|x|²."""
    return self.real.square() + self.imag.square() if self.is_complex() else self * self


def _sizes(self: Tensor) -> Tensor:
    """|x| of real numbers, and of complex ones at most √2 times as much."""
    return self.real.abs() + self.imag.abs() if self.is_complex() else self.abs()


def are_safe(squares: Tensor, self: Tensor, dim: Dims) -> Tensor:
    """Which sums of squares, dimensions kept, have lost nothing to overflow or underflow."""
    least, most = SAFE[squares.dtype]
    sizes = _sizes(self).sum(dim, True)
    lost = (squares <= least) & (sizes > 0) | (squares >= most) & (sizes < math.inf)
    return lost.logical_not()


def scales(self: Tensor, dim: Dims) -> Tensor:
    """The largest |x| over `dim`, kept; 1 where that is 0 or no number."""
    top = _sizes(self.detach()).amax(dim or (), True)
    return top.masked_fill((top == 0) | ~top.isfinite(), 1)


def length(self: Tensor, dim: Dims, degrees: float = 1) -> Tensor:
    """√(Σ |x|² / degrees), dimensions kept; where squares leave their range, of x / max |x|."""
    squares = _squares(self).sum(dim, True)
    if not self.numel():
        return squares
    scale = scales(self, dim)
    careful = root(_squares(self / scale).sum(dim, True) / degrees) * scale
    return ops._mostly(are_safe(squares, self, dim), root(squares / degrees), careful)


def std(self: Tensor, dim: Dims, correction: Any, keepdim: bool) -> Tensor:
    """The root of the variance; where all elements are equal the derivative is 0."""
    degrees = _degrees(self, dim, correction)
    if not degrees:
        return root(self.var(dim, correction=correction, keepdim=keepdim))
    x = wide(self)
    found = length(x - x.mean(dim, True), dim, degrees).to(self.dtype.to_real())
    return found if keepdim else _without_dims(found, self.shape, dim)


def _without_dims(result: Tensor, shape: Shape, dim: Dims) -> Tensor:
    """A result whose dimensions were kept without these."""
    return result.reshape(reduced(tuple(shape), wrap_dims("sum", dim, len(shape)), keepdim=False))


def vector_norm(
    self: Tensor, ord: float, dim: Dims, keepdim: bool, dtype: dtypes.DType | None
) -> Tensor:
    """(Σ |x|^p)^(1/p)."""
    if dtype is not None:
        self = self.to(dtype)
    if ord == 2:
        found = length(wide(self), dim).to(self.dtype.to_real())
        return found if keepdim else _without_dims(found, self.shape, dim)
    size = self.abs()
    if ord == math.inf:
        return size.amax(dim or (), keepdim)
    if ord == -math.inf:
        return size.amin(dim or (), keepdim)
    if ord == 0:
        return (size != 0).to(size.dtype).sum(dim, keepdim)
    if ord == 1:
        return size.sum(dim, keepdim)
    found = _length_by_powers(wide(size), ord, dim).to(size.dtype)
    return found if keepdim else _without_dims(found, self.shape, dim)


def _length_by_powers(size: Tensor, p: float, dim: Dims) -> Tensor:
    """(Σ |x|^p)^(1/p), dimensions kept; where powers leave their range, of x / the extreme |x|."""
    terms = size.masked_fill(size == 0, 1) if p < 0 else size
    total = terms.pow(p).sum(dim, True)
    if not size.numel():
        return total
    extreme = (size.amax if p > 0 else size.amin)(dim or (), True)
    zero = extreme == 0
    scale = extreme.detach().masked_fill(zero | ~extreme.isfinite(), 1)
    careful = (terms / scale).pow(p).sum(dim, True)
    least, most = _SAFE_POWERS[total.dtype]
    lost = (total <= least) & (extreme > 0) | (total >= most) & (extreme < math.inf)
    return ops._mostly(
        lost.logical_not(), _power(total, 1 / p, zero), _power(careful, 1 / p, zero) * scale
    )


# The rounding error of 1/p is multiplied by the logarithm of the sum.
_SAFE_POWERS = {dtypes.float32: (2.0**-64, 2.0**64), dtypes.float64: (2.0**-320, 2.0**320)}


def _power(total: Tensor, exponent: float, zero: Tensor) -> Tensor:
    """A power of a sum, and 0 with the derivative 0 in some places."""
    return ops.where(zero, 0, ops.where(zero, 1, total).pow(exponent))


def nearby(self: Tensor) -> Tensor:
    """The numbers as complex ones, with iδ in place of 0."""
    return self.to(dtypes.complex128).masked_fill(self == 0, 1j * infinitesimal(self.dtype.np))


def length_nearby(
    self: Tensor, ord: Any, dim: Dims, keepdim: bool, dtype: Any, *, exact: Sequence[Any]
) -> Tensor:
    """√Σ x², of numbers that have an infinitely small part; it is no modulus of complex ones."""
    length = ops.linalg_vector_norm(exact[0].detach(), 2, dim, keepdim)
    return root_above((self * self).sum(dim, keepdim), length)


def std_nearby(
    self: Tensor, dim: Dims, correction: Any, keepdim: bool, *, exact: Sequence[Any]
) -> Tensor:
    """The standard deviation for values near 0."""
    away = self - self.mean(dim, True)
    size = (away * away).sum(dim, keepdim) / _degrees(self, dim, correction)
    return root_above(size, exact[0].detach().std(dim, correction=correction, keepdim=keepdim))


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
    is_half = self.dtype in dtypes.HALVES
    kind = self.dtype.wide if is_half else None
    norm = ops.linalg_vector_norm(self, p, others, True, dtype=kind)
    if is_half:
        factor = ops.where(norm > maxnorm, maxnorm / (norm + _MARGIN), ops.ones_like(norm))
        return self * factor.to(self.dtype)
    shrunk = ops._directed(ops.full_like(norm, maxnorm), self, norm + _MARGIN)
    return ops.where(norm > maxnorm, shrunk, self)


def var(self: Tensor, dim: Dims, correction: float | None, keepdim: bool) -> Tensor:
    """Σ |x - mean|² / (n - correction)."""
    degrees = _degrees(self, dim, correction)
    centred = self - self.mean(dim, True)
    return _squares(centred).sum(dim, keepdim) / degrees


def _degrees(self: Tensor, dim: Dims, correction: float | None) -> float:
    """n - correction, or 0."""
    count = math.prod(self.shape[d] for d in wrap_dims("var", dim, self.ndim))
    return max(count - (1 if correction is None else correction), 0)


def mean(self: Tensor, dim: Dims, keepdim: bool, dtype: dtypes.DType | None) -> Tensor:
    """Σ x / n."""
    count = math.prod(self.shape[d] for d in wrap_dims("mean", dim, self.ndim))
    given = self.dtype if dtype is None else dtype
    if not given.is_differentiable:
        raise DtypeError(f"mean: {given.name} has no mean; give dtype=, or convert first")
    return self.sum(dim, keepdim, dtype=dtype) / count


def cov(self: Tensor, correction: int, fweights: Tensor | None, aweights: Tensor | None) -> Tensor:
    """Σ w (x - x̄)(y - ȳ)ᴴ / (Σ w - correction), w = fweights · aweights.

    With aweights a the correction counts Σ w a / Σ w times.
    """
    if self.ndim > 2:
        raise ShapeError(f"cov: needs variables × observations, got {self.ndim} dimensions.")
    if self.dtype is dtypes.bool_:
        raise DtypeError("cov: booleans have no covariance; convert them.")
    rows = self.reshape((1, -1)) if self.ndim < 2 else self
    weights = _observation_weights(rows.shape[1], fweights, aweights)
    if weights is None:
        total = rows.shape[1]
        away = weighted = rows - rows.sum((1,), True) / total
        divisor = max(total - correction, 0)
    else:
        total = weights.sum()
        away = rows - (rows * weights).sum((1,), True) / total
        weighted = away * weights
        share = 1 if aweights is None else (weights * aweights).sum() / total
        divisor = (total - correction * share).clamp(min=0)
    return ((away @ weighted.mH) / divisor).squeeze()


def _observation_weights(
    count: int, fweights: Tensor | None, aweights: Tensor | None
) -> Tensor | None:
    """The product of the weights that are given."""
    if fweights is not None and fweights.dtype.is_differentiable:
        raise DtypeError(f"cov: fweights counts, so it has integers, not {fweights.dtype}.")
    if aweights is not None and not aweights.dtype.is_floating_point:
        raise DtypeError(f"cov: aweights must be real floating point, got {aweights.dtype}.")
    given = [w for w in (fweights, aweights) if w is not None]
    for each in given:
        if each.ndim > 1 or each.numel() != count:
            raise ShapeError(f"cov: {count} observations need {count} weights in one dimension.")
    if not given:
        return None
    first, *more = (ops._within(w, 0, _LARGEST, "cov: weights") for w in given)
    return first * more[0] if more else first


def corrcoef(self: Tensor) -> Tensor:
    """c / √(d dᵀ), d the diagonal of c = x xᴴ, of observations of mean 0: on the diagonal 1.

    They are scaled by their largest, so that no square overflows.
    """
    if self.ndim != 2 or self.shape[0] == 1:
        found = ops.cov(self)
        return found / found
    rows = self if self.dtype.is_differentiable else self.to(dtypes.DEFAULT.dtype)
    away = rows - rows.mean((1,), True)
    away = away / scales(away, (1,))
    products = away @ away.mH
    squares = products.diagonal().real if products.is_complex() else products.diagonal()
    ratio = products / squares.outer(squares).sqrt()
    if ratio.is_complex():
        return ops.complex(ratio.real.clamp(-1, 1), ratio.imag.clamp(-1, 1))
    return ratio.clamp(-1, 1)
