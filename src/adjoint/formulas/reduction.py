"""Derivatives of reductions that do not fit a line of the table.

All of them can be differentiated again at critical points: products with zeros, norms and standard
deviations at zero, extrema with ties. `_unreduce` is the transpose of a sum: it restores reduced
dimensions and repeats the elements along them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from adjoint import ops
from adjoint.core.dtypes import finfo
from adjoint.core.shapes import Shape, wrap_dims
from adjoint.ops.fans import is_in_graph, order_ahead
from adjoint.ops.kinks import may_be_near

Tensor = Any
Dims = Shape | None


# selections ------------------------------------------------------------------------------------


def tied(values: Tensor, self: Tensor, result: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """The values where `self` is the extremum, divided by how many are; nothing elsewhere."""
    weights = ops._tie_weights(self, result, dim, keepdim)
    return ops.where(weights == 0, 0, values * weights)


# norms -------------------------------------------------------------------------------------------


def norm_direction(self: Tensor, result: Tensor, p: float, dim: Dims, keepdim: bool) -> Tensor:
    """∂‖x‖ₚ/∂x = sgn(x) (|x| / ‖x‖)ᵖ⁻¹, 0 where x = 0 (p ≠ 2).

    For p = ±inf it is sgn(x) shared evenly by the elements that attain the extremum.
    """
    if p == 0:
        return ops.zeros_like(self)
    if p == 1:
        return self.sgn()
    if math.isinf(p):
        return self.sgn() * ops._tie_weights(self.abs(), result, dim, keepdim)
    norm = ops._unreduce(result, dim, self.shape, keepdim)
    kink = (self == 0) | (norm == 0)
    norm = norm.masked_fill(norm == 0, 1)
    ratio = (self.abs() / norm).masked_fill(kink, 1)
    if not self.is_complex():
        return (self.sgn() * ratio ** (p - 1)).masked_fill(kink, 0)
    # x |x|ᵖ⁻² equals sgn(x) |x|ᵖ⁻¹, and for complex x needs no derivative of sgn
    return (self * ratio ** (p - 2) / norm).masked_fill(kink, 0)


def norm_vjp(grad: Tensor, self: Tensor, result: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """x̄ = u ȳ with u = x/‖x‖, for p = 2."""
    near = lambda length: length_vjp(grad, self, length, dim, keepdim)
    if not _by_direction(self, result) or not order_ahead():
        return near(result)
    none = _is_origin(self, result, dim, keepdim)
    whole = ops._unreduce(none, dim, self.shape, keepdim)
    along = ops._unreduce(grad, dim, self.shape, keepdim) * _unit(self, whole, dim)
    return _beside_origin(none, whole, result, near, along)


def _by_direction(self: Tensor, result: Tensor) -> bool:
    """Whether x/‖x‖ is known to be taken of real numbers that are not infinitely small; or is
    one of two formulas, in a graph, which holds them for all points."""
    near = may_be_near(result)
    return not (self.is_complex() or near) or (is_in_graph(result) and not may_be_near(self))


def _is_origin(self: Tensor, result: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """Whether ‖x‖ is 0, or infinitely small."""
    if not may_be_near(result):
        return result == 0
    return (self == 0).all(dim, keepdim)


def _beside_origin(
    none: Tensor, whole: Tensor, result: Tensor, near: Callable[[Tensor], Tensor], away: Tensor
) -> Tensor:
    """`away`; `near` of ‖x‖ where that may be infinitely small."""
    if not may_be_near(result):
        return away
    return ops.where(whole, near(result.masked_fill(~none, 1)), away)


def _unit(self: Tensor, none: Tensor, dim: Dims) -> Tensor:
    """x/‖x‖, and 0 with the derivative 0 where ‖x‖ is 0. Its derivatives keep the digits that
    derivatives of a quotient lose where one element is nearly all of ‖x‖.
    """
    limits = finfo(self.dtype)
    dims = dim or tuple(range(self.ndim))
    return ops._direction(self.masked_fill(none, 0), dims, limits.smallest_normal * limits.eps)


def length_vjp(grad: Tensor, self: Tensor, result: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """x̄ = x ȳ/y, for p = 2. Where y may be infinitely small it is complex."""
    if not may_be_near(result):
        return ops._length_backward(grad, self, result, dim, keepdim)
    if self.is_complex():
        ratio = ops._unreduce(ops._quotient(grad, result.conj()), dim, self.shape, keepdim)
        return self * ratio.real
    spread, norm = [ops._unreduce(t, dim, self.shape, keepdim) for t in (grad, result.conj())]
    return ops._directed(spread, self, norm)


def across(g: Tensor, self: Tensor, result: Tensor, dim: Dims, eps: float) -> Tensor:
    """The part of g across x over ‖x‖, (g - u ⟨u, g⟩)/‖x‖ with u = x/‖x‖; g/eps where x is shorter
    than eps. It is at right angles to u, which gives an element above 1/√2: its own formula
    cancels."""
    length = ops.linalg_vector_norm(self, 2, dim, True)
    short = length < eps
    rest = (g - result * (result * g).sum(dim, True)) / length.masked_fill(short, 1)
    if result.ndim:
        large = result * result > 0.5
        others = (rest * result).masked_fill(large, 0).sum(dim, True)
        rest = ops.where(large, -others / result.masked_fill(~large, 1), rest)
    return ops.where(short, g / (eps or 1.0), rest)


def vector_norm_vjp(
    grad: Tensor, self: Tensor, result: Tensor, p: float, dim: Dims, keepdim: bool
) -> Tensor:
    """x̄ = ȳ ∂‖x‖/∂x, for p ≠ 2."""
    direction = norm_direction(self, result, p, dim, keepdim)
    return ops._unreduce(grad, dim, self.shape, keepdim) * direction


def norm_jvp(self_p: Tensor, self_t: Tensor, result: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """ẏ = Re⟨u, ẋ⟩ with u = x/‖x‖, for p = 2."""
    near = lambda length: length_jvp(self_p, self_t, length, dim, keepdim)
    if not _by_direction(self_p, result) or order_ahead() < 2:
        return near(result)
    none = _is_origin(self_p, result, dim, keepdim)
    unit = _unit(self_p, ops._unreduce(none, dim, self_p.shape, keepdim), dim)
    return _beside_origin(none, none, result, near, (self_t * unit).sum(dim, keepdim))


def length_jvp(self_p: Tensor, self_t: Tensor, result: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """Re⟨x, ẋ⟩/y, for p = 2. Where y may be infinitely small it is complex."""
    if self_p.is_complex() and may_be_near(result):
        return ops._quotient(_inner(self_p, self_t, dim, keepdim), result)
    length = ops._unreduce(result, dim, self_p.shape, keepdim)
    along = ops._directed(self_t, self_p.conj(), length)
    return (along.real if along.is_complex() else along).sum(dim, keepdim)


def vector_norm_jvp(
    self_p: Tensor, self_t: Tensor, result: Tensor, p: float, dim: Dims, keepdim: bool
) -> Tensor:
    """ẏ = Re Σ conj(∂‖x‖/∂x) ẋ, for p ≠ 2."""
    return _inner(norm_direction(self_p, result, p, dim, keepdim), self_t, dim, keepdim)


def _inner(a: Tensor, b: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """Re Σ conj(a) b over `dim`."""
    products = (a.conj() * b).real if a.is_complex() else a * b
    return products.sum(dim, keepdim)


# shares of a sum of powers -----------------------------------------------------------------------


def exp_shares_vjp(grad: Tensor, result: Tensor, dim: Dims) -> Tensor:
    """x̄ = conj(s) (ḡ - Σ conj(s) ḡ)."""
    return _of_shares(result.conj(), grad, dim)


def exp_shares_jvp(self_t: Tensor, result: Tensor, dim: Dims) -> Tensor:
    """s (ẋ - Σ s ẋ)."""
    return _of_shares(result, self_t, dim)


def _of_shares(shares: Tensor, x: Tensor, dim: Dims) -> Tensor:
    """s (x - Σ s x). The results add up to 0, which gives the one of a share above 1/2, whose own
    formula cancels.
    """
    found = shares * (x - (shares * x).sum(dim, True))
    if shares.is_complex():
        return found
    large = shares > 0.5
    return ops.where(large, -found.masked_fill(large, 0).sum(dim, True), found)


# variances -----------------------------------------------------------------------------------


def spread(shape: Shape, dim: Dims, correction: float | None) -> float:
    """1 / (n - correction), where nothing is left infinite, as in the variance itself."""
    count = math.prod(shape[d] for d in wrap_dims("var", dim, len(shape)))
    degrees = count - (1 if correction is None else correction)
    return 1 / degrees if degrees > 0 else math.inf


def std_vjp(
    grad: Tensor, self: Tensor, result: Tensor, dim: Dims, correction: float | None, keepdim: bool
) -> Tensor:
    """x̄ = (x - mean) ȳ / ((n - correction) y)."""
    scaled = grad * spread(self.shape, dim, correction)
    if may_be_near(result):
        return length_vjp(scaled, self - self.mean(dim, True), result, dim, keepdim)
    return ops._std_backward(scaled, self, result, dim, keepdim)


def var_jvp(
    self_p: Tensor, self_t: Tensor, dim: Dims, correction: float | None, keepdim: bool
) -> Tensor:
    """ẏ = 2 Re⟨x - mean, ẋ⟩ / (n - correction)."""
    centred = self_p - self_p.mean(dim, True)
    return _inner(centred, self_t, dim, keepdim) * (2 * spread(self_p.shape, dim, correction))


def var_mean_vjp(
    grad_var: Tensor | None, grad_mean: Tensor | None, self: Tensor, dim: Dims,
    correction: float | None, keepdim: bool,
) -> Tensor | None:  # fmt: skip
    """x̄ = 2 v̄ (x - mean) / (n - correction) + m̄ / n."""
    found: Tensor | None = None
    if grad_var is not None:
        scaled = grad_var * (2 * spread(self.shape, dim, correction))
        found = (self - self.mean(dim, True)) * ops._unreduce(scaled, dim, self.shape, keepdim)
    if grad_mean is not None:
        count = math.prod(self.shape[d] for d in wrap_dims("var_mean", dim, len(self.shape)))
        part = ops._unreduce(grad_mean / (count or 1), dim, self.shape, keepdim)
        found = part if found is None else found + part
    return found


def std_jvp(
    self_p: Tensor, self_t: Tensor, result: Tensor, dim: Dims, correction: float | None,
    keepdim: bool,
) -> Tensor:  # fmt: skip
    """σ̇ = Re⟨x - mean, ẋ⟩ / (σ (n - correction)), 0 where σ = 0."""
    away = self_p - self_p.mean(dim, True)
    along = length_jvp(away, self_t, result, dim, keepdim)
    return along * spread(self_p.shape, dim, correction)


# segments ----------------------------------------------------------------------------------------


def segment_reduce_vjp(
    grad: Tensor, data: Tensor, result: Tensor, reduce: str, lengths: Tensor | None,
    offsets: Tensor | None, axis: int, initial: float | None,
) -> Tensor:  # fmt: skip
    """x̄[i] = w[i] ȳ[segment of i], with the weights w of `_Segments`; 0 outside all segments."""
    pieces = _Segments(data, result, lengths, offsets, axis)
    spread = pieces.spread(grad.reshape(pieces.result_shape))
    return (pieces.weights(reduce, initial) * spread).reshape(data.shape)


def segment_reduce_jvp(
    data_p: Tensor, data_t: Tensor, result: Tensor, reduce: str, lengths: Tensor | None,
    offsets: Tensor | None, axis: int, initial: float | None,
) -> Tensor:  # fmt: skip
    """ẏ[s] = Σ w[i] ẋ[i] over the elements of segment s."""
    weights = _Segments(data_p, result, lengths, offsets, axis).weights(reduce, initial)
    terms = weights.reshape(data_p.shape) * data_t
    return ops.segment_reduce(
        terms, "sum", lengths=lengths, offsets=offsets, axis=axis, unsafe=True
    )


class _Segments:
    """Data and results as matrices, one row for each index up to `axis`, and who belongs where."""

    def __init__(
        self, data: Tensor, result: Tensor, lengths: Tensor | None, offsets: Tensor | None,
        axis: int,
    ) -> None:  # fmt: skip
        ids = ops._segment_ids(lengths, offsets, axis, data.shape)
        after = axis % data.ndim + 1
        inner = math.prod(data.shape[after:])
        self.data = data.reshape((math.prod(data.shape[:after]), inner))
        self.result_shape = (math.prod(result.shape[:after]), inner)
        self.result = result.reshape(self.result_shape)
        self.covered = (ids >= 0).unsqueeze(1)  # whether a row is in any segment
        self.ids = ids.clamp(min=0)

    def spread(self, values: Tensor) -> Tensor:
        """Each segment's value to its rows; zero to the others."""
        if self.result_shape[0] == 0:
            return ops.zeros_like(self.data)
        return values.index_select(0, self.ids).masked_fill(~self.covered, 0)

    def gather(self, values: Tensor) -> Tensor:
        """The sum of each segment's rows."""
        zeros = ops.zeros(self.result_shape, dtype=values.dtype)
        if self.result_shape[0] == 0:
            return zeros
        return zeros.index_add(0, self.ids, values.masked_fill(~self.covered, 0))

    def weights(self, reduce: str, initial: float | None) -> Tensor:
        """∂y[segment of i]/∂x[i].

        sum: 1; mean: 1/n; prod: the initial value times the other factors of the segment; max and
        min: shared evenly by the elements that attain the extremum (none do if `initial` does).
        """
        if reduce == "prod":
            return self._other_factors() * (1 if initial is None else initial)
        chosen = ops.ones_like(self.data)
        if reduce in ("max", "min"):
            at_extremum = (self.data == self.spread(self.result)) | self.data.isnan()
            chosen = at_extremum.to(self.data.dtype)
        if reduce == "sum":
            return chosen
        count = self.gather(chosen)
        return chosen / self.spread(count.masked_fill(count == 0, 1)).masked_fill(~self.covered, 1)

    def _other_factors(self) -> Tensor:
        """The product of the rest of the segment: recurrences that start anew at its ends."""
        rows = self.data.shape[0]
        if rows == 0:
            return self.data
        ids = self.ids.masked_fill(~self.covered.squeeze(1), -1)
        same = (ids.narrow(0, 1, rows - 1) == ids.narrow(0, 0, rows - 1)).to(self.data.dtype)
        same = same.unsqueeze(1).expand((rows - 1, self.data.shape[1]))
        edge = ops.zeros_like(self.data.narrow(0, 0, 1))
        goes_on, comes_back = ops.cat([edge, same], 0), ops.cat([same, edge], 0)
        left = ops.cat([edge, self.data.narrow(0, 0, rows - 1)], 0) * goes_on
        right = ops.cat([self.data.narrow(0, 1, rows - 1), edge], 0) * comes_back
        before = ops._linear_recurrence(left, 1 - goes_on, 0, False)
        after = ops._linear_recurrence(right, 1 - comes_back, 0, True)
        return before * after
