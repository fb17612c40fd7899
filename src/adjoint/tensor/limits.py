"""The quotient ȳ/y of a norm's backward where both vanish, by L'Hôpital's rule on the tape.

Note [Norms at zero]: the gradient of y = ‖x‖ is x ȳ/y. At x = 0 that is 0 whatever ȳ/y is, the
subgradient; but its own derivative is ȳ/y, so the Hessian of h(‖x‖) at 0 is I times the limit of
ȳ/y, which is dȳ/dy. The values alone do not tell it: ‖x‖² (limit 2) and ‖x‖³ (limit 0) both arrive
with ȳ = y = 0. The history of ȳ does, if the backward pass is recorded to be differentiated again.
It is not there in forward mode over reverse mode, nor in a graph; the second derivative is 0 there,
as in PyTorch. Nor does it tell anything of a product of two norms that are computed apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.tensor import engine
from adjoint.tensor.function import Function
from adjoint.tensor.modes import modes
from adjoint.tensor.tensor import Tensor

Coefficients = Callable[[int], float]


def quotient_limit(grad: Any, result: Any, kink: Any) -> Any:
    """ȳ/y at the elements `kink`, where y = 0, as a function of y; None if the tape does not know.

    With ȳ(0) = 0 the m-th derivative of ȳ/y at y = 0 is that of ȳ′ divided by m + 1. Where ȳ is
    not 0 there is no limit, and 0 stands for the subgradient.
    """
    if type(grad) is not Tensor or type(result) is not Tensor or not modes.recording:
        return None
    if grad.edge is None or result.edge is None or not kink.value.any():
        return None
    chosen = kink & (grad == 0)
    slope = _slope(grad, result, chosen)
    return None if slope is None else _expansion(slope, result, chosen, lambda m: 1 / (m + 1))


def _slope(value: Tensor, result: Tensor, chosen: Tensor) -> Tensor | None:
    """d value / d result at the chosen elements, with its history."""
    if value.edge is None:
        return None
    ones = chosen.to(value.dtype)
    (slope,) = engine.gradients([value], [ones], [result], create_graph=True, retain_graph=True)
    return None if slope is None else slope * chosen


def _expansion(value: Tensor, result: Tensor, chosen: Tensor, c: Coefficients) -> Tensor:
    """φ with φ⁽ᵐ⁾(0) = c(m) g⁽ᵐ⁾(0), where `value` is g(0) and its history knows g(y)."""
    if not modes.recording:
        return value * c(0)
    return _Expansion.apply(value, result, (value, result, chosen, c))


class _Expansion(Function):
    """φ = c(0) g, to whose derivative c(0) g′ is added ψ with ψ⁽ᵐ⁾ = (c(m + 1) - c(0)) g⁽ᵐ⁺¹⁾."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, result: Tensor, history: Any) -> Tensor:
        ctx.history = history
        return value * history[3](0)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, Any, None]:
        (grad,) = grads
        value, result, chosen, c = ctx.history
        first = c(0)
        last = not modes.recording and type(grad) is Tensor and not grad.value.any()
        slope = None if last else _slope(value, result, chosen)
        if slope is None:
            return grad * first, None, None
        rest = _expansion(slope, result, chosen, lambda m: c(m + 1) - first)
        return grad * first, grad * rest, None
