"""Activation functions with PyTorch's signatures in Python: `inplace`, and `dim` by keyword."""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.core.errors import ValueRangeError
from adjoint.core.places import warn
from adjoint.tensor.tensor import Tensor


def _apply(name: str, inplace: bool, *arguments: Any) -> Tensor:
    return getattr(ops, f"{name}_" if inplace else name)(*arguments)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return _apply("relu", inplace, input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return _apply("relu6", inplace, input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, and alpha (exp(x) - 1) for negative x."""
    return _apply("elu", inplace, input, alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, and alpha (exp(x / alpha) - 1) for negative x."""
    return _apply("celu", inplace, input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu, scaled so that layers keep mean 0 and variance 1."""
    return _apply("selu", inplace, input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x, and negative_slope x for negative x."""
    return _apply("leaky_relu", inplace, input, negative_slope)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x between two limits."""
    if min_val > max_val:
        raise ValueRangeError(
            f"hardtanh(min_val={min_val}, max_val={max_val}): min_val must not exceed max_val."
        )
    return _apply("hardtanh", inplace, input, min_val, max_val)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """(x + 3) / 6 between 0 and 1."""
    return _apply("hardsigmoid", inplace, input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · hardsigmoid(x)."""
    return _apply("hardswish", inplace, input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x σ(x)."""
    return _apply("silu", inplace, input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(log(1 + exp(x)))."""
    return _apply("mish", inplace, input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x, and `value` for x up to the threshold."""
    return _apply("threshold", inplace, input, threshold, value)


def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """leaky_relu with a random slope for each element while training."""
    if not -math.inf < lower <= upper < math.inf:
        raise ValueRangeError(
            f"rrelu(lower={lower}, upper={upper}): slopes lie between finite numbers, lower first."
        )
    return _apply("rrelu", inplace, input, lower, upper, training)


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log σ(x)."""
    return ops.log_sigmoid(input) if out is None else ops.log_sigmoid(input, out=out)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - input.tanh()


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


def _dimension(what: str, input: Tensor, dim: int | None) -> int:
    """The dimension that is meant: without one, PyTorch's old choice, and a warning."""
    if dim is not None:
        return dim
    chosen = 0 if input.ndim in (0, 1, 3) else 1
    warn(
        f"{what}() chooses dim={chosen} for {input.ndim} dimensions; give dim=, the dimension "
        "along which the result sums to 1."
    )
    return chosen


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """exp(xᵢ) / Σ exp(xⱼ) along `dim`."""
    return ops.softmax(input, _dimension("softmax", input, dim), dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """softmax of -x."""
    return ops.softmax(-input, _dimension("softmin", input, dim), dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """xᵢ - log Σ exp(xⱼ) along `dim`."""
    return ops.log_softmax(input, _dimension("log_softmax", input, dim), dtype=dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A random point of the simplex near a corner; with `hard` the corner, with its gradient."""
    noise = -ops.exponential(logits.detach()).log()
    soft = ops.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    corner = ops.zeros_like(logits).scatter(dim, soft.argmax(dim, True), 1.0)
    return corner - soft.detach() + soft
