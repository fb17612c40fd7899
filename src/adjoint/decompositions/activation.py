"""Activation functions and their backward operators in terms of smaller operators.

Everything here is differentiated again, to any order. So an exponential that could overflow has its
argument replaced first on the side that is not taken: masking the result alone would leave 0 · ∞.
"""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.checks import activation
from adjoint.core import dtypes
from adjoint.core.activations import CUBE, RATE, gate_sides
from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import show, wrap_dim
from adjoint.decompositions.reduction import logarithm_of_sum

Tensor = Any
INFINITY = float("inf")

GAUSS_HEIGHT = 0.3989422804014327  # 1/√(2π), the density of a normal variable at 0
FLAT = 40.0  # beyond it gelu is straight, in every dtype
STRAIGHT = 800.0  # beyond it silu and mish are


# --- smooth --------------------------------------------------------------------------------------


def _bend(self: Tensor, limit: float) -> Tensor:
    """x cut off where that makes no difference, so that its powers and products stay finite."""
    return ops.where(self > limit, limit, ops.where(self < -limit, -limit, self))


def silu_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    """σ(x) (1 + x σ(-x))."""
    x = self if self.is_complex() else _bend(self, STRAIGHT)
    return grad_output * (self.sigmoid() * (1 + x * (-self).sigmoid())).conj()


def mish_derivative(self: Tensor, n: int) -> Tensor:
    """n g⁽ⁿ⁻¹⁾ + x g⁽ⁿ⁾, where g = tanh(log(1 + eˣ)) and its derivatives are quotients of
    polynomials in exp(-|x|)."""
    activation.check_order("_mish_derivative", n)
    x = _bend(self, STRAIGHT)
    left = x < 0
    u = ops.where(left, x, -x).exp()
    gates = []
    for k in (n - 1, n):
        on_left, on_right = (_horner(u, p) for p in gate_sides(k))
        below = (ops.where(left, (u + 2) * u + 2, (2 * u + 2) * u + 1) for _ in range(k + 1))
        gate = ops.where(left, on_left, on_right)
        for b in below:
            gate = gate / b
        gates.append(gate)
    result = gates[0] * n + x * gates[1]
    return ops.where(left, result * u, result)


def _horner(u: Tensor, coefficients: tuple[int, ...]) -> Tensor:
    """Σ cₖ uᵏ."""
    *rest, result = coefficients
    for c in reversed(rest):
        result = result * u + c
    return result


def check_approximation(what: str, approximate: str) -> bool:
    """Whether gelu's approximation by tanh is asked for."""
    if approximate not in ("none", "tanh"):
        raise ValueRangeError(
            f"{what}(approximate={approximate!r}): there are 'none' (exact) and 'tanh'."
        )
    return approximate == "tanh"


def gelu(self: Tensor, approximate: str) -> Tensor:
    """x Φ(x); approximately x σ(v), v = √(8/π) (x + 0.044715 x³)."""
    if check_approximation("gelu", approximate):
        return _not_far_left(self, FLAT) * ops._gelu_gate(self, False)
    return _not_far_left(self, FLAT) * ops.special_ndtr(self)


def _not_far_left(self: Tensor, limit: float) -> Tensor:
    """x, but -∞ cut off, which would be multiplied by 0."""
    return ops.where(self < -limit, -limit, self)


def gelu_gate(self: Tensor, slope: bool) -> Tensor:
    """σ(v) or σ'(v)."""
    x = _bend(self, FLAT)
    v = x * (1 + CUBE * (x * x)) * RATE
    return ops._expit_slope(v) if slope else v.sigmoid()


def gelu_backward(grad_output: Tensor, self: Tensor, approximate: str) -> Tensor:
    """Φ + x φ; approximately σ + x σ' v'."""
    x = _bend(self, FLAT)
    if check_approximation("gelu_backward", approximate):
        rate = (1 + 3 * CUBE * (x * x)) * RATE
        gate, slope = (ops._gelu_gate(self, which) for which in (False, True))
        return grad_output * (gate + x * (slope * rate))
    density = ops._gaussian_derivative(x, 0, 0.5) * GAUSS_HEIGHT
    return grad_output * (ops.special_ndtr(self) + x * density)


def log_sigmoid_forward(self: Tensor) -> tuple[Tensor, Tensor]:
    """log σ(x) = min(x, 0) - log(1 + exp(-|x|)), and exp(-|x|)."""
    fallen = self.abs().neg().exp()
    return self.clamp_max(0) - fallen.log1p(), fallen.detach()


# --- exponential on the left, linear on the right ------------------------------------------------


def elu(self: Tensor, alpha: float, scale: float, input_scale: float) -> Tensor:
    """scale·x on the right, scale·alpha·(exp(input_scale·x) - 1) on the left."""
    left = ops.where(self <= 0, self, 0)
    return ops.where(self <= 0, (left * input_scale).expm1() * (alpha * scale), self * scale)


def elu_backward(
    grad_output: Tensor,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
    self_or_result: Tensor,
) -> Tensor:
    """The gradient from the input; or from the result, as input_scale·(result + alpha·scale).

    The slope of this at 0 is 0, the slope of the right side, as in PyTorch.
    """
    x = self_or_result
    if is_result:
        if alpha < 0:
            raise ValueRangeError(
                f"elu_backward(alpha={alpha}, is_result=True): with a negative alpha the result "
                "does not say which side the input was on; pass the input."
            )
        slope = (ops.where(x < 0, x, 0) + alpha * scale) * input_scale
    else:
        left = ops.where(x < 0, x, 0)
        slope = (left * input_scale).exp() * (alpha * scale * input_scale)
    return ops.where(x <= 0, grad_output * slope, grad_output * scale)


def celu(self: Tensor, alpha: float) -> Tensor:
    """elu whose slope is continuous: x on the right, alpha·(exp(x/alpha) - 1) on the left."""
    activation.check_alpha(alpha)
    left = ops.where(self <= 0, self, 0)
    return ops.where(self <= 0, (left / alpha).expm1() * alpha, self)


# --- made of straight pieces ---------------------------------------------------------------------


def hardswish(self: Tensor) -> Tensor:
    """0 up to -3, x from 3 on, x (x + 3) / 6 between."""
    between = self * (self + 3) / 6
    return ops.where(self <= -3, 0, ops.where(self >= 3, self, between))


def hardswish_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    """0, 1, or x/3 + 1/2 between."""
    between = grad_output * (self / 3 + 0.5)
    right = ops.where(self >= 3, grad_output, between)
    return right.masked_fill(self <= -3, 0)


def softshrink(self: Tensor, lambd: float) -> Tensor:
    """Nearer to 0 by lambd, and 0 within lambd of it."""
    activation.check_lambd(lambd, self.dtype)
    right = ops.where(self > lambd, self - lambd, self)
    moved = ops.where(self < -lambd, self + lambd, right)
    return moved.masked_fill((self >= -lambd) & (self <= lambd), 0)


def prelu(self: Tensor, weight: Tensor) -> Tensor:
    """leaky_relu with a slope to learn: one, or one for each channel (dimension 1)."""
    if self.dtype is not weight.dtype:
        raise DtypeError(
            f"prelu: the input has {self.dtype} and the weight {weight.dtype}; convert one."
        )
    if weight.ndim > 1:
        raise ShapeError(
            f"prelu: the weight must be one number or a vector, got {show(weight.shape)}."
        )
    if weight.numel() == 1:
        return ops._prelu_kernel(self, weight.reshape(()))
    channels = 1 if self.ndim < 2 else self.shape[1]
    if self.ndim == 0 or weight.numel() != channels:
        raise ShapeError(
            f"prelu: {weight.numel()} weights for an input of {show(self.shape)}, which has "
            f"{channels} channels (dimension 1); give one weight, or one for each channel."
        )
    return ops._prelu_kernel(self, weight.reshape((channels, *(1,) * (self.ndim - 2))))


# --- random slopes -------------------------------------------------------------------------------


def rrelu_with_noise_functional(
    self: Tensor, noise: Tensor, lower: float, upper: float, training: bool, generator: Any
) -> tuple[Tensor, Tensor]:
    """Negative elements times a random slope, and the slopes (1 elsewhere)."""
    if lower > upper:
        raise ValueRangeError(f"rrelu(lower={lower}, upper={upper}): lower must not exceed upper.")
    if not training:
        return ops.leaky_relu(self, (lower + upper) / 2), noise.clone()
    drawn = ops.uniform(self.detach(), lower, upper, generator=generator)
    slopes = ops.where(self <= 0, drawn, 1)
    return self * slopes, slopes


def rrelu_with_noise(
    self: Tensor, noise: Tensor, lower: float, upper: float, training: bool, generator: Any
) -> Tensor:
    """Like `rrelu_with_noise_functional`, with the slopes written into `noise`."""
    result, slopes = rrelu_with_noise_functional(self, noise, lower, upper, training, generator)
    if training:
        noise.copy_(slopes)
    return result


# --- gated ---------------------------------------------------------------------------------------


def _halves(what: str, self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    if self.ndim == 0:
        raise ShapeError(f"{what}: the input is a scalar; it needs a dimension to halve.")
    dim = wrap_dim(what, dim, self.ndim)
    size = self.shape[dim]
    if size % 2:
        raise ShapeError(f"{what}: dimension {dim} has size {size}, which cannot be halved.")
    first, second = self.split_with_sizes((size // 2, size // 2), dim)
    return first, second


def glu(self: Tensor, dim: int) -> Tensor:
    """a σ(b) for the halves a and b."""
    a, b = _halves("glu", self, dim)
    return ops._gated(a, b)


def glu_backward(grad_output: Tensor, self: Tensor, dim: int) -> Tensor:
    """grad · (σ(b), a σ(b) (1 - σ(b))), conjugated."""
    a, b = _halves("glu_backward", self.conj(), dim)
    gate = b.sigmoid()
    return ops.cat([grad_output * gate, grad_output * a * gate * (1 - gate)], dim)


def glu_jvp(glu: Tensor, x: Tensor, dx: Tensor, dim: int) -> Tensor:
    """ȧ σ(b) + a σ(b) (1 - σ(b)) ḃ."""
    b = _halves("glu_jvp", x, dim)[1]
    da, db = _halves("glu_jvp", dx, dim)
    gate = b.sigmoid()
    return da * gate + glu * (1 - gate) * db


# --- softmax -------------------------------------------------------------------------------------


def _top(self: Tensor, dim: int) -> Tensor:
    """The largest; without it exp could overflow."""
    return self.detach() if self.ndim == 0 else self.detach().amax((dim,), True)


def _widened(self: Tensor, half_to_float: bool) -> Tensor:
    return self.float() if half_to_float else self


def softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """exp(xᵢ) / Σ exp(xⱼ); NaN where the largest is infinite."""
    x = _widened(self, half_to_float)
    if x.ndim and x.shape[dim] == 0:
        return x
    top = _top(x, dim)
    powers = ops._exp_difference(x, top) + (top - top)
    return powers / powers.sum((dim,), True)


def log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """xᵢ - log Σ exp(xⱼ)."""
    x = _widened(self, half_to_float)
    if x.ndim and x.shape[dim] == 0:
        return x
    top = _top(x, dim)
    return (x - top) - logarithm_of_sum(x, top, (dim,))


def softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    """s (ḡ - Σ s ḡ)."""
    weighted = grad_output * output
    return (weighted - output * weighted.sum((dim,), True)).to(input_dtype)


def softmax_gradient(grad: Tensor, result: Tensor, dim: int, input_dtype: Any) -> Tensor:
    """s (ḡ - Σ s ḡ); an s of 0 has no gradient, whatever ḡ is there."""
    nothing = result == 0
    weighted = (grad * result).masked_fill(nothing, 0)
    found = (weighted - result * weighted.sum((dim,), True)).masked_fill(nothing, 0)
    return _balanced(found, result > 0.5, dim).to(input_dtype)


def log_softmax_gradient(
    grad: Tensor, self: Tensor, result: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    """ḡ - s Σ ḡ with the shares s = exp(result)."""
    shares = result.exp() * (1 + _rounded(self.to(result.dtype), result, dim))
    found = grad - shares * grad.sum((dim,), True)
    return _balanced(found, result > _LOG_HALF, dim).to(input_dtype)


def _rounded(self: Tensor, result: Tensor, dim: int) -> Tensor:
    """What rounding took of the logarithms of shares: much of a small share. It is found from x,
    from the difference from the largest, and the logarithm of the sum."""
    x, found = self.detach(), result.detach()
    if not x.ndim or x.shape[dim] == 0:
        return ops.zeros_like(found)
    top = _top(x, dim)
    total = logarithm_of_sum(x, top, (dim,))
    away = x - top
    moved = away - x
    more = ((away - found) - total) + ((x - (away - moved)) - (top + moved))
    bound = 4 * dtypes.finfo(found.dtype).eps * (total - found)
    return ops.where(more.abs() <= bound, more, 0.0)


_LOG_HALF = -0.6931471805599453


def _balanced(grad: Tensor, large: Tensor, dim: int) -> Tensor:
    """Gradients that add up to 0, with minus the sum of the others for a share above 1/2, whose own
    formula cancels.
    """
    if not grad.ndim:
        return grad
    return ops.where(large, -grad.masked_fill(large, 0).sum((dim,), True), grad)


def safe_softmax(self: Tensor, dim: int, dtype: Any) -> Tensor:
    """softmax, and 0 where all is -inf. The softmax is taken of zeros there, so nothing is NaN."""
    self = self if dtype is None else self.to(dtype)
    if self.ndim == 0 or self.numel() == 0:
        return ops.softmax(self, dim)
    empty = (self == -INFINITY).all(dim, True)
    return ops.softmax(self.masked_fill(empty, 0), dim).masked_fill(empty, 0)


def masked_softmax(self: Tensor, mask: Tensor, dim: int | None, mask_type: int | None) -> Tensor:
    """softmax over the unmasked scores.

    For scores B×H×L×L a mask_type of 0 means that the mask is L×L, 1 that it is B×L.
    """
    if mask.dtype.name != "bool":
        raise DtypeError(f"_masked_softmax: the mask must be bool, got {mask.dtype}.")
    dim = self.ndim - 1 if dim is None else dim
    if mask_type in (0, 1) and mask.shape != self.shape:
        fits = self.shape[-2:] if mask_type == 0 else (self.shape[0], self.shape[-1])
        if self.ndim != 4 or tuple(mask.shape) != tuple(fits):
            raise ShapeError(
                f"_masked_softmax(mask_type={mask_type}): a mask of {show(mask.shape)} does not "
                f"fit scores of {show(self.shape)}, which take a mask of {show(fits)}."
            )
        mask = mask if mask_type == 0 else mask.reshape((fits[0], 1, 1, fits[1]))
    return ops.softmax(self.masked_fill(mask, -INFINITY), dim)


def masked_softmax_backward(
    grad_output: Tensor, output: Tensor, mask: Tensor, dim: int | None
) -> Tensor:
    """The gradient of softmax, 0 where the mask is True."""
    dim = output.ndim - 1 if dim is None else dim
    kept = ops._softmax_backward_data(grad_output, output, dim, output.dtype)
    return kept.masked_fill(mask, 0)
