"""The quotient ȳ/y of a norm's backward where both vanish, by L'Hôpital's rule on the tape.

Note [Norms at zero]: the gradient of y = ‖x‖ is x ȳ/y. At x = 0 that is 0 whatever ȳ/y is, the subgradient; but
its own derivative is ȳ/y, so the Hessian of h(‖x‖) at 0 is I times lim ȳ/y = dȳ/dy. The values alone do
not tell it: ‖x‖² (limit 2) and ‖x‖³ (limit 0) both arrive with ȳ = y = 0. The history of ȳ does, when a
backward pass is recorded in order to be differentiated again. It is not there in forward mode over
reverse mode, nor in a graph; the second derivative at 0 is 0 there, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from adjoint.tensor import engine
from adjoint.tensor.modes import modes
from adjoint.tensor.tensor import Tensor

_TERMS = ((1, 0.5), (2, 1 / 6))


def quotient_limit(grad: Any, result: Any, kink: Any) -> Any:
    """ȳ/y at the elements `kink`, where y = 0, as a function of y; None if the tape does not know.

    From the expansion of ȳ(0) = 0 around y: ȳ/y = ȳ′ - y ȳ″/2 + y² ȳ‴/6 - …; its value at y = 0 is the first
    term, and the next two make its derivatives right, up to the fourth derivative of h(‖x‖). Where
    ȳ is not 0 there is no limit, and 0 stands for the subgradient.
    """
    if type(grad) is not Tensor or type(result) is not Tensor or not modes.recording:
        return None
    if grad.edge is None or result.edge is None or not kink.value.any():
        return None
    weight = kink & (grad == 0)
    slope = _slope(grad, result, weight)
    if slope is None:
        return None
    limit = slope
    for power, factor in _TERMS:
        slope = _slope(slope, result, weight)
        if slope is None:
            break
        limit = limit + slope * result**power * (factor * (-1) ** power)
    return limit * weight


def _slope(value: Tensor, result: Tensor, weight: Tensor) -> Tensor | None:
    """d value / d result, elementwise at the chosen elements."""
    if value.edge is None:
        return None
    ones = weight.to(value.dtype)
    (slope,) = engine.gradients([value], [ones], [result], create_graph=True, retain_graph=True)
    return slope
