"""Adam, and AdamW, which decays weights apart from the gradient."""

from __future__ import annotations

from typing import Any

from adjoint.optim.formulas import FormulaOptimizer, Numbers, Scalars, decoupled
from adjoint.optim.options import Options


class Adam(FormulaOptimizer):
    """Adam: p ← p - lr·m̂ / (√v̂ + eps), for the running means m of g and v of g².

    m̂ = m / (1 - β₁ᵗ) and v̂ = v / (1 - β₂ᵗ) undo the bias of the means towards their start at 0.
    `amsgrad` divides by the largest v so far; `decoupled_weight_decay` makes it AdamW. `foreach`
    and `fused` change nothing, there is one implementation; nor does `capturable`, there are no
    CUDA graphs. Kingma and Ba 2015, Reddi et al. 2018.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = ad.optim.Adam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    checks = (
        (
            lambda o: isinstance(o["betas"][0], float) == isinstance(o["betas"][1], float),
            "(betas={betas}): use two floats or two tensors",
        ),
    )

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: Any = 0, amsgrad: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def slots(self, group: Options) -> tuple[str, ...]:
        largest = ("max_exp_avg_sq",) if group["amsgrad"] else ()
        return ("exp_avg", "exp_avg_sq", *largest)

    def numbers(self, group: Options, scalars: Scalars) -> tuple[Numbers, Scalars]:
        (step,) = scalars
        beta1, beta2 = group["betas"]
        step = step + 1
        return {
            "gain1": 1 - beta1,
            "beta2": beta2,
            "gain2": 1 - beta2,
            "rate": group["lr"] / (1 - beta1**step),
            "scale": (1 - beta2**step) ** 0.5,
            "eps": group["eps"],
            **(decoupled(group) if group["decoupled_weight_decay"] else {}),
        }, (step,)

    @staticmethod
    def formula(xp: Any, n: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        m, v, *largest = state
        m = m + (g - m) * n.gain1
        v = v * n.beta2 + g * g * n.gain2
        largest = [xp.maximum(w, v) for w in largest]
        root = xp.sqrt(largest[0] if largest else v) / n.scale
        return p - m * n.rate / (root + n.eps), m, v, *largest


class AdamW(Adam):
    """Adam with weight decay apart from the gradient: p ← p - lr·(weight_decay·p + m̂ / (√v̂ + eps)).

    Loshchilov and Hutter 2019.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = ad.optim.AdamW([x], lr=0.1, weight_decay=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([ 0.8500, -1.8000], requires_grad=True)
    """

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: Any = 1e-2, amsgrad: bool = False, *,
        maximize: bool = False, foreach: bool | None = None, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        every = {**locals(), "decoupled_weight_decay": True}
        super(Adam, self).__init__(params, every)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
