"""RAdam, Adam that waits until the variance is known."""

from __future__ import annotations

from typing import Any

from adjoint.optim.formulas import FormulaOptimizer, Numbers, Scalars, decoupled
from adjoint.optim.options import Options


class RAdam(FormulaOptimizer):
    """RAdam: Adam that steps along the mean alone as long as the variance of v̂ is too large.

    ρₜ, the length of the average that v is, says so: from ρₜ > 5 on the step is Adam's, times
    √((ρₜ - 4)(ρₜ - 2)ρ∞ / ((ρ∞ - 4)(ρ∞ - 2)ρₜ)). `foreach` and `capturable` change nothing: there
    is one implementation, and there are no CUDA graphs. Liu et al. 2020.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = ad.optim.RAdam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([ 0.8000, -1.6000], requires_grad=True)
    """

    slot_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def numbers(self, group: Options, scalars: Scalars) -> tuple[Numbers, Scalars]:
        (step,) = scalars
        beta1, beta2 = group["betas"]
        step = step + 1
        bias2 = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / bias2
        rate, eps = group["lr"] / (1 - beta1**step), None
        if length > 5:
            trust = (length - 4) * (length - 2) * longest
            trust = trust / ((longest - 4) * (longest - 2) * length)
            rate, eps = rate * (trust * bias2) ** 0.5, group["eps"]
        return {
            "gain1": 1 - beta1,
            "beta2": beta2,
            "gain2": 1 - beta2,
            "rate": rate,
            "eps": eps,  # None as long as the step does not adapt
            **(decoupled(group) if group["decoupled_weight_decay"] else {}),
        }, (step,)

    @staticmethod
    def formula(xp: Any, n: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        m, v = state
        m = m + (g - m) * n.gain1
        v = v * n.beta2 + g * g * n.gain2
        ahead = m * n.rate
        return p - (ahead if n.eps is None else ahead / (xp.sqrt(v) + n.eps)), m, v
