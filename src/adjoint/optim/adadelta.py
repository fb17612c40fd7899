"""Adadelta, steps in the units of the parameter."""

from __future__ import annotations

from typing import Any

from adjoint.optim.formulas import FormulaOptimizer, Numbers, Scalars
from adjoint.optim.options import Options


class Adadelta(FormulaOptimizer):
    """Adadelta: p ← p - lr·Δ, Δ = √(d + eps) / √(v + eps) · g, for running means v of g², d of Δ².

    `foreach` and `capturable` change nothing: there is one implementation, and there are no CUDA
    graphs. Zeiler 2012.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = ad.optim.Adadelta([x], lr=10.0)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([ 0.9684, -1.9684], requires_grad=True)
    """

    checks = ((lambda o: 0 <= o["rho"] <= 1, "(rho={rho}): must be from 0 to 1"),)
    slot_names = ("square_avg", "acc_delta")

    def __init__(
        self, params: Any, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6,
        weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def numbers(self, group: Options, scalars: Scalars) -> tuple[Numbers, Scalars]:
        (step,) = scalars
        rho = group["rho"]
        return {"lr": group["lr"], "rho": rho, "gain": 1 - rho, "eps": group["eps"]}, (step + 1,)

    @staticmethod
    def formula(xp: Any, n: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        v, d = state
        v = v * n.rho + g * g * n.gain
        delta = xp.sqrt(d + n.eps) / xp.sqrt(v + n.eps) * g
        return p - delta * n.lr, v, d * n.rho + delta * delta * n.gain
