"""Cross products, Vandermonde matrices and distances from elementwise operators."""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.checks.linalg import check_point_dtypes, check_points, cross_axis
from adjoint.core import dtypes
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.ops import runtime
from adjoint.ops.kinks import meets_kink

Tensor = Any


def cross(self: Tensor, other: Tensor, dim: int) -> Tensor:
    """c[i] = a[i+1] b[i+2] - a[i+2] b[i+1], counted modulo 3."""
    axis = cross_axis(self.shape, other.shape, dim)
    a, b = [x.roll((-1,), (axis,)) for x in (self, other)]
    return a * other.roll((-2,), (axis,)) - self.roll((-2,), (axis,)) * b


def cross_any(self: Tensor, other: Tensor, dim: int | None) -> Tensor:
    """`dim` is the first of size 3 unless given."""
    if dim is None:
        found = [d for d, size in enumerate(self.shape) if size == 3]
        if not found:
            raise ShapeError(f"cross(a, b): no dimension of a has size 3 (a: {tuple(self.shape)}).")
        dim = found[0]
    return cross(self, other, dim)


def vander(x: Tensor, N: int | None) -> Tensor:
    """1, x, x², … as products, so that derivatives at 0 are right."""
    if x.ndim == 0 and N is None:
        raise ShapeError("linalg_vander(x): x must have at least one dimension, or N be given.")
    x = x.reshape((1,)) if x.ndim == 0 else x
    count = x.shape[-1] if N is None else N
    if count < 0 or (N is not None and N <= 1):
        raise ValueRangeError(f"linalg_vander(x, N): N must be greater than 1, got {N}")
    if not x.dtype.is_differentiable:
        x = x.to(ops.ones((), dtype=x.dtype).sum().dtype)
    powers = x.unsqueeze(-1).expand((*x.shape, max(count - 1, 0)))
    ones = ops.ones((*x.shape, 1), dtype=x.dtype)
    return ops.cat([ones, powers], -1).cumprod(-1)


def vander_flipped(x: Tensor, N: int | None, increasing: bool) -> Tensor:
    """Highest power first, unless increasing."""
    if x.ndim != 1:
        raise ShapeError(f"vander(x): x must be a vector, got {x.ndim} dimensions.")
    count = x.shape[0] if N is None else N
    if count == 0:
        return x.new_zeros((x.shape[0], 0))
    if count == 1:
        return ops.ones((x.shape[0], 1), dtype=x.dtype)
    result = vander(x, count)
    return result if increasing else result.flip((-1,))


def cdist_any(x1: Tensor, x2: Tensor, p: float, compute_mode: Any) -> Tensor:
    """cdist by products of matrices, unless points coincide and p = 2, a kink of the norm."""
    found = ops._cdist_forward(x1, x2, p, None)
    if p != 2 or not meets_kink(found):
        return found
    if type(found) is runtime.Tensor and found.home is None:
        return _with_coinciding(x1, x2, found)
    return cdist(x1, x2, p, None)


def _with_coinciding(x1: Tensor, x2: Tensor, distances: Tensor) -> Tensor:
    """Distances of pairs that coincide as norms of their differences, which are few."""
    batch = distances.shape[:-2]
    *first, i, j = (distances.detach() == 0).nonzero().unbind(-1)
    a, b = [x.expand((*batch, *x.shape[-2:])) for x in (x1, x2)]
    difference = ops.index(a, [*first, i]) - ops.index(b, [*first, j])
    norms = ops.linalg_vector_norm(difference, 2, (-1,))
    return distances.index_put([*first, i, j], norms)


def cdist(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    """|x1[i] - x2[j]| in the p-norm."""
    return _lengths(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def _lengths(differences: Tensor, p: float) -> Tensor:
    """The p-norms of differences; one that is not known is not counted as different (p = 0)."""
    norms = ops.linalg_vector_norm(differences, p, (-1,))
    return norms.masked_fill(differences.isnan().any(-1), math.nan) if p == 0 else norms


def cdist_backward(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    """The gradient in x1."""
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    return _norm_vjp(grad, difference, cdist, p).sum((-2,))


def euclidean_dist_backward(factor: Tensor, x1: Tensor, x2: Tensor, cdist: Tensor) -> Tensor:
    """x̄[i] = Σⱼ W[i,j] (x[i] - y[j]),  W = F/D, as products of matrices unless points are near."""
    check_point_dtypes("the gradient of distances", factor.dtype, x1.dtype, x2.dtype, cdist.dtype)
    if not x1.shape[-2] or not x2.shape[-2]:
        return ops.zeros_like(x1)
    x, y, size = _counted_from_the_middle(x1, x2)
    weights = ops._directed(factor, size, cdist)
    quick = weights.sum((-1,), True) * x - weights.matmul(y)
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    careful = ops._directed(factor.unsqueeze(-1), difference, cdist.unsqueeze(-1)).sum((-2,))
    return ops._mostly(_are_distinct(cdist, size).all(-1, True), quick, careful)


def euclidean_dist_along(tangent: Tensor, x1: Tensor, x2: Tensor, cdist: Tensor) -> Tensor:
    """⟨T[i], x[i] - y[j]⟩/D[i,j], as products of matrices unless points are near."""
    check_point_dtypes(
        "the derivative of distances", tangent.dtype, x1.dtype, x2.dtype, cdist.dtype
    )
    if not x1.shape[-2] or not x2.shape[-2]:
        return tangent.matmul(x2.mT)
    x, y, size = _counted_from_the_middle(x1, x2)
    own = (tangent * x).sum((-1,), True)
    quick = ops._directed(own - tangent.matmul(y.mT), size, cdist)
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    careful = ops._directed(tangent.unsqueeze(-2), difference, cdist.unsqueeze(-1)).sum((-1,))
    return ops._mostly(_are_distinct(cdist, size), quick, careful)


def _counted_from_the_middle(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Points from the middle of the second ones, in their largest coordinate; and that.

    So no digits are lost far from the origin, and factors have the size of a gradient.
    """
    middle = x2.detach().mean((-2,), True)
    x, y = x1 - middle, x2 - middle
    size = _size(x).maximum(_size(y))
    return x / size, y / size, size


# Of the size of all points: differences of points that are nearer have lost digits by the size.
_APART = {dtypes.float32: 2.0**-6, dtypes.float64: 2.0**-12}


def _are_distinct(distances: Tensor, size: Tensor) -> Tensor:
    """Which distances are 0, or not small compared with the largest coordinate."""
    return (distances < size * _APART[distances.dtype]).logical_not() | (distances == 0)


def _size(x: Tensor) -> Tensor:
    """The largest |x| of a matrix, kept; 1 where that is 0 or no number."""
    top = x.detach().abs().amax((-2, -1), True)
    return top.masked_fill((top == 0) | ~top.isfinite(), 1)


def _norm_vjp(grad: Tensor, x: Tensor, norm: Tensor, p: float) -> Tensor:
    """ȳ ∂|x|ₚ/∂x = ȳ sign(x) (|x|/y)ᵖ⁻¹; 0 where y vanishes, shared among ties for p = ∞."""
    grad, norm = grad.unsqueeze(-1), norm.unsqueeze(-1)
    if p == 0:
        return ops.zeros_like(x) * grad
    if p == 1:
        return x.sign() * grad
    if p == 2:
        return ops._directed(grad, x, norm)
    if p == math.inf:
        return x.sign() * grad * ops._tie_weights(x.abs(), norm.squeeze(-1), (-1,), False)
    ratio = (x.abs() / norm.masked_fill(norm == 0, 1)).masked_fill(x == 0, 1)
    return x.sign() * ratio.pow(p - 1) * grad


def _pairs(x: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the second row of each pair."""
    if x.ndim != 2:
        raise ShapeError(f"pdist(x): x must be a matrix of points, got {x.ndim} dimensions.")
    indices = ops.triu_indices(x.shape[0], x.shape[0], 1)
    return indices.select(0, 0), indices.select(0, 1)


def pdist(self: Tensor, p: float) -> Tensor:
    """The distances of all pairs of rows, the first with the others first."""
    check_points(tuple(self.shape), self.dtype, p)
    i, j = _pairs(self)
    return _lengths(self.index_select(0, i) - self.index_select(0, j), p)


def pdist_backward(grad: Tensor, self: Tensor, p: float, pdist: Tensor) -> Tensor:
    """The gradient of the distances in the points."""
    i, j = _pairs(self)
    difference = self.index_select(0, i) - self.index_select(0, j)
    each = _norm_vjp(grad, difference, pdist, p)
    return ops.zeros_like(self).index_add(0, i, each).index_add(0, j, -each)
