"""Activations by their definitions on Python's numbers; slopes by complex steps.

For an analytic function, Im f(x + ih) / h is f'(x) without cancellation, so a slope is as exact as
the function and shares nothing with the formulas of the table.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.testing.references.elements import Array, each
from adjoint.testing.references.pointwise import bounded, logistic

Number = Any
STEP = 1e-40
LARGE = 500.0  # beyond it exp leaves the range, and a function is its limit


def slope(function: Callable[..., Number]) -> Callable[..., float]:
    """f'(x), further arguments of f passed on."""
    return lambda x, *rest: function(complex(x, STEP), *rest).imag / STEP


def backward(derivative: Callable[..., float]) -> Callable[..., Any]:
    """grad · f'(x) for arguments (grad, x, …)."""
    return each(lambda grad, x, *rest, **options: grad * derivative(x, *rest, **options))


# -- smooth ----------------------------------------------------------------------------------------


def silu(x: Number) -> Number:
    return x * logistic(x)


def silu_slope(x: Number) -> Number:
    if not isinstance(x, complex):
        return float(x > 0) if abs(x) > LARGE else slope(silu)(x)
    gate = logistic(x)
    return (gate * (1 + x * (1 - gate))).conjugate()


def log_1p_exp(x: Number) -> Number:
    """log(1 + eˣ)."""
    if isinstance(x, complex):
        return cmath.log(1 + cmath.exp(x)) if x.real < 30 else x + cmath.exp(-x)
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def tanh(x: Number) -> Number:
    return cmath.tanh(x) if isinstance(x, complex) else math.tanh(x)


def mish(x: Number) -> Number:
    return x * tanh(log_1p_exp(x))


def mish_slope(x: float) -> float:
    return float(x > 0) if abs(x) > LARGE else slope(mish)(x)


def gelu(x: float, approximate: str = "none") -> float:
    if approximate == "tanh":
        return gelu_by_tanh(x)
    return x * math.erfc(-x / math.sqrt(2)) / 2


def gelu_by_tanh(x: Number) -> Number:
    if abs(x) > LARGE:
        return x if x.real > 0 else 0 * x
    return x / 2 * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_slope(x: float, approximate: str = "none") -> float:
    if approximate == "tanh":
        return slope(gelu_by_tanh)(x)
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi) if abs(x) < LARGE else 0.0
    return math.erfc(-x / math.sqrt(2)) / 2 + x * density


def softplus(x: float, beta: float = 1, threshold: float = 20) -> float:
    return x if x * beta > threshold else log_1p_exp(x * beta) / beta


def softplus_slope(x: float, beta: float, threshold: float) -> float:
    return 1.0 if x * beta > threshold else logistic(x * beta)


# -- pieces ----------------------------------------------------------------------------------------


def elu(x: float, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> float:
    return scale * (x if x > 0 else alpha * math.expm1(x * input_scale))


def elu_slope(
    grad: float, alpha: float, scale: float, input_scale: float, is_result: bool, x: float
) -> float:
    if x > 0:
        return grad * scale
    rising = x / scale + alpha if is_result else alpha * math.exp(x * input_scale)
    return grad * scale * input_scale * rising


def selu(x: float) -> float:
    return elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


def hard_sigmoid(x: float) -> float:
    return bounded(x / 6 + 0.5, 0.0, 1.0)


def hard_swish_slope(x: float) -> float:
    return 0.0 if x <= -3 else 1.0 if x >= 3 else x / 3 + 0.5


def soft_shrink(x: float, lambd: float = 0.5) -> float:
    return x - bounded(x, -lambd, lambd)


def one_weight_each(x: Array, weight: Array) -> Array:
    channels = (1, -1, *(1 for _ in range(x.ndim - 2))) if x.ndim > 1 else weight.shape
    return (np.maximum(x, 0) + weight.reshape(channels) * np.minimum(x, 0)).reshape(x.shape)


# -- gates and shares ------------------------------------------------------------------------------


def halves(x: Array, dim: int) -> tuple[Array, Array]:
    first, second = np.array_split(x, 2, dim)
    return first, 0.5 * (1 + np.tanh(second / 2))


def gelu_gate(x: float, slope: bool) -> float:
    v = math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)
    return logistic(v) * (logistic(-v) if slope else 1)


def mish_derivative(x: float, n: int) -> float:
    """The second one, from tanh and the logistic function."""
    assert n == 2
    t, s = math.tanh(math.log1p(math.exp(min(x, 40.0)))), logistic(x)
    slope = (1 - t * t) * s
    return 2 * slope + x * (slope * logistic(-x) - 2 * t * s * slope)


def gated(x: Array, dim: int = -1) -> Array:
    first, gate = halves(x, dim)
    return first * gate


def share(x: Array, dim: int, *_: Any, **__: Any) -> Array:
    """eˣ over its sum, each row in Python's numbers."""
    if not x.ndim:
        return np.ones(())
    return np.apply_along_axis(_share, dim, x) if x.size else x


def _share(row: Array) -> Array:
    largest = row.max()
    powers = [math.exp(v - largest) for v in row.tolist()]
    return np.array([p / math.fsum(powers) for p in powers])


def log_share(x: Array, dim: int, *_: Any, **__: Any) -> Array:
    if not x.ndim:
        return np.zeros(())
    return np.apply_along_axis(_log_share, dim, x) if x.size else x


def _log_share(row: Array) -> Array:
    largest = row.max()
    total = math.log(math.fsum(math.exp(v - largest) for v in row.tolist()))
    return np.array([v - largest - total for v in row.tolist()])


def share_slope(grad: Array, output: Array, dim: int, *_: Any) -> Array:
    total = np.add.reduce(grad * output, dim, keepdims=True) if grad.ndim else grad * output
    return output * (grad - total)


def log_share_slope(grad: Array, output: Array, dim: int, *_: Any) -> Array:
    total = np.add.reduce(grad, dim, keepdims=True) if grad.ndim else grad
    return grad - np.power(math.e, output) * total


REFERENCES: dict[str, Callable[..., Any]] = {
    "silu": each(silu), "mish": each(mish), "gelu": each(gelu), "softplus": each(softplus),
    "silu_backward": backward(silu_slope),
    "mish_backward": backward(mish_slope),
    "gelu_backward": backward(gelu_slope), "softplus_backward": backward(softplus_slope),
    "log_sigmoid": each(lambda x: -log_1p_exp(-x)),
    "log_sigmoid_forward": each(lambda x: -log_1p_exp(-x)),
    "log_sigmoid_backward": each(lambda grad, x, buffer: grad * logistic(-x)),
    "_gated": each(lambda x, gate: x * logistic(gate)),
    "sigmoid_backward": each(lambda grad, y: grad * (y - y * y).conjugate()),
    "tanh_backward": each(lambda grad, y: grad * ((1 - y) * (1 + y)).conjugate()),
    "elu": each(elu), "elu_backward": each(elu_slope), "selu": each(selu),
    "celu": each(lambda x, alpha=1.0: x if x > 0 else min(alpha * math.expm1(x / alpha), 0.0)),
    "leaky_relu": each(lambda x, slope=0.01: max(x, 0.0) + slope * min(x, 0.0)),
    "leaky_relu_backward": backward(lambda x, slope, is_result: 1.0 if x > 0 else slope),
    "hardtanh": each(lambda x, low=-1, high=1: bounded(x, low, high)),
    "hardtanh_backward": backward(lambda x, low, high: float(low < x < high)),
    "relu6": each(lambda x: bounded(x, 0.0, 6.0)), "hardsigmoid": each(hard_sigmoid),
    "hardsigmoid_backward": backward(lambda x: 1 / 6 if -3 < x < 3 else 0.0),
    "hardswish": each(lambda x: x * hard_sigmoid(x)),
    "hardswish_backward": backward(hard_swish_slope),
    "hardshrink": each(lambda x, lambd=0.5: 0.0 if abs(x) <= lambd else x),
    "hardshrink_backward": backward(lambda x, lambd: float(abs(x) > lambd)),
    "softshrink": each(soft_shrink),
    "softshrink_backward": backward(lambda x, lambd: float(abs(x) > lambd)),
    "threshold": each(lambda x, threshold, value: x if x > threshold else value),
    "threshold_backward": backward(lambda x, threshold: float(x > threshold)),
    "prelu": one_weight_each, "_prelu_kernel": each(lambda x, w: x if x > 0 else w * x),
    "rrelu_with_noise_backward": each(
        lambda grad, x, noise, lower, upper, training, is_result:
        grad * noise if training else grad * (1.0 if x > 0 else (lower + upper) / 2)
    ),
    "glu": gated,
    "softmax": share, "_softmax": share, "special_softmax": share,
    "log_softmax": log_share, "_log_softmax": log_share, "special_log_softmax": log_share,
    "_softmax_gradient": share_slope,
    "_log_softmax_gradient": lambda grad, x, *rest: log_share_slope(grad, *rest),
    "_softsign": each(lambda x: x / (1 + abs(x))), "_tanhshrink": each(lambda x: x - math.tanh(x)),
    "_logistic": each(
        lambda x, beta, slope: logistic(beta * x) * (logistic(-beta * x) if slope else 1)
    ),
    "_exp_of_quotient": each(lambda x, divisor: math.exp(x / divisor)),
    "_gelu_gate": each(gelu_gate),
    "_mish_derivative": each(mish_derivative),
}  # fmt: skip
