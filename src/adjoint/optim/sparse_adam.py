"""SparseAdam, Adam of the entries that a sparse gradient stores."""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import ValueRangeError
from adjoint.optim.formulas import FormulaOptimizer, Numbers, Scalars
from adjoint.optim.options import Options


class SparseAdam(FormulaOptimizer):
    """Adam for sparse gradients: entries that a gradient does not store keep value and state.

    p ← p - lr·√(1 - β₂ᵗ) / (1 - β₁ᵗ) · m / (√v + eps), where t counts the steps of the parameter.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = ad.optim.SparseAdam([x], lr=0.1)
    >>> x.grad = ad.tensor([0.0, 3.0]).to_sparse()
    >>> optimizer.step()
    >>> x
    tensor([ 1.0000, -2.1000], requires_grad=True)
    """

    takes_sparse = only_sparse = True
    checks = (
        (
            lambda o: o["lr"] != 0 and o["eps"] != 0,
            "(lr={lr}, eps={eps}): both must be more than 0",
        ),
    )
    slot_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of dense real parameters."""
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            if p.is_sparse or p.is_complex():
                kind = "sparse" if p.is_sparse else "complex"
                raise ValueRangeError(
                    f"SparseAdam: parameters are dense and real, got a {kind} one"
                )

    def initial_scalar(self, name: str, group: Options) -> Any:
        return 0  # a plain number, as in PyTorch

    def numbers(self, group: Options, scalars: Scalars) -> tuple[Numbers, Scalars]:
        (step,) = scalars
        beta1, beta2 = group["betas"]
        step = step + 1
        return {
            "gain1": 1 - beta1,
            "gain2": 1 - beta2,
            "rate": group["lr"] * (1 - beta2**step) ** 0.5 / (1 - beta1**step),
            "eps": group["eps"],
        }, (step,)

    @staticmethod
    def formula(xp: Any, n: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        m, v = state
        m = m + (g - m) * n.gain1
        v = v + (g * g - v) * n.gain2
        return p - m * n.rate / (xp.sqrt(v) + n.eps), m, v
