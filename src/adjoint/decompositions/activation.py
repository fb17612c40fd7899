"""Activation functions and their backward operators in terms of smaller operators.

Everything here is differentiated again, to any order. So an exponential that could overflow has its
argument replaced first on the side that is not taken: masking the result alone would leave 0 · ∞.
"""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.checks import activation
from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import show, wrap_dim

Tensor = Any
INFINITY = float("inf")

SQRT_HALF = 0.7071067811865476
GAUSS_HEIGHT = 0.3989422804014327  # 1/√(2π), the density of a normal variable at 0
TANH_SLOPE = 0.7978845608028654  # √(2/π), of gelu's approximation
TANH_CUBE = 0.044715
FLAT = 40.0  # beyond it gelu is straight, in every dtype
FLAT_TANH, FLAT_TANH_HALF = 22.0, 12.0  # so is its approximation; in the 16-bit dtypes
STRAIGHT = 800.0  # beyond it silu and mish are


# --- smooth --------------------------------------------------------------------------------------


def _bend(self: Tensor, limit: float) -> Tensor:
    """x cut off where that makes no difference, so that its powers and products stay finite."""
    return ops.where(self > limit, limit, ops.where(self < -limit, -limit, self))


def silu_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    """σ (1 + x (1 - σ))."""
    sigma = self.sigmoid()
    x = self if self.is_complex() else _bend(self, STRAIGHT)
    return grad_output * (sigma * (1 + x * (1 - sigma))).conj()


def mish_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    """t + x σ (1 - t²) with t = tanh(softplus(x))."""
    t = self.softplus().tanh()
    return grad_output * (t + _bend(self, STRAIGHT) * self.sigmoid() * (1 - t * t))


def check_approximation(what: str, approximate: str) -> bool:
    """Whether gelu's approximation by tanh is asked for."""
    if approximate not in ("none", "tanh"):
        raise ValueRangeError(
            f"{what}(approximate={approximate!r}): there are 'none' (exact) and 'tanh'."
        )
    return approximate == "tanh"


def gelu(self: Tensor, approximate: str) -> Tensor:
    """x Φ(x); approximately x σ(2u), u = √(2/π) (x + 0.044715 x³)."""
    if check_approximation("gelu", approximate):
        return (
            self
            * _gelu_gate(_bend(self, FLAT_TANH_HALF if self.dtype.itemsize == 2 else FLAT_TANH))[0]
        )
    return self * ((_bend(self, FLAT) * -SQRT_HALF).erfc() * 0.5)


def _gelu_gate(x: Tensor) -> tuple[Tensor, Tensor]:
    """σ(2u), and 2 du/dx."""
    square = x * x
    twice = 2 * TANH_SLOPE
    return (x * (1 + TANH_CUBE * square) * twice).sigmoid(), (1 + 3 * TANH_CUBE * square) * twice


def gelu_backward(grad_output: Tensor, self: Tensor, approximate: str) -> Tensor:
    """Φ + x φ; approximately g + x g (1 - g) 2u' with g = σ(2u)."""
    if check_approximation("gelu_backward", approximate):
        x = _bend(self, FLAT_TANH_HALF if self.dtype.itemsize == 2 else FLAT_TANH)
        gate, slope = _gelu_gate(x)
        return grad_output * (gate + x * (gate * (1 - gate) * slope))
    x = _bend(self, FLAT)
    density = (x * x * -0.5).exp() * GAUSS_HEIGHT
    return grad_output * ((x * -SQRT_HALF).erfc() * 0.5 + x * density)


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
    """The slope from the input; or from the result, as input_scale·(result + alpha·scale).

    Its own slope at 0 is that of the right side, 0, as PyTorch's.
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
    if alpha == 0:
        raise ValueRangeError("celu(alpha=0): alpha divides the input and cannot be 0.")
    return ops.elu(self, alpha, 1, 1 / alpha)


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
    """As above, with the slopes written into `noise`."""
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


def _shifted(self: Tensor, dim: int) -> Tensor:
    """Less the largest, which changes nothing and keeps exp in range."""
    if self.ndim == 0 or self.shape[dim] == 0:
        return self - self if self.ndim == 0 else self
    return self - self.detach().amax((dim,), True)


def _widened(self: Tensor, half_to_float: bool) -> Tensor:
    return self.float() if half_to_float else self


def softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """exp(xᵢ) / Σ exp(xⱼ)."""
    powers = _shifted(_widened(self, half_to_float), dim).exp()
    return powers / powers.sum((dim,), True)


def log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """xᵢ - log Σ exp(xⱼ)."""
    shifted = _shifted(_widened(self, half_to_float), dim)
    return shifted - shifted.exp().sum((dim,), True).log()


def softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    """s (ḡ - Σ s ḡ); an s of 0 has no gradient, whatever ḡ is there."""
    weighted = grad_output * output
    return (weighted - output * weighted.sum((dim,), True)).to(input_dtype)


def log_softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    """ḡ - exp(result) Σ ḡ."""
    return (grad_output - output.exp() * grad_output.sum((dim,), True)).to(input_dtype)


def safe_softmax(self: Tensor, dim: int, dtype: Any) -> Tensor:
    """softmax, and 0 where all is -inf. The softmax is taken of zeros there, so nothing is NaN."""
    self = self if dtype is None else self.to(dtype)
    if self.ndim == 0 or self.numel() == 0:
        return ops.softmax(self, dim)
    empty = (self == -INFINITY).all(dim, True)
    return ops.softmax(self.masked_fill(empty, 0), dim).masked_fill(empty, 0)


def masked_softmax(self: Tensor, mask: Tensor, dim: int | None, mask_type: int | None) -> Tensor:
    """softmax over what the mask leaves.

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
    """That of softmax, 0 where the mask is True."""
    dim = output.ndim - 1 if dim is None else dim
    kept = ops._softmax_backward_data(grad_output, output, dim, output.dtype)
    return kept.masked_fill(mask, 0)
