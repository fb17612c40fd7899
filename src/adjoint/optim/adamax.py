"""Adamax, Adam with the largest gradient in place of the mean square."""

from __future__ import annotations

from typing import Any

from adjoint.optim.formulas import FormulaOptimizer, Numbers, Scalars
from adjoint.optim.options import Options


class Adamax(FormulaOptimizer):
    """Adamax: p ← p - lr / (1 - β₁ᵗ) · m / u, for the mean m of g and u ← max(β₂·u, |g| + eps).

    `foreach` and `capturable` change nothing: there is one implementation, and there are no CUDA
    graphs. Kingma and Ba 2015, §7.1.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = ad.optim.Adamax([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    slot_names = ("exp_avg", "exp_inf")

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def numbers(self, group: Options, scalars: Scalars) -> tuple[Numbers, Scalars]:
        (step,) = scalars
        beta1, beta2 = group["betas"]
        step = step + 1
        return {
            "gain1": 1 - beta1,
            "beta2": beta2,
            "rate": group["lr"] / (1 - beta1**step),
            "eps": group["eps"],
        }, (step,)

    @staticmethod
    def formula(xp: Any, n: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        m, u = state
        m = m + (g - m) * n.gain1
        u = xp.maximum(u * n.beta2, xp.abs(g) + n.eps)
        return p - m * n.rate / u, m, u
