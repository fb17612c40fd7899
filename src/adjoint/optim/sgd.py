"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any, ClassVar

from adjoint.optim.formulas import FormulaOptimizer, Numbers, Scalars
from adjoint.optim.options import Options


class SGD(FormulaOptimizer):
    """Stochastic gradient descent, with momentum: v ← momentum·v + (1 - dampening)·g, p ← p - lr·v.

    `nesterov` steps along g + momentum·v. The first v is g. `foreach` and `fused` change nothing:
    there is one implementation.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = ad.optim.SGD([x], lr=0.1, momentum=0.9)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     (x * x).sum().backward()
    ...     optimizer.step()
    >>> x
    tensor([ 0.4600, -0.9200], requires_grad=True)
    """

    initial_scalars: ClassVar[dict[str, float]] = {}
    takes_sparse = True
    state_fades = True
    checks = (
        (
            lambda o: not (o["nesterov"] and (o["momentum"] <= 0 or o["dampening"] != 0)),
            "(nesterov=True): needs momentum, and no dampening",
        ),
    )

    def __init__(
        self, params: Any, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: Any = 0, nesterov: bool = False, *, maximize: bool = False,
        foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def slots(self, group: Options) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def scalar_values(self, p: Any, group: Options) -> tuple[Any, ...]:
        """Whether this is the parameter's first step: dampening begins with the second."""
        return (self.state.get(p, {}).get("momentum_buffer") is None,)

    def numbers(self, group: Options, scalars: Scalars) -> tuple[Numbers, Scalars]:
        (first,) = scalars
        return {
            "lr": group["lr"],
            "momentum": group["momentum"],
            "gain": None if first or group["dampening"] == 0 else 1 - group["dampening"],
            "nesterov": 1.0 if group["nesterov"] else None,
        }, ()

    @staticmethod
    def formula(xp: Any, n: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        if not state:
            return (p - g * n.lr,)
        v = state[0] * n.momentum + (g if n.gain is None else g * n.gain)
        ahead = v if n.nesterov is None else g + v * n.momentum
        return p - ahead * n.lr, v
