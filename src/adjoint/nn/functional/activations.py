"""Activation functions with PyTorch's signatures in Python: `inplace`, and `dim` by keyword."""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.core.errors import ValueRangeError
from adjoint.core.source_lines import warn
from adjoint.tensor.tensor import Tensor


def _apply(name: str, inplace: bool, *arguments: Any) -> Tensor:
    return getattr(ops, f"{name}_" if inplace else name)(*arguments)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0).

    >>> import adjoint as ad
    >>> ad.nn.functional.relu(ad.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _apply("relu", inplace, input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6).

    >>> import adjoint as ad
    >>> ad.nn.functional.relu6(ad.tensor([-1.0, 7.0]))
    tensor([0., 6.])
    """
    return _apply("relu6", inplace, input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, and alpha (exp(x) - 1) for negative x.

    >>> import adjoint as ad
    >>> ad.nn.functional.elu(ad.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return _apply("elu", inplace, input, alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, and alpha (exp(x / alpha) - 1) for negative x.

    >>> import adjoint as ad
    >>> ad.nn.functional.celu(ad.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return _apply("celu", inplace, input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu, scaled so that layers keep mean 0 and variance 1.

    >>> import adjoint as ad
    >>> ad.nn.functional.selu(ad.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return _apply("selu", inplace, input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x, and negative_slope x for negative x.

    >>> import adjoint as ad
    >>> ad.nn.functional.leaky_relu(ad.tensor([-1.0, 2.0]))
    tensor([-0.0100,  2.0000])
    """
    return _apply("leaky_relu", inplace, input, negative_slope)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x between two limits.

    >>> import adjoint as ad
    >>> ad.nn.functional.hardtanh(ad.tensor([-1.0, 2.0]))
    tensor([-1.,  1.])
    """
    if min_val > max_val:
        raise ValueRangeError(
            f"hardtanh(min_val={min_val}, max_val={max_val}): min_val must not exceed max_val."
        )
    return _apply("hardtanh", inplace, input, min_val, max_val)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """(x + 3) / 6 between 0 and 1.

    >>> import adjoint as ad
    >>> ad.nn.functional.hardsigmoid(ad.tensor([-1.0, 2.0]))
    tensor([0.3333, 0.8333])
    """
    return _apply("hardsigmoid", inplace, input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · hardsigmoid(x).

    >>> import adjoint as ad
    >>> ad.nn.functional.hardswish(ad.tensor([-1.0, 2.0]))
    tensor([-0.3333,  1.6667])
    """
    return _apply("hardswish", inplace, input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x σ(x).

    >>> import adjoint as ad
    >>> ad.nn.functional.silu(ad.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """
    return _apply("silu", inplace, input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(log(1 + exp(x))).

    >>> import adjoint as ad
    >>> ad.nn.functional.mish(ad.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """
    return _apply("mish", inplace, input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x, and `value` for x up to the threshold.

    >>> import adjoint as ad
    >>> ad.nn.functional.threshold(ad.tensor([0.5, 2.0]), 1.0, 9.0)
    tensor([9., 2.])
    """
    return _apply("threshold", inplace, input, threshold, value)


def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """leaky_relu with a random slope for each element while training.

    >>> import adjoint as ad
    >>> ad.nn.functional.rrelu(ad.tensor([-6.0, 2.0]))
    tensor([-1.3750,  2.0000])
    """
    if not -math.inf < lower <= upper < math.inf:
        raise ValueRangeError(
            f"rrelu(lower={lower}, upper={upper}): slopes lie between finite numbers, lower first."
        )
    return _apply("rrelu", inplace, input, lower, upper, training)


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log σ(x).

    >>> import adjoint as ad
    >>> ad.nn.functional.logsigmoid(ad.tensor([-1.0, 2.0]))
    tensor([-1.3133, -0.1269])
    """
    return ops.log_sigmoid(input) if out is None else ops.log_sigmoid(input, out=out)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x).

    >>> import adjoint as ad
    >>> ad.nn.functional.tanhshrink(ad.tensor([-1.0, 2.0]))
    tensor([-0.2384,  1.0360])
    """
    return input - input.tanh() if input.is_complex() else ops._tanhshrink(input)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|).

    >>> import adjoint as ad
    >>> ad.nn.functional.softsign(ad.tensor([-1.0, 2.0]))
    tensor([-0.5000,  0.6667])
    """
    return input / (input.abs() + 1) if input.is_complex() else ops._softsign(input)


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
    """exp(xᵢ) / Σ exp(xⱼ) along `dim`.

    >>> import adjoint as ad
    >>> ad.nn.functional.softmax(ad.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([0.0900, 0.2447, 0.6652])
    """
    return ops.softmax(input, _dimension("softmax", input, dim), dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """softmax of -x.

    >>> import adjoint as ad
    >>> ad.nn.functional.softmin(ad.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([0.6652, 0.2447, 0.0900])
    """
    return ops.softmax(-input, _dimension("softmin", input, dim), dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """xᵢ - log Σ exp(xⱼ) along `dim`.

    >>> import adjoint as ad
    >>> ad.nn.functional.log_softmax(ad.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([-2.4076, -1.4076, -0.4076])
    """
    return ops.log_softmax(input, _dimension("log_softmax", input, dim), dtype=dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A random point of the simplex near a corner; with `hard` the corner, with its gradient.

    >>> import adjoint as ad
    >>> sample = ad.nn.functional.gumbel_softmax(ad.zeros(2, 3), hard=True)
    >>> sample.sum(1)
    tensor([1., 1.])
    """
    noise = -ops.exponential(logits.detach()).log()
    soft = ops.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    corner = ops.zeros_like(logits).scatter(dim, soft.argmax(dim, True), 1.0)
    return corner - soft.detach() + soft
