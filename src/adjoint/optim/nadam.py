"""NAdam, Adam with Nesterov's momentum."""

from __future__ import annotations

from typing import Any, ClassVar

from adjoint.optim.formulas import FormulaOptimizer, Numbers, Scalars, decoupled
from adjoint.optim.options import Options


class NAdam(FormulaOptimizer):
    """NAdam: Adam that looks ahead as Nesterov's momentum does.

    p ← p - lr·((1 - μₜ)/(1 - Πμ)·g + μₜ₊₁/(1 - Πμ·μₜ₊₁)·m) / (√v̂ + eps), where the momentum grows
    with the step: μₜ = β₁·(1 - 0.96^(t·momentum_decay) / 2). `foreach` and `capturable` change
    nothing: there is one implementation, and there are no CUDA graphs. Dozat 2016.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = ad.optim.NAdam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([ 0.8944, -1.8944], requires_grad=True)
    """

    initial_scalars: ClassVar[dict[str, float]] = {"step": 0.0, "mu_product": 1.0}
    slot_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def numbers(self, group: Options, scalars: Scalars) -> tuple[Numbers, Scalars]:
        step, product = scalars
        beta1, beta2 = group["betas"]
        step = step + 1
        mu, mu_next = (
            beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1)
        )
        product = product * mu
        return {
            "gain1": 1 - beta1,
            "beta2": beta2,
            "gain2": 1 - beta2,
            "of_gradient": group["lr"] * (1 - mu) / (1 - product),
            "of_mean": group["lr"] * mu_next / (1 - product * mu_next),
            "bias2": 1 - beta2**step,
            "eps": group["eps"],
            **(decoupled(group) if group["decoupled_weight_decay"] else {}),
        }, (step, product)

    @staticmethod
    def formula(xp: Any, n: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        m, v = state
        m = m + (g - m) * n.gain1
        v = v * n.beta2 + g * g * n.gain2
        ahead = g * n.of_gradient + m * n.of_mean
        return p - ahead / (xp.sqrt(v / n.bias2) + n.eps), m, v
