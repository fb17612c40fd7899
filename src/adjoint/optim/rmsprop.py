"""RMSprop, steps divided by the root of the mean square."""

from __future__ import annotations

from typing import Any

from adjoint.optim.formulas import FormulaOptimizer, Numbers, Scalars
from adjoint.optim.options import Options


class RMSprop(FormulaOptimizer):
    """RMSprop: p ← p - lr·g / (√v + eps), for the running mean v of g².

    `centered` subtracts the square of the mean of g from v; `momentum` steps along a running sum of
    the quotients. `foreach` and `capturable` change nothing: there is one implementation, and there
    are no CUDA graphs. Hinton 2012, Graves 2013.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = ad.optim.RMSprop([x], lr=0.01)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    def __init__(
        self, params: Any, lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0, momentum: float = 0, centered: bool = False,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def slots(self, group: Options) -> tuple[str, ...]:
        more = {"momentum_buffer": group["momentum"] > 0, "grad_avg": group["centered"]}
        return ("square_avg", *[name for name, wanted in more.items() if wanted])

    def numbers(self, group: Options, scalars: Scalars) -> tuple[Numbers, Scalars]:
        (step,) = scalars
        return {
            "lr": group["lr"],
            "alpha": group["alpha"],
            "gain": 1 - group["alpha"],
            "eps": group["eps"],
            "momentum": group["momentum"] or None,
            "centered": 1.0 if group["centered"] else None,
        }, (step + 1,)

    @staticmethod
    def formula(xp: Any, n: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        v = state[0] * n.alpha + g * g * n.gain
        variance, means = v, ()
        if n.centered is not None:
            mean = state[-1] + (g - state[-1]) * n.gain
            variance, means = v - mean * mean, (mean,)
        quotient = g / (xp.sqrt(variance) + n.eps)
        if n.momentum is None:
            return p - quotient * n.lr, v, *means
        total = state[1] * n.momentum + quotient
        return p - total * n.lr, v, total, *means
