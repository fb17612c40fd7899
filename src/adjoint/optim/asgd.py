"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any, ClassVar

from adjoint.optim.formulas import FormulaOptimizer, Numbers, Scalars
from adjoint.optim.options import Options


class ASGD(FormulaOptimizer):
    """Averaged stochastic gradient descent: p ← (1 - lambd·η)·p - η·g, and `ax`, the average of p.

    η = lr / (1 + lambd·lr·t)^alpha; averaging begins after step `t0`, until then `ax` is p.
    `foreach` and `capturable` change nothing: there is one implementation, and there are no CUDA
    graphs. Polyak and Juditsky 1992.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = ad.optim.ASGD([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([ 0.8000, -1.6000], requires_grad=True)
    """

    initial_scalars: ClassVar[dict[str, float]] = {"step": 0.0, "eta": 0.0, "mu": 1.0}
    unchecked = ("alpha",)
    slot_names = ("ax",)

    def __init__(
        self, params: Any, lr: Any = 1e-2, lambd: float = 1e-4, alpha: float = 0.75,
        t0: float = 1e6, weight_decay: float = 0, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def initial_scalar(self, name: str, group: Options) -> Any:
        made = super().initial_scalar(name, group)
        if name == "eta" and group:
            made.value[...] = float(group["lr"])
        return made

    def numbers(self, group: Options, scalars: Scalars) -> tuple[Numbers, Scalars]:
        step, eta, mu = scalars
        lr, lambd, step = group["lr"], group["lambd"], step + 1
        next_eta = lr / (1 + lambd * lr * step) ** group["alpha"]
        next_mu = 1 / max(1, step - group["t0"])
        numbers = {"shrink": 1 - lambd * eta, "eta": eta, "mu": None if mu == 1 else mu}
        return numbers, (step, next_eta, next_mu)

    @staticmethod
    def formula(xp: Any, n: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        p = p - g * n.eta
        (average,) = state
        return p, p if n.mu is None else average + (p - average) * n.mu
