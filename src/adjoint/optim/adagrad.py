"""Adagrad, steps divided by the root of the sum of squares."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.optim.formulas import FormulaOptimizer, Numbers, Scalars
from adjoint.optim.options import Options


class Adagrad(FormulaOptimizer):
    """Adagrad: p ← p - lr / (1 + (t - 1)·lr_decay) · g / (√s + eps), for the sum s of g² so far.

    The entries that a sparse gradient does not store stay as they are. `foreach` and `fused` change
    nothing: there is one implementation. Duchi, Hazan and Singer 2011.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = ad.optim.Adagrad([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    takes_sparse = True
    slot_names = ("sum",)

    def __init__(
        self, params: Any, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())
        for group in self.param_groups:
            for p in group["params"]:
                self.scalar_values(p, group)
                self.slot_values(p, group)

    def initial(self, name: str, p: Any, group: Options) -> Any:
        first = self.defaults["initial_accumulator_value"]
        return ops.full_like(p.detach(), complex(first, first) if p.is_complex() else first)

    def numbers(self, group: Options, scalars: Scalars) -> tuple[Numbers, Scalars]:
        (step,) = scalars
        rate = group["lr"] / (1 + step * group["lr_decay"])
        return {"rate": rate, "eps": group["eps"]}, (step + 1,)

    @staticmethod
    def formula(xp: Any, n: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        total = state[0] + g * g
        return p - g * n.rate / (xp.sqrt(total) + n.eps), total
